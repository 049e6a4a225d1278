package model

import (
	"math"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// extremes gives some requests of some histories extreme costs, as estimates and when they are settled, and
// lets some callers go before they ask or are settled.
func (g *generator) extremes() {
	o := g.exceeding
	if o.IntN(100) >= 15 {
		return
	}
	var capacities []int64
	for _, r := range g.h.Versions[0] {
		for _, b := range r.Bands {
			if b.Kind != rules.Concurrency {
				capacities = append(capacities, b.Capacity)
			}
		}
	}
	extreme := func() int64 {
		capacity := int64(1)
		if len(capacities) > 0 {
			capacity = one(o, capacities...)
		}
		return one[int64](o, 0, 1, capacity-1, capacity, capacity, capacity+1, 1<<53-1, 1<<53, 1<<53+1, 1<<62, math.MaxInt64)
	}
	for range 1 + o.IntN(4) {
		op := &g.h.Ops[o.IntN(len(g.h.Ops))]
		if op.Kind != OpCheck {
			continue
		}
		switch op.N = min(op.N, 4); o.IntN(5) {
		case 0:
			op.Cost = extreme()
			op.Tokens = max(1, op.Cost)
		case 1, 2:
			op.Actual, op.ActualTokens, op.Renew = extreme(), extreme(), false
		case 3:
			op.Cost, op.Actual, op.ActualTokens, op.Renew = extreme(), extreme(), extreme(), false
		case 4:
			if op.Actual == Never {
				op.Leaves = Gone
				break
			}
			op.Gone, op.Renew, op.Lasts = true, false, one(o, 0, 20*time.Millisecond, time.Second)
		}
	}
}
