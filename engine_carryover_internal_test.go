package fluxgate

import (
	"encoding/binary"
	"testing"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// The number of buckets to charge is bounded, and what is beyond it is counted.
func TestCarryover_Bounded(t *testing.T) {
	var c carryover
	bands := []store.ExactBand{Must(rules.PerMinute(10).Exact(0))}
	r := store.Result{Granted: 2, Bands: make([]store.BandResult, 1)}
	for i := range maxCarried + 10 {
		d := store.Demand{Bands: bands}
		binary.LittleEndian.PutUint64(d.Key.ID[:], uint64(i))
		c.took(&d, bands, &r, false)
	}
	if n := len(c.buckets); n != maxCarried || c.count.Load() != maxCarried {
		t.Errorf("%d buckets, want %d", n, maxCarried)
	}
	if p, u := c.pending.Load(), c.uncharged.Load(); p != 2*maxCarried || u != 20*million {
		t.Errorf("%d tokens pending, %d not charged", p, u)
	}
}
