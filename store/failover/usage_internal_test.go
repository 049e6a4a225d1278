package failover

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// What a take owes refills after what was used before it, whatever the tick of its clock.
func TestUsage_RefillsLast(t *testing.T) {
	for tick, band := range map[int64]rules.Band{1: rules.PerSecond(10), 1_000: {Capacity: 300, RefillTokens: 11, Refill: 366 * 24 * time.Hour}} {
		bands, n := []store.ExactBand{must(band.Exact(0))}, band.Tokens()
		d := store.Demand{Bands: bands, Cost: n}
		for _, began := range []time.Duration{band.Refill / 2, 0} {
			r := store.Result{Granted: n, Bands: []store.BandResult{{FullAfter: began + band.Refill}}}
			u := newUsage(&d, bands, &r, nil)
			u.took(&d, &r, false)
			if from := u.debts[0].open.from; from != began.Microseconds() || bands[0].Tick != tick {
				t.Errorf("refills after %d µs, want %v; tick %d", from, began, bands[0].Tick)
			}
			for after, want := range map[time.Duration]int64{0: n, began: n, began + band.Refill/2: n - n/2, began + band.Refill: 0} {
				u := newUsage(&d, bands, &r, nil)
				u.took(&d, &r, false)
				u.bring(0, after.Microseconds())
				if got := float64(u.debts[0].open.units) / float64(bands[0].Unit); got < float64(want)-0.51 || got > float64(want)+0.51 {
					t.Errorf("%v tokens owed after %v, want %d", got, after, want)
				}
			}
		}
	}
}

// A charge that was not made leaves everything to be charged, and one that was made what was
// taken meanwhile.
func TestUsage_Charge(t *testing.T) {
	bands := []store.ExactBand{must(rules.PerMinute(600).Exact(0))}
	unit := bands[0].Unit
	d := store.Demand{Bands: bands, Cost: 50}
	r := store.Result{Granted: 50, Bands: []store.BandResult{{FullAfter: 5 * time.Second}}}
	const second = 1_000_000
	for name, c := range map[string]struct {
		end  func(u *usage, units []int64) bool
		all  bool
		left int64 // of 50 before the charge, of which 10 refill in it, and 20 in it
		then phase
	}{
		"made":       {func(u *usage, units []int64) bool { return u.charged(units, true) }, false, 20, phaseCharged},
		"not made":   {func(u *usage, _ []int64) bool { u.failed(); return false }, false, 60, phaseLocal},
		"may be":     {func(u *usage, units []int64) bool { return u.charged(units, false) }, false, 20, phaseLocal},
		"given back": {func(u *usage, units []int64) bool { u.add(0, -20*unit, second); return u.charged(units, true) }, true, 0, phaseCharged},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUsage(&d, bands, &r, nil)
			u.took(&d, &r, false)
			if n := u.begin(&r); n[0] != 50*unit {
				t.Fatalf("%d units charged, want %d", n[0], 50*unit)
			}
			more := store.Result{Now: second, Granted: 20, Bands: []store.BandResult{{FullAfter: 6 * time.Second}}}
			u.took(&store.Demand{Bands: bands, Cost: 20}, &more, true)
			all := c.end(u, []int64{50 * unit})
			if got := u.debts[0].open.units; all != c.all || got != c.left*unit || u.phase != c.then {
				t.Errorf("%d tokens left to charge, want %d; all %t; phase %d, want %d", got/unit, c.left, all, u.phase, c.then)
			}
		})
	}
}

// What is given back of a charge that may not have been made is not given back in the store, and
// of others at most what was sent.
func TestUsage_GivesBackWhatWasSent(t *testing.T) {
	bands := []store.ExactBand{must(rules.PerMinute(600).Exact(0))}
	unit := bands[0].Unit
	level := store.Result{Bands: make([]store.BandResult, 1)}
	for back, want := range map[int64]int64{10: 0, 30: 0, 40: -10, 100: -20} {
		u := newUsage(&store.Demand{Bands: bands}, bands, &level, nil)
		u.debts[0].lost, u.debts[0].sent = 30*unit, 20*unit
		u.add(0, -back*unit, 0)
		if got := u.begin(&level)[0]; got != want*unit {
			t.Errorf("%d given back: %d units, want %d", back, got, want*unit)
		}
	}
}

// The number of bucket sets to charge is bounded, and what is beyond it is counted.
func TestLedger_Bounded(t *testing.T) {
	var l ledger
	bands := []store.ExactBand{must(rules.PerMinute(10).Exact(0))}
	r := store.Result{Granted: 2, Bands: make([]store.BandResult, 1)}
	added := 0
	for i := range maxCarried + 10 {
		d := store.Demand{Bands: bands}
		binary.LittleEndian.PutUint64(d.Key.ID[:], uint64(i))
		if l.took(&d, bands, &r, false) != nil {
			added++
		}
	}
	if n := len(l.sets); n != maxCarried || l.pendingSets.Load() != maxCarried || added != maxCarried {
		t.Errorf("%d bucket sets, want %d; %d are to be charged", n, maxCarried, added)
	}
	if p, u := l.pending.Load(), l.uncharged.Load(); p != 2*maxCarried || u != 20*million {
		t.Errorf("%d tokens pending, %d not charged", p, u)
	}
}
