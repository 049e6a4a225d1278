package fluxgate

import (
	"encoding/binary"
	"testing"
)

// The number of buckets to charge is bounded, and what is beyond it is counted.
func TestCarryover_Bounded(t *testing.T) {
	var c carryover
	bands := []ExactBand{Must(PerMinute(10).Exact(0))}
	r := Result{Granted: 2, Bands: make([]BandResult, 1)}
	for i := range maxCarried + 10 {
		d := Demand{Bands: bands}
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
