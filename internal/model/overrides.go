package model

import (
	"fmt"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// Override multiplies the numbers of a rule for one caller, in a version of the rules.
type Override struct {
	Rule, Caller string
	Times        rules.Times
	Until        time.Duration // 0 for never
}

func (o Override) String() string {
	text := fmt.Sprintf("override of %s for %s: %s times", o.Rule, o.Caller, o.Times)
	if o.Until > 0 {
		text += ", until " + o.Until.String()
	}
	return text
}

// overridesOf are those of a version.
func (h *History) overridesOf(version int) []Override {
	if version < len(h.Overrides) {
		return h.Overrides[version]
	}
	return nil
}

// override is that of a bucket of a rule in a version, or nil.
func (h *History) override(version int, r *rules.Rule, bucket string) *Override {
	for i, o := range h.overridesOf(version) {
		if o.Rule == r.ID && bucketName(r, o.Caller) == bucket {
			return &h.Overrides[version][i]
		}
	}
	return nil
}

// numbers are the bands of a rule for a bucket in a version, before the end of an override or
// after it.
func (h *History) numbers(version int, r *rules.Rule, bucket string, ended bool) []rules.Band {
	o := h.override(version, r, bucket)
	if o == nil || ended && o.Until > 0 {
		return r.Bands
	}
	bands, err := r.Overridden(o.Times, nil)
	if err != nil {
		return r.Bands
	}
	return bands
}

// ruleIn is a rule in a version, or nil.
func (h *History) ruleIn(version int, id string) *rules.Rule {
	at := slices.IndexFunc(h.Versions[version], func(r rules.Rule) bool { return r.ID == id })
	if at < 0 {
		return nil
	}
	return &h.Versions[version][at]
}

// endsAfter is when the override of a bucket in a version ends, if it does.
func (h *History) endsAfter(version int, rule, bucket string) (at time.Duration, ends bool) {
	r := h.ruleIn(version, rule)
	if r == nil {
		return 0, false
	}
	o := h.override(version, r, bucket)
	return endOfOverride(o), endOfOverride(o) > 0
}

func endOfOverride(o *Override) time.Duration {
	if o == nil {
		return 0
	}
	return o.Until
}

// apply puts the overrides of a version in effect at a gateway.
func (g *gateway) apply(version int) {
	set := g.rules[version]
	var all []rules.Override
	for _, o := range g.history.overridesOf(version) {
		r, ok := set.Rule(o.Rule)
		if !ok {
			continue
		}
		change := rules.Override{RuleSetID: RuleSetID, RuleID: o.Rule, Identity: map[string]string{}, Times: o.Times}
		switch r.Scope {
		case rules.ScopeUser:
			change.Identity["userId"] = o.Caller
		case rules.ScopeAPIKey:
			change.Identity["apiKey"] = digestOf(o.Caller)
		case rules.ScopeIP:
			change.Identity["ip"] = addressOf(o.Caller).String()
		}
		if o.Until > 0 {
			change.Until = g.begun.Add(o.Until)
		}
		all = append(all, change)
	}
	_ = g.overrides.Load(set, func(yield func([]rules.Override, error) bool) { yield(all, nil) }) // never fails
	g.version.Store(int64(version))
}

// checkOverrides checks that an override applies to its caller, until its end, and to no other.
func (s *spec) checkOverrides() {
	unsure := s.any(ClockStepped, Stalled)
	for i := range s.facts {
		f := &s.facts[i]
		if f.Kind != Decided || f.Err != nil {
			continue
		}
		for j := range f.Rules {
			s.checkOverride(f, &f.Rules[j], unsure)
		}
	}
}

func (s *spec) checkOverride(f *Fact, r *RuleFact, unsure bool) {
	rule := s.ruleIn(f.Version, r.Rule.ID)
	if rule == nil {
		return
	}
	is := func(ended bool) bool {
		return slices.EqualFunc(s.numbers(f.Version, rule, r.Bucket, ended), r.Rule.Bands, func(a, b rules.Band) bool {
			return a.Capacity == b.Capacity && a.Tokens() == b.Tokens()
		})
	}
	end, ends := s.endsAfter(f.Version, rule.ID, r.Bucket)
	if ends && s.alone(f) {
		return
	}
	unsure = unsure || s.faultAt(f.Gateway, f.Began-recovery, f.At)
	switch {
	case ends && (unsure || f.At-f.Held >= end && f.Began < end+s.lag(f.Gateway)):
		if !is(false) && !is(true) {
			s.violate(LineOverride, f.At, "request %d has other numbers of bucket %s than before and after its override", f.Check, r.Bucket)
		}
	case ends && f.Began >= end && !is(true):
		s.violate(LineOverride, f.At, "request %d has the numbers of an override of bucket %s that has ended at %v", f.Check, r.Bucket, end)
	case (!ends || f.Began < end) && !is(false):
		s.violate(LineOverride, f.At, "request %d has other numbers of bucket %s than its rule and its override in version %d", f.Check, r.Bucket, f.Version)
	}
}

// applied is a rule with the numbers that band i had.
func applied(rule *rules.Rule, i int, b *rules.Band) *rules.Rule {
	own := *rule
	own.Bands = slices.Clone(rule.Bands)
	own.Bands[i].Capacity, own.Bands[i].RefillTokens = b.Capacity, b.RefillTokens
	return &own
}
