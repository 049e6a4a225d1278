package model

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// pathDenied is that of a rule that denies.
const pathDenied = "/denied"

// others are the callers whose requests are decided together with that of an operation.
func (op *Op) others() (callers []string) {
	for n := range op.With {
		callers = append(callers, fmt.Sprintf("d%02d", n))
	}
	return callers
}

// addressOf is the address of a caller.
func addressOf(caller string) netip.Addr {
	var b [4]byte
	copy(b[1:], caller)
	return netip.AddrFrom4([4]byte{10, b[2], b[3], b[1]})
}

// together are the requests of an operation that are decided as one.
func (op *Op) together(first *fluxgate.Request) []fluxgate.Request {
	reqs := []fluxgate.Request{*first}
	for _, caller := range op.others() {
		another, own := *first, requestOf(caller)
		another.UserID, another.APIKey, another.IP = own.UserID, own.APIKey, own.IP
		reqs = append(reqs, another)
	}
	if op.Denied {
		denied := *first
		denied.Path = pathDenied
		reqs = append(reqs, denied)
	}
	return reqs
}

// decide decides a request, with others if the operation has some.
func (g *gateway) decide(ctx context.Context, op *Op, req *fluxgate.Request) (fluxgate.Decision, error) {
	if op.With == 0 && !op.Denied {
		return g.engine.Check(ctx, req)
	}
	d, _, err := g.engine.CheckAll(ctx, op.together(req))
	return d, err
}

// ruleFacts are what each rule says about each of its buckets.
func (g *gateway) ruleFacts(d *fluxgate.Decision) (all []RuleFact) {
	receipt, granted := d.Receipt(), map[string]int64{}
	if receipt != nil {
		for i := range receipt.Takes {
			granted[g.names[receipt.Takes[i].Key.ID]] = receipt.Takes[i].Cost
		}
	}
	var buckets []string
	for r := range d.Evaluated(nil) {
		buckets = append(buckets, g.names[r.Key.ID])
	}
	for b := range d.Bands() {
		n := len(all)
		if n == 0 || len(all[n-1].Bands) == len(all[n-1].Rule.Bands) {
			if n >= len(buckets) {
				break // the outcome has no more
			}
			all = append(all, RuleFact{Rule: b.Rule, Bucket: buckets[n], Status: b.Status, Source: b.Source, Cost: b.Cost, Granted: granted[buckets[n]]})
			n++
		}
		last := &all[n-1]
		if i := len(last.Bands); b.Band != &b.Rule.Bands[i] {
			last.Rule = applied(last.Rule, i, b.Band)
		}
		last.Bands = append(last.Bands, BandFact{b.Limit, b.Remaining, b.Owed, b.Wait, b.FullAfter})
	}
	return all
}

// checkMatching checks which rules decide a request: those that match, the first of each group, until one
// allows or denies. Of requests that are decided together it checks that one that is denied denies all. No
// request fails but for its cost or its caller.
func (s *spec) checkMatching() {
	for i := range s.facts {
		f := &s.facts[i]
		if f.Kind != Decided || f.Op < 0 {
			continue
		}
		op := &s.Ops[f.Op]
		if f.Err != nil {
			if op.Leaves == 0 && max(op.Cost, op.Tokens) < 1<<53 {
				s.violate(LineDecision, f.At, "request %d fails: %v", f.Check, f.Err)
			}
			continue
		}
		if _, denies := matching(s.Versions[f.Version], pathDenied); op.Denied && denies && f.Allowed {
			s.violate(LineDecision, f.At, "request %d is allowed together with one that is denied", f.Check)
		}
		if op.With > 0 || op.Denied || slices.ContainsFunc(s.Versions[f.Version], func(r rules.Rule) bool { return !r.Until.IsZero() }) {
			continue
		}
		expected, denied := matching(s.Versions[f.Version], op.Path)
		var applied []string
		for j := range f.Rules {
			applied = append(applied, f.Rules[j].Rule.ID)
		}
		if denied {
			expected = nil
		}
		if isDenied := f.Reason == fluxgate.ReasonDenied; isDenied != denied || !slices.Equal(applied, expected) {
			s.violate(LineDecision, f.At, "request %d of %q is denied: %t, by rules %v, and it should be: %t, by %v", f.Check, op.Path, isDenied, applied, denied, expected)
		}
	}
}

// matching are the limits that apply to requests of a path, in their order, and whether they are denied.
func matching(list []rules.Rule, at string) (limits []string, denied bool) {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b rules.Rule) int {
		if a.Priority != b.Priority {
			return b.Priority - a.Priority
		}
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	groups := map[string]bool{}
	for i := range list {
		r := &list[i]
		if len(r.Paths) > 0 && !slices.Contains(r.Paths, at) || r.Group != "" && groups[r.Group] {
			continue
		}
		groups[r.Group] = true
		switch r.Action {
		case rules.ActionDeny:
			return limits, true
		case rules.ActionAllow:
			return limits, false
		}
		limits = append(limits, r.ID)
	}
	return limits, false
}
