package model

import (
	"cmp"
	"math/big"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// usage is a token bucket that is shared by gateways, from which requests are refused.
type usage struct {
	band *band
	// used is what was admitted and has not refilled, at a time.
	used *big.Rat
	at   time.Duration
	// peaks are how much was used after each admission.
	peaks []peak
	// from and last are the first and the last of refusals that follow each other closely,
	// and admitted is what was admitted between them.
	from, last     time.Duration
	admitted, cost int64 // and the highest cost of a refusal
}

type peak struct {
	at   time.Duration
	used *big.Rat
}

// checkUsed checks that leases do not starve a bucket: what is not admitted is there, but
// for the tokens of slices.
func (s *spec) checkUsed() {
	if len(s.Versions) > 1 || len(s.Overrides) > 0 || s.any(StoreEmptied, StoreReset, ClockStepped, Killed, Stopped) || len(s.faults) > 0 {
		return
	}
	debt := map[string]bool{}
	for i := range s.facts {
		for j := range s.facts[i].Buckets {
			if b := &s.facts[i].Buckets[j]; s.facts[i].Kind == StoreSettled && b.Charged > 0 {
				debt[b.Bucket] = true
			}
		}
	}
	all := map[string]*usage{}
	for _, f := range s.decisionsByTake() {
		for j := range f.Rules {
			r := &f.Rules[j]
			exact, err := r.Rule.Bands[0].Exact(0)
			b := s.bandOf(r.Rule.ID, &exact)
			if err != nil || b == nil || len(r.Rule.Bands) != 1 || b.kind() != rules.TokenBucket || r.Rule.Overdraft || debt[r.Bucket] || r.Rule.OnLimitExceed == rules.WaitForRefill {
				continue
			}
			u := all[r.Bucket]
			if u == nil {
				u = &usage{band: b, used: new(big.Rat)}
				all[r.Bucket] = u
			}
			u.note(s, f, r)
		}
	}
}

// decisionsByTake are the decisions in the order of their takes.
func (s *spec) decisionsByTake() (decisions []*Fact) {
	for i := range s.facts {
		if f := &s.facts[i]; f.Kind == Decided && f.Err == nil {
			decisions = append(decisions, f)
		}
	}
	slices.SortStableFunc(decisions, func(a, b *Fact) int { return cmp.Compare(s.taken(a), s.taken(b)) })
	return decisions
}

// taken is when a request had its tokens: one that waits for a rule has those of the others
// before it is admitted, and the answer of the store may come after one to a later request.
func (s *spec) taken(f *Fact) time.Duration {
	if !f.Allowed {
		return f.At
	}
	if took := s.takes[f.Check]; took != nil {
		return min(f.At-f.Held, took.At)
	}
	return f.At - f.Held
}

// note notes a decision, and checks a refusal.
func (u *usage) note(s *spec, f *Fact, r *RuleFact) {
	at := s.taken(f)
	if u.used.Sub(u.used, regained(&u.band.Band, at-u.at)); u.used.Sign() < 0 {
		u.used = new(big.Rat)
	}
	u.at = at
	switch {
	case f.Allowed && r.Granted > 0:
		u.used.Add(u.used, whole(r.Granted))
		u.peaks = append(u.peaks, peak{at, new(big.Rat).Set(u.used)})
		u.admitted += r.Granted
	case r.Status == store.Rejected && r.Rule.Mode != rules.ModeShadow && r.Cost <= u.band.Capacity:
		u.refused(s, f, r)
	}
}

func (u *usage) refused(s *spec, f *Fact, r *RuleFact) {
	if f.At-u.last > callTimeout {
		u.from, u.admitted, u.cost = f.At, 0, 0
	}
	u.last, u.cost = f.At, max(u.cost, r.Cost)
	due := new(big.Rat).Mul(usedPart, regained(&u.band.Band, u.last-u.from))
	due.Sub(due, new(big.Rat).Mul(heldPart, whole(u.band.Capacity)))
	due.Sub(due, whole(u.cost))
	if u.last-u.from >= saturated && whole(u.admitted).Cmp(due) < 0 {
		s.violateOnce(LineUsed, r.Bucket, f.At, "bucket %s refuses requests from %v on and admits %d until now, at least %s are due", r.Bucket, u.from, u.admitted, due.FloatString(1))
	}
	most := new(big.Rat).Set(u.used)
	since := f.Began - leaseTime - refusedWhileFree - callTimeout
	for len(u.peaks) > 0 && u.peaks[0].at < since {
		u.peaks = u.peaks[1:]
	}
	for _, p := range u.peaks {
		most = greater(most, p.used)
	}
	// A burst may have lost slices of its size.
	missing := new(big.Rat).Add(new(big.Rat).Mul(whole(2), most), whole(r.Cost+lostSlice*int64(len(s.Gateways))))
	missing.Add(missing, new(big.Rat).Mul(heldPart, whole(u.band.Capacity)))
	if missing.Cmp(whole(u.band.Capacity)) <= 0 {
		s.violateOnce(LineUsed, r.Bucket, f.At, "request %d of %s at gateway %d is refused by bucket %s, of which %s of %d tokens were admitted lately", f.Check, f.Caller, f.Gateway, r.Bucket, most.FloatString(1), u.band.Capacity)
	}
}
