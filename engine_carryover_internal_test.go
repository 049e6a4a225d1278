package fluxgate

import (
	"encoding/binary"
	"testing"
	"time"
)

// Without a take of 3 tokens a bucket would be full earlier, by the time in which they come
// back.
func TestFullBefore(t *testing.T) {
	d := Demand{Bands: []ExactBand{Must(PerSecond(10).Exact(0))}, Cost: 3}
	for after, want := range map[time.Duration]time.Duration{800 * time.Millisecond: 500 * time.Millisecond, 299_999 * time.Microsecond: 0} {
		r := Result{Granted: 3, Bands: []BandResult{{FullAfter: after}}}
		if got := fullBefore(&d, &r)[0]; got != want {
			t.Errorf("full after %v: %v without the take, want %v", after, got, want)
		}
	}
}

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
