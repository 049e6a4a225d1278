package storetest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/store"
)

var memoryChecks = []Check{{"memory refuses only what the store would refuse", refusalsFromMemory}}

// refusalsFromMemory plays histories of callers who are mostly refused. A store that
// refuses from memory is compared with its own strict answers.
func refusalsFromMemory(t testing.TB, b Backend) {
	for seed := range uint64(8) {
		f, r := newFixture(t, b), rand.New(rand.NewPCG(seed, 15))
		demands := []store.Demand{
			{Key: f.key("fast"), Bands: f.bands(band("", 5, 5, time.Second))},
			{Key: f.key("slow"), Bands: f.bands(band("a", 8, 8, time.Minute), band("b", 4, 1, time.Second))},
		}
		var receipts []store.Takes
		for range 300 {
			f.Advance(time.Duration(r.Int64N(int64(150 * time.Millisecond))).Truncate(time.Microsecond))
			asked := f.blockedRequest(r, demands)
			if takes := store.NewTakes(asked, f.take(asked...)); takes != nil {
				receipts = append(receipts, takes)
			}
			switch r.IntN(25) {
			case 0:
				f.reset(demands[r.IntN(2)].Key)
			case 1, 2:
				if len(receipts) > 0 {
					last := receipts[len(receipts)-1]
					f.settleEach(last, last.Same(0)...)
					receipts = receipts[:len(receipts)-1]
				}
			}
		}
	}
}

// blockedRequest is a request to one or both of the buckets.
func (f *fixture) blockedRequest(r *rand.Rand, demands []store.Demand) []store.Demand {
	first := r.IntN(2)
	asked := append([]store.Demand{}, demands[first:first+1]...)
	if r.IntN(3) == 0 {
		asked = append(asked, demands[1-first])
	}
	for i := range asked {
		d := &asked[i]
		d.Cost, d.Shadow = 1+r.Int64N(3), r.IntN(6) == 0
		if r.IntN(6) == 0 {
			d.Strict = true
		}
		if r.IntN(4) == 0 {
			d.MaxWait = time.Duration(r.Int64N(int64(2 * time.Second)))
		}
	}
	return asked
}
