package model

import (
	"context"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// warnWithin is within which time a gateway warns of a level that it has seen, unless its call
// fails: a call has a deadline, and a bucket may have several warnings.
const warnWithin = 3 * time.Second

// warnSoon is within which time a gateway warns of a level that a take has seen, beside the
// journeys of the warnings.
const warnSoon = 200 * time.Millisecond

// warningLists are those of a store.
type warningLists interface {
	PendingWarnings(ctx context.Context, after string, most int) ([]store.Warning, error)
	DeliveredWarning(ctx context.Context, w *store.Warning) error
}

// Warn implements [store.Store].
func (l *link) Warn(ctx context.Context, w *store.Warning) error {
	own, ends := *w, w.Ends
	t, err := l.begin(settleCall, uint64(w.Percent)*31+uint64(w.Key.ID[0]))
	if err == nil {
		began := l.now()
		err = l.travel(ctx, t, func() { ends = l.warnAt(l, began, own) })
	}
	w.Ends = ends
	if err != nil && !l.gateway.dead.Load() {
		l.record(&Fact{
			Kind: WarnFailed, Gateway: l.gateway.number, Began: l.now(), Op: -1, Warning: &own, Err: err,
			Buckets: []BucketFact{{Bucket: l.names[w.Key.ID], Rule: w.Key.Rule}},
		})
	}
	return err
}

// warnAt adds a warning at the store, and notes those that are new.
func (w *world) warnAt(l *link, began time.Duration, warning store.Warning) (ends int64) {
	defer w.atStore()()
	l.sawResetsLocked()
	bucket := BucketFact{Bucket: w.names[warning.Key.ID], Rule: warning.Key.Rule, Generation: l.generation(warning.Key.Rule)}
	place(&warning.Key, bucket.Generation)
	_ = w.store.Warn(context.Background(), &warning) // never fails
	lists := w.store.(warningLists)
	pending, _ := lists.PendingWarnings(context.Background(), "", 10)
	for i := range pending {
		_ = lists.DeliveredWarning(context.Background(), &pending[i])
		w.recordLocked(&Fact{Kind: StoreWarned, Gateway: l.gateway.number, Began: began, Op: -1, Warning: &pending[i], Buckets: []BucketFact{bucket}})
	}
	return warning.Ends
}

// checkWarnings checks that each level at a threshold that a gateway has seen has its warning,
// and that a receiver that deduplicates gets it once in a period.
func (s *spec) checkWarnings() {
	warned := map[string][]*Fact{} // by bucket
	for i := range s.facts {
		if f := &s.facts[i]; f.Warning != nil {
			bucket := f.Buckets[0].Bucket
			s.checkWarning(f, warned[bucket])
			warned[bucket] = append(warned[bucket], f)
		}
	}
	for i := range s.facts {
		f := &s.facts[i]
		if f.Kind != StoreTook && f.Kind != StoreSettled || !f.Answered {
			continue
		}
		for j := range f.Buckets {
			b := &f.Buckets[j]
			if b.Status == store.OK || b.Status == store.Rejected || b.Status == store.TooCostly {
				s.checkWarned(f, b, warned[b.Bucket])
			}
		}
	}
}

// checkWarning checks one warning, given those before it.
func (s *spec) checkWarning(f *Fact, before []*Fact) {
	w, b := f.Warning, f.Buckets[0]
	if f.Kind == WarnFailed {
		if !s.faultAt(f.Gateway, f.Began-recovery, f.At) {
			s.violate(LineWarning, f.At, "a warning of bucket %s fails without a fault: %v", b.Bucket, f.Err)
		}
		return
	}
	if w.Used*100 < w.Capacity*int64(w.Percent) {
		s.violate(LineWarning, f.At, "bucket %s has used %d of %d, which is less than %d%%", b.Bucket, w.Used, w.Capacity, w.Percent)
	}
	for _, other := range before {
		o := other.Warning
		if other.Kind == WarnFailed || other.Buckets[0].Generation != b.Generation || o.Band != w.Band || o.Percent != w.Percent || o.Capacity != w.Capacity {
			continue
		}
		same := o.Ends == w.Ends
		if w.Window {
			same = w.At < o.Ends && o.At <= w.At && w.Ends-w.At == o.Ends-o.At
		}
		if lost := s.anyIn(other.At, f.At, StoreEmptied, ClockStepped); same && (!lost || !w.Window && o.ID != w.ID) {
			s.violate(LineWarning, f.At, "bucket %s is warned of at %d%% of %d twice in one period, first at %v", b.Bucket, w.Percent, w.Capacity, other.At)
		}
	}
}

// anyIn reports whether a fact of these kinds is in a time.
func (s *spec) anyIn(from, to time.Duration, kinds ...FactKind) bool {
	return slices.ContainsFunc(s.facts, func(f Fact) bool { return from <= f.At && f.At <= to && slices.Contains(kinds, f.Kind) })
}

// checkWarned checks that the levels of a bucket that a gateway was answered have warnings.
func (s *spec) checkWarned(f *Fact, b *BucketFact, warned []*Fact) {
	until, decision := f.At+warnWithin, s.decided[f.Check]
	took := f.Kind == StoreTook && f.Check > 0 && !f.Charge
	if took && decision != nil && decision.At >= f.At {
		until = decision.At - decision.Held + warnSoon + 2*time.Duration(len(rules.Percents{}))*s.Gateways[f.Gateway].Latency
	}
	switch {
	case !took && len(s.Overrides) > 0 && s.byAPIKey(b.Rule):
		return // where the numbers of the caller are not known, the next request of the caller warns
	case until > s.facts[len(s.facts)-1].At || s.endedIn(f.Gateway, f.At, until):
		return
	case s.faultAt(f.Gateway, f.At, until): // it may be stalled, or see other rules much later
		until += time.Minute
	}
	bands, levels := b.Exact, make([]int64, len(b.Exact))
	for i := range b.Bands {
		levels[i] = b.Bands[i].Limit - b.Bands[i].Remaining + b.Bands[i].Owed
	}
	if b.Level != nil {
		bands, levels = b.Taken, make([]int64, len(b.Taken))
		for i, r := range b.Level.Bands {
			levels[i] = bands[i].Capacity - r.Remaining + r.Owed
		}
	}
	for i := range bands {
		for _, percent := range s.reached(f, b, &bands[i], levels[i], until) {
			if !slices.ContainsFunc(warned, func(w *Fact) bool { return isWarned(w, f, b, percent, until) }) {
				s.violate(LineWarning, f.At, "gateway %d has seen that bucket %s has used %d, and there is no warning at %d%% of %d of %s",
					f.Gateway, b.Bucket, levels[i], percent.percent, percent.capacity, percent.band)
			}
		}
	}
}

// endedIn reports whether a gateway ended in a time.
func (s *spec) endedIn(gateway int, from, to time.Duration) bool {
	return slices.ContainsFunc(s.facts, func(f Fact) bool {
		return f.Gateway == gateway && from <= f.At && f.At <= to && (f.Kind == Killed || f.Kind == Stopped)
	})
}

// threshold is one that a band has reached.
type threshold struct {
	band     string
	percent  int
	capacity int64
}

// reached are the thresholds of a band that a level has reached, if its numbers are known.
func (s *spec) reached(f *Fact, b *BucketFact, exact *store.ExactBand, used int64, until time.Duration) (all []threshold) {
	version, known := f.Version, true
	took := f.Kind == StoreTook && f.Check > 0 && !f.Charge
	if !took {
		version, known = s.rulesOfGateway(f.Gateway, f.At, until)
	}
	if !known {
		return nil
	}
	r := s.ruleIn(version, b.Rule)
	if r == nil {
		return nil
	}
	if end, ends := endOf(r); ends && !took && end < until+recovery {
		return nil
	}
	if _, ends := s.endsAfter(version, b.Rule, b.Bucket); ends {
		return nil // its override may have ended or not
	}
	for j, numbers := range s.numbers(version, r, b.Bucket, false) {
		own, err := r.Exact(numbers, j)
		if err != nil || own.ID != exact.ID || own.Kind != exact.Kind {
			continue
		}
		for _, percent := range numbers.WarnAt {
			if percent > 0 && used*100 >= own.Capacity*int64(percent) {
				all = append(all, threshold{r.Bands[j].Name(), percent, own.Capacity})
			}
		}
	}
	return all
}

// rulesOfGateway is the version of the rules of a gateway, if that does not change in a time.
func (s *spec) rulesOfGateway(gateway int, from, to time.Duration) (version int, known bool) {
	known = true
	for i := range s.facts {
		f := &s.facts[i]
		if f.Gateway != gateway || f.Kind != RulesInEffect && f.Kind != Started {
			continue
		}
		if from-recovery <= f.At && f.At <= to {
			known = false
		}
		if f.At <= from {
			version = f.Version
		}
	}
	return version, known
}

// isWarned reports whether a warning was added, or failed, for a threshold of a bucket in the
// period of a fact.
func isWarned(w, f *Fact, b *BucketFact, t threshold, until time.Duration) bool {
	of := w.Warning
	if w.At > until || of.Band != t.band || of.Capacity != t.capacity || f.Clock >= of.Ends {
		return false
	}
	if w.Kind == WarnFailed { // the gateway tries those above it with the next request
		return w.Gateway == f.Gateway && w.At >= f.At && of.Percent <= t.percent
	}
	return of.Percent == t.percent && w.Buckets[0].Generation >= b.Generation
}

// warnAt gives the quotas and windows of some histories thresholds.
func (g *generator) warnAt() {
	if g.warning.IntN(100) >= 40 {
		return
	}
	for _, list := range g.h.Versions {
		for i := range list {
			list[i].Bands = slices.Clone(list[i].Bands)
			for j := range list[i].Bands {
				if b := &list[i].Bands[j]; b.Kind == rules.Quota || b.Kind == rules.SlidingWindow {
					b.WarnAt = one(g.warning, rules.Percents{}, rules.Percents{50, 100}, rules.Percents{80}, rules.Percents{1, 80, 100}, rules.Percents{100})
				}
			}
		}
	}
}
