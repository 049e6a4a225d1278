package model

import (
	"math/big"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// refused checks that a request is refused from memory only as long as published while
// the store has its tokens.
func (r *replay) refused(f *Fact) {
	if f.Allowed || f.Reason != fluxgate.ReasonLimited || f.Source != store.FromLease && f.Source != store.FromNegativeCache {
		return
	}
	if s := f.Began - refusalAge - callTimeout; r.faultAt(f.Gateway, s-recovery, f.Began) || r.stepped {
		return
	}
	var since time.Duration
	given := false
	for i := range f.Rules {
		rule := &f.Rules[i]
		if rule.Rule.Mode == rules.ModeShadow {
			continue
		}
		set := r.sets[setID{rule.Bucket, r.generation[gatewayBucket{f.Gateway, rule.Bucket}]}]
		if set == nil {
			continue
		}
		if set.wrong {
			return
		}
		for j, b := range rule.Rule.Bands {
			exact, err := b.Exact(j)
			a := set.accounts[accountOf(&exact)]
			switch {
			case err != nil:
				continue
			case a == nil && len(set.accounts) == 0:
				full := newBand(b, exact)
				a = newAccount(&full, f.Clock)
			case a == nil || a.open || a.renamed || a.Band != b:
				return // the gateway decides by other numbers, or the band may be one with another label
			}
			from, returned, ok := set.freeSince(a, rule.Cost, f)
			if !ok {
				return
			}
			if from > since {
				since = from
			}
			given = given || returned || set.changes > 1 // versions that take turns give to each other
		}
	}
	allowed := refusedWhileFree + callTimeout
	if given {
		allowed = refusalAge + callTimeout
	}
	if d := f.Began - since; d > allowed {
		r.violateOnce(LineLiveness, f.Caller, f.Began, "request %d of %s at gateway %d is refused from memory (%v), and the store has had its tokens for %v", f.Check, f.Caller, f.Gateway, f.Source, d)
	}
}

// freeSince is since when a band has had so many tokens without a break, and whether it
// had them because tokens were given back in the last second.
func (set *bucketSet) freeSince(a *account, n int64, f *Fact) (since time.Duration, given, ok bool) {
	now := a.clone()
	now.advance(f.Clock, a.edges)
	if least, _ := now.left(); least.Cmp(whole(n)) < 0 {
		return 0, false, false
	}
	writes := set.writes[a.exact.ID]
	for i := len(writes) - 1; i >= 0; i-- {
		w := &writes[i]
		if w.before.Cmp(w.after) < 0 && f.Began-w.at < refusalAge+callTimeout {
			given = true
		}
		if w.after.Cmp(whole(n)) >= 0 {
			if w.before.Cmp(whole(n)) < 0 {
				return w.at, given, true
			}
			continue
		}
		if a.kind() != rules.TokenBucket {
			return f.Began, given, true // it came back in steps: when is not compared
		}
		missing := new(big.Rat).Sub(whole(n), w.after)
		missing.Quo(missing, a.rate)
		return w.at + time.Duration(floor(missing)+1)*time.Duration(a.exact.Tick)*time.Microsecond, given, true
	}
	return 0, given, true
}

// checkRenewals checks that a request that renews its slots keeps them, whatever becomes
// of others.
func (s *spec) checkRenewals() {
	if slices.ContainsFunc(s.facts, func(f Fact) bool { return f.Kind == ClockStepped }) {
		return
	}
	ended := map[int]time.Duration{}
	for i := range s.facts {
		if f := &s.facts[i]; f.Kind == Ended {
			ended[f.Check] = f.At
		}
	}
	for _, d := range s.decided {
		end, is := ended[d.Check]
		if !is || !d.Allowed || d.Op < 0 || !s.Ops[d.Op].Renew || s.faultAt(d.Gateway, d.Began, end) {
			continue
		}
		for i := range d.Rules {
			r := &d.Rules[i]
			for k := range r.Rule.Bands {
				if b := &r.Rule.Bands[k]; b.Kind == rules.Concurrency && r.Source == store.FromStore && r.Granted > 0 {
					s.checkRenewal(d, r, b, end)
				}
			}
		}
	}
}

func (s *spec) checkRenewal(d *Fact, r *RuleFact, b *rules.Band, end time.Duration) {
	took := s.takes[d.Check]
	if took == nil {
		return
	}
	if d.Held > 0 && d.At+callTimeout > took.At+b.Hold {
		return // it ended while the request waited: hold must be longer than the longest wait
	}
	last := took.At
	for i := range s.facts {
		f := &s.facts[i]
		switch {
		case f.Kind == StoreReset && (f.Rule == "" || f.Rule == r.Rule.ID) && f.At <= end && s.seenBy(f) >= took.At:
			return // its slot is lost, also if its gateway had not seen the reset when it took it
		case f.At < took.At || f.At > end:
		case f.Kind == StoreEmptied:
			return
		case f.Kind == Settled && f.Check == d.Check:
			return
		case f.Kind == StoreExtended && f.Check == d.Check && slices.ContainsFunc(f.Buckets, func(o BucketFact) bool { return o.Bucket == r.Bucket }):
			if f.At > last+b.Hold {
				break
			}
			last = f.At
		}
	}
	if end > last+b.Hold+callTimeout {
		s.violate(LineRenewal, last+b.Hold, "request %d renews its slots until %v, and loses that of bucket %s", d.Check, end, r.Bucket)
	}
}
