package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/lease"
)

// contended is a bucket of 100 tokens a second that is empty, and that refuses the
// gateway here because the one there took the token that it waited for.
func contended(w *world, band rules.Band) store.Demand { return contendedAs(w, "a", band) }

func contendedAs(w *world, name string, band rules.Band) store.Demand {
	all, d := demand(name, band.Capacity, band), demand(name, 1, band)
	token := band.Refill / time.Duration(band.Tokens())
	w.take(w.there, all)
	w.take(w.here, d)
	w.clock.Advance(token)
	w.take(w.there, d)
	if w.take(w.here, d).Admitted() {
		w.Fatal("there was another token")
	}
	strict := d
	strict.Strict = true
	w.take(w.here, strict) // another answer before the token is due does not end the pause
	w.clock.Advance(token)
	return d
}

// A bucket whose tokens other gateways take is not asked for each of them.
func TestContended_Pause(t *testing.T) {
	w := newWorld(t)
	d := contended(w, rules.PerSecond(100))
	waiting, strict := d, d
	waiting.MaxWait, strict.Strict = time.Millisecond, true
	out := w.take(w.here, d)
	if r := out.Results[0]; out.Admitted() || r.Source != store.FromLease || r.Wait < lease.Pause/2 || r.Wait > lease.MaxPause || r.Bands[0].Wait != r.Wait {
		t.Errorf("within the pause: %+v", r)
	}
	if stats := w.here.Stats(); stats.Paused != 1 {
		t.Errorf("a pause refused one request: %+v", stats)
	}
	w.clock.Advance(lease.MaxPause - 10*time.Millisecond)
	for range 2 { // it admits the first request
		if !w.asked(d) {
			t.Error("it is not asked after the pause")
		}
	}
	for _, next := range []store.Demand{waiting, strict} {
		w := newWorld(t)
		contended(w, rules.PerSecond(100))
		if !w.take(w.here, next).Admitted() {
			t.Errorf("a pause refuses %+v", next)
		}
	}
}

// A pause ends before the bucket is full, so that no token is lost.
func TestContended_SmallBuckets(t *testing.T) {
	for capacity, most := range map[int64]time.Duration{1: 0, 4: 20 * time.Millisecond} {
		w := newWorld(t)
		d := contended(w, rules.Band{Capacity: capacity, RefillTokens: 1, Refill: 10 * time.Millisecond})
		w.clock.Advance(max(0, most-10*time.Millisecond))
		if !w.take(w.here, d).Admitted() {
			t.Errorf("a bucket of %d pauses for more than %v", capacity, most)
		}
	}
}

// After a pause one request asks. The others are refused until it has the answer.
func TestContended_OneAsks(t *testing.T) {
	w := newWorld(t)
	d := contended(w, rules.PerSecond(100))
	w.clock.Advance(lease.MaxPause)
	nested := w.Store
	w.Store = &slow{nested, func() {
		w.Store = nested
		if w.asked(d) {
			t.Error("a second request asks")
		}
	}}
	for range 2 {
		if !w.take(w.here, d).Admitted() {
			t.Error("the bucket has tokens, and is not asked")
		}
	}
}

// If no request has asked for as long as two pauses, none is refused while another one asks: what
// was refused then says nothing about now.
func TestContended_AllAskLater(t *testing.T) {
	w := newWorld(t)
	d := contended(w, rules.PerSecond(100))
	w.clock.Advance(2 * lease.MaxPause)
	nested, later := w.Store, new(store.Outcome)
	w.Store = &slow{nested, func() {
		w.Store = nested
		later = w.take(w.here, d)
	}}
	if !w.take(w.here, d).Admitted() || !later.Admitted() {
		t.Errorf("refused while another request asks: %+v", later.Results)
	}
}

// An answer can begin the pause of a lease and that of a refusal. Together they are not longer
// than one may be.
func TestContended_PauseOfALease(t *testing.T) {
	w := newWorld(t)
	band := rules.PerSecond(400)
	d, rest := demand("a", 1, band), demand("a", band.Capacity, band)
	d.Leased = true
	rest.Min, rest.Strict = 1, true
	asked := w.clock.Now()
	for range 5_000 {
		w.take(w.there, rest) // the others always come first
		if now := w.clock.Now(); w.asked(d) {
			asked = now
		} else if passed := now.Sub(asked); passed > lease.MaxPause {
			t.Fatalf("the bucket was not asked for %v", passed)
		}
		w.clock.Advance(2 * time.Millisecond)
	}
	if stats := w.here.Stats(); stats.Paused == 0 || w.calls < 5_000+100 {
		t.Errorf("%d calls, %+v", w.calls, stats)
	}
}

// A bucket that was enough for a request is not paused, although another demand refused
// the request.
func TestContended_OtherDemandRefuses(t *testing.T) {
	w := newWorld(t)
	d, other := contended(w, rules.PerSecond(100)), demand("b", 6, perMinute)
	w.take(w.there, other)
	w.clock.Advance(lease.MaxPause)
	if w.take(w.here, d, other).Admitted() || !w.take(w.here, d).Admitted() {
		t.Error("the bucket has tokens, and is not asked")
	}
}

// A gateway that is alone does not pause after it took the token itself.
func TestContended_Alone(t *testing.T) {
	onVirtualTime(t, func(f *fleet, gateway func() *lease.Store) {
		s, d := gateway(), demand("a", 1, rules.PerSecond(30))
		f.load(s, d, 1_000, 2*time.Second)
		f.calls.Store(0)
		if admitted := f.load(s, d, 1_000, time.Second); admitted < 29 || f.calls.Load() > 2*admitted+2 {
			t.Errorf("%d admitted of 30 with %d calls", admitted, f.calls.Load())
		}
	})
}

// Nor does it if a call reaches the store before the token is due, because the call
// before it took longer.
func TestContended_AloneAndEarly(t *testing.T) {
	onVirtualTime(t, func(f *fleet, gateway func() *lease.Store) {
		s, d := gateway(), demand("a", 1, rules.PerSecond(30))
		f.take(s, demand("a", 30, rules.PerSecond(30)))
		start := time.Now()
		f.latency = 20 * time.Millisecond
		f.take(s, d)
		f.latency = 2 * time.Millisecond
		for !f.take(s, d).Admitted() {
			time.Sleep(time.Millisecond)
		}
		if passed := time.Since(start); passed > 40*time.Millisecond || f.calls.Load() < 4 {
			t.Errorf("admitted after %v and %d calls, a token comes each 33 ms", passed, f.calls.Load())
		}
	})
}

// slow is a store with something that happens during a call.
type slow struct {
	store.Store
	during func()
}

func (s *slow) Take(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
	s.during()
	return s.Store.Take(ctx, demands, out)
}
