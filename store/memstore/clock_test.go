package memstore_test

import (
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

func TestClock_StepsBack(t *testing.T) {
	t.Run("makes no tokens and runs on from there", func(t *testing.T) {
		f := newFixture(t, 0, rules.PerHour(60)) // a token a minute
		for caller := range 20 {
			f.take(f.demand(caller, int64(10+caller)))
		}
		f.clock.Advance(-24 * time.Hour)
		for caller := range 20 {
			if got, want := f.left(caller), int64(50-caller); got != want {
				t.Errorf("caller %d has %d left, want %d", caller, got, want)
			}
			f.take(f.demand(caller, 1)) // from here on it uses the new clock
		}
		f.clock.Advance(5 * time.Minute)
		for caller := range 20 {
			if got, want := f.left(caller), int64(54-caller); got != want {
				t.Errorf("5 minutes later caller %d has %d left, want %d", caller, got, want)
			}
		}
	})
	t.Run("drops no bucket before it is full, and all in the end", func(t *testing.T) {
		f := newFixture(t, 100, rules.PerMinute(60)) // a token a second
		for caller := range 50 {
			f.take(f.demand(caller, 60))
		}
		f.clock.Advance(-time.Hour)
		for caller := range 50 {
			f.take(f.demand(caller, 1)) // rejected, and adopts the clock
		}
		for second := range 60 {
			for caller := range 50 {
				if got := f.left(caller); got != int64(second) {
					t.Fatalf("after %d s caller %d has %d left", second, caller, got)
				}
			}
			f.clock.Advance(time.Second)
		}
		f.clock.Advance(2 * time.Hour)
		for range 50 {
			f.left(1_000)
		}
		if stats := f.Stats(); stats.Buckets != 0 || stats.Evicted != 0 {
			t.Errorf("%+v when all are full, want none", stats)
		}
	})
	t.Run("keeps the bound, and the callers that are remembered", func(t *testing.T) {
		f := newFixture(t, 10, rules.PerHour(100))
		for caller := range 10 {
			f.take(f.demand(caller, 90))
		}
		f.clock.Advance(-time.Hour)
		for caller := range 1_000 {
			f.take(f.demand(1_000+caller, 5))
			if got := f.Stats().Buckets; got > 10 {
				t.Fatalf("%d buckets are remembered", got)
			}
		}
		remembered := 0
		for caller := range 10 {
			if f.left(caller) == 10 {
				remembered++
			}
		}
		if remembered != 9 {
			t.Errorf("%d of 10 callers are remembered, want all but the one that made room", remembered)
		}
	})
}
