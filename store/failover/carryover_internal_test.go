package failover

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// Without a take a bucket would be full earlier, by the time in which the tokens come back.
// They are what is used of it then, whatever the tick of its clock.
func TestFullBefore(t *testing.T) {
	for tick, band := range map[int64]rules.Band{1: rules.PerSecond(10), 1_000: {Capacity: 300, RefillTokens: 11, Refill: 366 * 24 * time.Hour}} {
		bands, n := []store.ExactBand{must(band.Exact(0))}, band.Tokens()
		d, u := store.Demand{Bands: bands, Cost: n}, localUse{bands: bands, local: bands}
		for _, began := range []time.Duration{band.Refill / 2, 0} {
			r := store.Result{Granted: n, Bands: []store.BandResult{{FullAfter: began + band.Refill}}}
			if u.began = fullBefore(&d, &r); u.began[0] != began || bands[0].Tick != tick {
				t.Errorf("full after %v without the take, want %v; tick %d", u.began[0], began, bands[0].Tick)
			}
			if got, want := u.used(0, 0, began+band.Refill), n*bands[0].Unit; got != want {
				t.Errorf("%d units used, want %d", got, want)
			}
		}
	}
}

// The number of buckets to charge is bounded, and what is beyond it is counted.
func TestCarryover_Bounded(t *testing.T) {
	var c carryover
	bands := []store.ExactBand{must(rules.PerMinute(10).Exact(0))}
	r := store.Result{Granted: 2, Bands: make([]store.BandResult, 1)}
	starts := 0
	for i := range maxCarried + 10 {
		d := store.Demand{Bands: bands}
		binary.LittleEndian.PutUint64(d.Key.ID[:], uint64(i))
		if c.took(&d, bands, &r, false) {
			starts++
		}
	}
	if n := len(c.buckets); n != maxCarried || c.count.Load() != maxCarried || starts != 1 {
		t.Errorf("%d buckets, want %d; charging starts %d times", n, maxCarried, starts)
	}
	if p, u := c.pending.Load(), c.uncharged.Load(); p != 2*maxCarried || u != 20*million {
		t.Errorf("%d tokens pending, %d not charged", p, u)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
