package model

import (
	"cmp"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// fleets are the sizes of larger fleets: shares of some are no whole numbers.
var fleets = []int{2, 3, 5, 6, 7, 11, 13, 20}

// enlarge gives some histories large and odd numbers, as those of budgets in millionths of a dollar,
// and up to 20 servers. Costs grow with the limits.
func (g *generator) enlarge() {
	o := g.enlarging
	if o.IntN(100) >= 14 {
		return
	}
	h := g.h
	for n := one(o, fleets...); len(h.Gateways) < n; {
		another := h.Gateways[o.IntN(len(h.Gateways))]
		another.Waits = false
		h.Gateways = append(h.Gateways, another)
	}
	if o.chance(30) {
		return
	}
	slow, odd := one(o, 0, 0, 24*time.Hour, 7*24*time.Hour, 30*24*time.Hour), one[int64](o, 0, 0, 1, -1, 7)
	for _, times := range []int64{one[int64](o, 3, 1_009, 99_991, 1_000_000, 10_000_000, 100_000_000), 1_000_000, 10_000, 97} {
		if versions, fits := h.enlarged(times, slow, odd); fits {
			h.Versions = versions
			h.costMore(o, times)
			return
		}
	}
}

// enlarged are the versions of the rules with larger numbers, if all rules are valid then. Those that
// refill in a minute or more may refill more slowly.
func (h *History) enlarged(times int64, slow time.Duration, odd int64) (versions [][]rules.Rule, fits bool) {
	for _, list := range h.Versions {
		list = slices.Clone(list)
		for i := range list {
			r := &list[i]
			r.Bands = slices.Clone(r.Bands)
			for j := range r.Bands {
				b := &r.Bands[j]
				if b.Kind == rules.Concurrency {
					continue
				}
				before := *b
				b.Capacity, b.RefillTokens = b.Capacity*times+odd, b.RefillTokens*times
				if kindOf(b) == rules.TokenBucket && b.Refill >= time.Minute {
					b.Refill = cmp.Or(slow, b.Refill)
				}
				if !valid([]rules.Rule{*r}) { // the rounder number
					b.Capacity, b.RefillTokens = before.Capacity*times, before.RefillTokens*times
				}
			}
		}
		if !valid(list) {
			return nil, false
		}
		versions = append(versions, list)
	}
	return versions, true
}

// costMore multiplies the costs of all operations. Some are a part of the limit that servers have.
func (h *History) costMore(o *generator, times int64) {
	for i := range h.Ops {
		op := &h.Ops[i]
		if op.Kind != OpCheck {
			continue
		}
		by := max(1, times/one[int64](o, 1, 1, 2, 3))
		op.Cost, op.Tokens, op.ActualTokens = op.Cost*by, op.Tokens*by, op.ActualTokens*by
		if op.Actual != Never {
			op.Actual *= by
		}
	}
}
