package model

import (
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// times checks what the store says about the time of a demand: after the wait of a refused one it fits
// and not before, if no other takes, and after the time to full a band is full and not before.
func (r *replay) times(f *Fact, d *demand) {
	if d.set.wrong || d.set.mixed { // the times are those of other versions too
		return
	}
	for i, a := range d.views {
		if a == nil || a.open || a.renamed || a.forgotten {
			continue
		}
		says := &d.Bands[i]
		if a.kind() != rules.TokenBucket { // those of token buckets are compared with what is left
			r.reached(f, d, a, "is full", says.FullAfter, func(a *account) (must, can bool) {
				least, most := a.left()
				full := whole(a.Capacity)
				if a.kind() == rules.Concurrency {
					full = whole(slotsBound(&a.Band))
				}
				return least.Cmp(full) >= 0, most.Cmp(full) >= 0
			})
		}
		if d.Status == store.Rejected || d.Overdraft && f.Kind == StoreTook {
			r.reached(f, d, a, "has what a refused demand asks for", says.Wait, d.fitsIn)
		}
	}
}

// reached checks that something holds of an account after a time, and not before.
func (r *replay) reached(f *Fact, d *demand, a *account, what string, after time.Duration, holds func(a *account) (must, can bool)) {
	at := func(after int64) (must, can bool) {
		then := a.clone()
		then.advance(f.Clock+after, a.edges)
		return holds(then)
	}
	micros := after.Microseconds()
	if _, can := at(micros); !can && (a.kind() != rules.Concurrency || after != slotRetry) {
		r.violateOnce(LineTimes, d.Bucket, f.At, "bucket %s, %s: %s after %v, says the store, and it is later", d.Bucket, a.Name(), what, after)
		return
	}
	// The clock has ticks: what is due in the middle of one is there at its end.
	if early := micros - a.exact.Tick; early >= 0 && micros > 0 {
		if must, _ := at(early); must {
			r.violateOnce(LineTimes, d.Bucket, f.At, "bucket %s, %s: %s after %v, says the store, and it is earlier", d.Bucket, a.Name(), what, after)
		}
	}
}

// slotRetry is when a request tries again for a slot, at the latest: one may be free at any time.
const slotRetry = time.Second

// fitsIn reports whether a band has what the demand asks for.
func (d *demand) fitsIn(a *account) (must, can bool) {
	least, most := a.left()
	need := d.Min
	if need == 0 {
		need = d.Cost
	}
	switch {
	case a.kind() == rules.Concurrency && (d.Holder == 0 || d.Cost == 0):
		return false, true
	case d.Overdraft || a.kind() == rules.Concurrency:
		return least.Sign() > 0, most.Sign() > 0
	case need > a.Capacity: // another band or a hit above the limit: it never fits
		return false, true
	}
	return floor(least) >= need, floor(most) >= need
}

// checkRetries checks that a refused request may be repeated after the longest wait of its rules, as the
// store has said, where of alternatives that are all over the first one counts.
func (s *spec) checkRetries() {
	for i := range s.facts {
		f := &s.facts[i]
		took := s.takes[f.Check]
		if f.Kind != Decided || f.Allowed || f.Err != nil || f.Reason != fluxgate.ReasonLimited || took == nil || len(took.Buckets) != len(f.Rules) {
			continue
		}
		var longest, first time.Duration // first is that of the alternatives
		other, fits, over := false, false, false
		for j := range f.Rules {
			r := &f.Rules[j]
			other = other || r.Source != store.FromStore
			var wait time.Duration
			for k := range r.Bands {
				wait = max(wait, r.Bands[k].Wait)
			}
			switch {
			case r.Rule.Mode == rules.ModeShadow:
			case r.Rule.Overdraft && r.Status == store.OK: // it has been debited, and may refuse the next one
				longest = max(longest, wait)
			case r.Rule.Mode != rules.ModeAlternative && r.Status == store.Rejected:
				longest = max(longest, wait)
			case r.Rule.Mode != rules.ModeAlternative || r.Status == store.TooCostly:
			case r.Status != store.Rejected:
				fits = true
			case !over || wait < first:
				first, over = wait, true
			}
		}
		if over && !fits {
			longest = max(longest, first)
		}
		if !other && f.RetryAfter != longest {
			s.violate(LineTimes, f.At, "request %d is refused for %v, and the store says %v", f.Check, f.RetryAfter, longest)
		}
	}
}
