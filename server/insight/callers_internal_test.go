package insight

import (
	"math/rand/v2"
	"testing"

	"github.com/fluxgate/fluxgate/store"
)

// A count is off by at most what its windows have replaced, and so many requests has at most
// a caller that is not counted, however callers come and go, windows end, and the budget of
// all rules shrinks and grows.
func TestCallers_Random(t *testing.T) {
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 5))
		list, extra := new(callerList), new(budget)
		var truth, last map[store.KeyID]uint64
		truth = map[store.KeyID]uint64{}
		known := 1 + random.Uint64N(80)
		for range random.IntN(3_000) {
			switch random.IntN(100) {
			case 0: // other rules begin or end
				extra.giveBack(random.IntN(40))
			case 1:
				extra.take(random.IntN(40))
			case 2:
				if random.IntN(10) == 0 {
					list.rotate(extra)
					truth, last = map[store.KeyID]uint64{}, truth
				}
			}
			id := keyOf(min(random.Uint64N(known), random.Uint64N(known)))
			truth[id]++
			list.current.add(&id, extra)
		}
		bound := uint64(list.current.lowest) + uint64(list.last.lowest)
		for _, c := range list.top(2 * mostCallers) {
			sent := truth[c.id] + last[c.id]
			if max(sent, c.count)-min(sent, c.count) > bound {
				t.Errorf("seed %d: a caller made %d requests, counted %d, off by more than %d", seed, sent, c.count, bound)
			}
			delete(truth, c.id)
			delete(last, c.id)
		}
		for _, window := range []map[store.KeyID]uint64{truth, last} {
			for id := range window {
				if sent := truth[id] + last[id]; sent > bound {
					t.Errorf("seed %d: a caller that is not counted made %d requests, more than %d", seed, sent, bound)
				}
			}
		}
	}
}

// A caller that was replaced and comes back after the list has grown is counted as one
// that may have made as many requests as the one that was replaced last.
func TestSketch_GrowsAfterReplacing(t *testing.T) {
	var s sketch
	extra := new(budget) // is used up by other rules
	add := func(n uint64, times int) {
		id := keyOf(n)
		for range times {
			s.add(&id, extra)
		}
	}
	for n := range uint64(leastCallers + 1) {
		add(n, 100+int(n)) // the last replaces the first, which made 100
	}
	extra.giveBack(100)
	add(0, 1)
	id := keyOf(0)
	if e := s.find(&id); len(s.entries) != leastCallers+1 || e.count != 101 || s.lowest != 100 {
		t.Errorf("counted %d in a list of %d; those not in it made at most %d", e.count, len(s.entries), s.lowest)
	}
}
