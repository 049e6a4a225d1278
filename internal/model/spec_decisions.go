package model

import (
	"errors"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// checkDecisions checks that each decision follows from what its rules said, and that
// those said what the store said.
func (s *spec) checkDecisions() {
	for i := range s.facts {
		f := &s.facts[i]
		if f.Kind != Decided || f.Err != nil {
			continue
		}
		vetoed, alternatives, over := false, 0, 0
		for j := range f.Rules {
			r := &f.Rules[j]
			shadow, alternative := r.Rule.Mode == rules.ModeShadow, r.Rule.Mode == rules.ModeAlternative
			no := r.Status == store.Rejected || r.Status == store.TooCostly
			if alternative {
				alternatives++
			}
			if alternative && no {
				over++
			}
			vetoed = vetoed || no && !shadow && !alternative
			if f.Allowed && no && !shadow && !alternative {
				s.violate(LineDecision, f.At, "request %d is allowed, and rule %s says %v", f.Check, r.Rule.ID, r.Status)
			}
			s.checkSource(f, r)
		}
		allOver := alternatives > 0 && over == alternatives
		if vetoed = vetoed || allOver; f.Allowed && allOver {
			s.violate(LineDecision, f.At, "request %d is allowed, and all alternative rules are over", f.Check)
		}
		if !f.Allowed && f.Reason == fluxgate.ReasonLimited && !vetoed {
			s.violate(LineDecision, f.At, "request %d is refused, and no enforced rule refuses it", f.Check)
		}
		if !f.Allowed {
			s.checkWithdrawn(f)
		}
	}
	s.checkOnce()
	s.checkResetsSeen()
}

// checkOnce checks that what was taken for a request is taken once.
func (s *spec) checkOnce() {
	type bucketOf struct {
		check  int
		bucket string
	}
	taken := map[bucketOf]bool{}
	for i := range s.facts {
		f := &s.facts[i]
		if f.Kind != StoreTook || f.Check == 0 || f.Charge {
			continue
		}
		for j := range f.Buckets {
			b := bucketOf{f.Check, f.Buckets[j].Bucket}
			if f.Buckets[j].Granted > 0 && taken[b] {
				s.violate(LineOnce, f.At, "request %d takes from bucket %s twice", f.Check, b.bucket)
			}
			taken[b] = taken[b] || f.Buckets[j].Granted > 0
		}
	}
}

// checkSource checks one rule of a decision against where its answer came from.
func (s *spec) checkSource(f *Fact, r *RuleFact) {
	switch {
	case r.Source == store.FromFallback:
		if !s.faultAt(f.Gateway, f.Began-recovery, f.At) && !s.startedSince(f.Gateway, f.Began-recovery) {
			s.violate(LineRecovery, f.At, "request %d at gateway %d is decided by the fallback, %v after the last fault", f.Check, f.Gateway, recovery)
		}
	case r.Source == store.FromStore && f.Allowed && r.Granted > 0:
		took := s.takes[f.Check]
		granted := int64(0)
		if took != nil {
			for i := range took.Buckets {
				if took.Buckets[i].Bucket == r.Bucket {
					granted = took.Buckets[i].Granted
				}
			}
		}
		if granted < r.Granted {
			s.violate(LineDecision, f.At, "request %d has %d tokens of bucket %s by the store, which has granted %d to it in time", f.Check, r.Granted, r.Bucket, granted)
		}
	}
}

func (s *spec) startedSince(gateway int, at time.Duration) bool {
	return slices.ContainsFunc(s.facts, func(f Fact) bool { return f.Kind == Started && f.Gateway == gateway && f.At > 0 && f.At >= at })
}

// checkWithdrawn checks that a refused request gave back what the store had granted it.
func (s *spec) checkWithdrawn(f *Fact) {
	took := s.takes[f.Check]
	if took == nil || s.faultAt(f.Gateway, f.Began-recovery, f.At+recovery) {
		return
	}
	for i := range took.Buckets {
		b := &took.Buckets[i]
		if b.Granted == 0 || b.Overdraft || b.counted() || b.Min > 0 { // what is beyond is a slice
			continue
		}
		back := slices.ContainsFunc(s.settling[f.Check], func(t *Fact) bool {
			return t.Kind == StoreSettled && slices.ContainsFunc(t.Buckets, func(o BucketFact) bool { return o.Bucket == b.Bucket && o.Actual == 0 })
		})
		if !back {
			s.violate(LineAllOrNothing, f.At, "request %d is refused, and keeps %d tokens of bucket %s", f.Check, b.Granted, b.Bucket)
		}
	}
}

// checkResetsSeen checks that every gateway uses the buckets of a reset in time.
func (s *spec) checkResetsSeen() {
	generation := 0
	for i := range s.facts {
		f := &s.facts[i]
		if f.Kind != StoreReset || len(f.Buckets) > 0 {
			continue
		}
		generation++
		seen := s.seenBy(f)
		for j := i + 1; j < len(s.facts); j++ {
			t := &s.facts[j]
			old := func(b BucketFact) bool { return (f.Rule == "" || b.Rule == f.Rule) && b.Generation < generation }
			if t.Kind == StoreTook && t.Began > seen && slices.ContainsFunc(t.Buckets, old) {
				s.violate(LineReset, t.At, "gateway %d uses buckets of before the reset of %q, %v after it", t.Gateway, f.Rule, t.At-f.At)
				break
			}
		}
	}
}

// checkSettlements checks the settlements that callers get.
func (s *spec) checkSettlements() {
	for i := range s.facts {
		f := &s.facts[i]
		if f.Kind != Settled {
			continue
		}
		d := s.decided[f.Check]
		switch {
		case max(f.Actual, f.ActualTokens) > store.MaxCost: // it settles nothing, whatever the receipt
			if !errors.Is(f.Err, fluxgate.ErrCost) || len(f.Settlements) > 0 {
				s.violate(LineSettlement, f.At, "request %d was settled at %d requests and %d tokens: %+v, %v", f.Check, f.Actual, f.ActualTokens, f.Settlements, f.Err)
			}
			continue
		case f.Again && !errors.Is(f.Err, fluxgate.ErrSettled):
			s.violate(LineSettlement, f.At, "request %d was settled twice: %v", f.Check, f.Err)
		case d == nil || f.Again:
			continue
		}
		for measure, settled := range f.Settlements {
			cost, actual := d.Cost, f.Actual
			if measure == rules.MeasureTokens {
				cost, actual = d.Tokens, f.ActualTokens
			}
			if settled.Returned > max(0, cost-actual) || settled.Charged > max(0, actual-cost) && settled.Charged > actual {
				s.violate(LineSettlement, f.At, "request %d, which cost %d %s, was settled at %d: %+v", f.Check, cost, measure, actual, settled)
			}
		}
	}
}
