package memstore_test

import (
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// report is what a shared store reports for a caller: when it decided, and how
// long until the bucket is full.
func (f *fixture) report(caller int, seen time.Duration, full time.Duration) {
	f.Helper()
	d := f.demand(caller, 1)
	f.SetLevel(&d, &store.Result{Now: seen.Microseconds(), Bands: []store.BandResult{{FullAfter: full}}})
}

// A bucket is full after the time that the shared store reported.
func TestSetLevel_FullAfter(t *testing.T) {
	for _, c := range []struct {
		name string
		band rules.Band
		full time.Duration
		left int64
	}{
		{"a tick of a microsecond", rules.PerMinute(60), 10 * time.Second, 50},
		{"rounded against the caller", rules.PerMinute(60), 10*time.Second + time.Microsecond, 49},
		{"a tick of a second", rules.Band{Capacity: 1 << 20, RefillTokens: 1 << 18, Refill: 364 * 24 * time.Hour}, time.Hour, 1<<20 - 31},
		{"debt", rules.PerMinute(60), 90 * time.Second, 0},
		{"full", rules.PerMinute(60), 0, 60},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, 0, c.band)
			f.report(1, time.Hour, c.full)
			if got := f.left(1); got != c.left {
				t.Errorf("%d left, want %d", got, c.left)
			}
			f.clock.Advance(c.full)
			if got := f.left(1); got != c.band.Capacity {
				t.Errorf("%d left when the bucket is full in the shared store, want %d", got, c.band.Capacity)
			}
		})
	}
}

// A demand under a share of the bands finds the same share used.
func TestSetLevel_Share(t *testing.T) {
	f := newFixture(t, 0, rules.PerMinute(400))
	f.report(1, time.Hour, 45*time.Second)
	f.bands = newFixture(t, 0, rules.PerMinute(100)).bands
	if got := f.left(1); got != 25 {
		t.Errorf("%d of 100 left, want 25", got)
	}
	f.clock.Advance(45*time.Second - time.Microsecond)
	if got := f.left(1); got != 99 {
		t.Errorf("%d left just before it is full", got)
	}
}

// Requests that were admitted here keep their slots, whatever the shared store reports.
func TestSetLevel_KeepsSlots(t *testing.T) {
	for name, full := range map[string]time.Duration{"others hold slots": time.Second, "all slots are free": 0} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, 0, rules.Band{Kind: rules.Concurrency, Capacity: 2, Hold: time.Minute})
			d := f.demand(1, 1)
			d.Holder = store.HolderID{1}
			f.take(d)
			f.report(1, time.Hour, full)
			if got := f.left(1); got != 1 {
				t.Errorf("%d slots are free, want 1", got)
			}
			f.clock.Advance(time.Minute)
			if got := f.left(1); got != 2 {
				t.Errorf("%d slots are free after their hold, want 2", got)
			}
		})
	}
}

// Levels that are older than the one before change nothing. Of requests that
// shared a call the last one counts.
func TestSetLevel_Older(t *testing.T) {
	for _, c := range []struct {
		name       string
		seen, full time.Duration
		left       int64
	}{
		{"later", time.Hour + time.Second, 10 * time.Second, 50},
		{"earlier", time.Hour - time.Millisecond, 10 * time.Second, 40},
		{"of the same call, before it", time.Hour, 19 * time.Second, 40},
		{"of the same call, after it", time.Hour, 21 * time.Second, 39},
		{"a clock that stepped back", time.Minute, 10 * time.Second, 50},
		{"full", time.Hour + time.Second, 0, 60},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, 0, rules.PerMinute(60))
			f.report(1, time.Hour, 20*time.Second)
			f.report(1, c.seen, c.full)
			if got := f.left(1); got != c.left {
				t.Errorf("%d left, want %d", got, c.left)
			}
		})
	}
}

// Levels are kept within the bound of the store, and dropped when full.
func TestSetLevel_Bounded(t *testing.T) {
	f := newFixture(t, 100, rules.PerMinute(60))
	for caller := range 1_000 {
		f.report(caller, time.Hour, 10*time.Second)
	}
	if n := f.Stats().Buckets; n != 100 {
		t.Errorf("%d buckets, want 100", n)
	}
	f.clock.Advance(time.Minute)
	for caller := range 200 {
		f.report(caller, 2*time.Hour, 0)
	}
	if n := f.Stats().Buckets; n != 0 {
		t.Errorf("%d buckets when all are full", n)
	}
}

func BenchmarkSetLevel(b *testing.B) {
	f := newFixture(b, 0, rules.PerMinute(60))
	d := f.demand(1, 1)
	r := store.Result{Bands: []store.BandResult{{FullAfter: 10 * time.Second}}}
	b.ReportAllocs()
	for b.Loop() {
		r.Now++
		f.SetLevel(&d, &r)
	}
}
