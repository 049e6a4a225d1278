package model

import (
	"slices"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// checkEnds checks that a rule applies until its end, and not after it. A gateway knows the time
// of the store by its last answer, which may have been under way for a while. Without answers
// its own clock is that of the store, which does not step here.
func (s *spec) checkEnds() {
	if s.any(ClockStepped, Stalled) {
		return
	}
	for i := range s.facts {
		f := &s.facts[i]
		if f.Kind != Decided || f.Err != nil || f.Reason == fluxgate.ReasonDenied || s.grouped(f) {
			continue
		}
		for j := range s.Versions[f.Version] {
			rule := &s.Versions[f.Version][j]
			end, ends := endOf(rule)
			if !ends || s.alone(f) {
				continue
			}
			applies := slices.ContainsFunc(f.Rules, func(r RuleFact) bool { return r.Rule.ID == rule.ID })
			switch {
			case applies && f.Began >= end+s.lag(f.Gateway):
				s.violate(LineUntil, f.At, "request %d is decided by rule %s, which has ended at %v", f.Check, rule.ID, end)
			case !applies && f.At-f.Held < end && len(rule.Paths) == 0 && !s.faultAt(f.Gateway, f.Began-recovery, f.At):
				s.violate(LineUntil, f.At, "request %d is decided without rule %s, which ends at %v", f.Check, rule.ID, end)
			}
		}
	}
}

// grouped reports whether another rule may apply in place of one that has ended.
func (s *spec) grouped(f *Fact) bool {
	return slices.ContainsFunc(s.Versions[f.Version], func(r rules.Rule) bool { return r.Group != "" || r.Action != "" })
}

// alone reports whether a request is decided by the gateway's own clock, which may be wrong: it has had no
// answer of the store, which is away.
func (s *spec) alone(f *Fact) bool {
	return s.Gateways[f.Gateway].Ahead != 0 && s.faultAt(f.Gateway, f.Began-recovery, f.At) && !s.knowsTime(f.Gateway, f.Began)
}

// lag is how far a gateway may be behind the clock of the store.
func (s *spec) lag(gateway int) time.Duration { return callTimeout + s.Gateways[gateway].Latency }
