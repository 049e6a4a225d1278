package memstore_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
)

func TestNew_Config(t *testing.T) {
	t.Run("with a negative bound is refused", func(t *testing.T) {
		if _, err := memstore.New(memstore.Config{MaxBuckets: -1}); err == nil {
			t.Error("accepted")
		}
	})
	t.Run("without anything works, with a salt that nobody else has", func(t *testing.T) {
		one, err := memstore.New(memstore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		other, err := memstore.New(memstore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if len(one.Salt()) < 16 || bytes.Equal(one.Salt(), other.Salt()) {
			t.Errorf("salts %x and %x", one.Salt(), other.Salt())
		}
		if err := one.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Run("with a salt keeps it", func(t *testing.T) {
		store, err := memstore.New(memstore.Config{Salt: []byte("pepper")})
		if err != nil || string(store.Salt()) != "pepper" {
			t.Errorf("salt %q, %v", store.Salt(), err)
		}
	})
	t.Run("with a clock goes by it", func(t *testing.T) {
		f := newFixture(t, 0, rules.PerHour(1))
		if got, want := f.take(f.demand(0, 1)).Results[0].Now, f.clock.Now().UnixMicro(); got != want {
			t.Errorf("decided at %d, the clock says %d", got, want)
		}
	})
	t.Run("without a clock goes by the machine's", func(t *testing.T) {
		f := newFixture(t, 0, rules.PerHour(1))
		store, err := memstore.New(memstore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		f.Store = store
		before := time.Now().UnixMicro()
		got := f.take(f.demand(0, 1)).Results[0].Now
		// The monotonic clock and the wall clock may differ slightly.
		if after := time.Now().UnixMicro(); got < before-1_000_000 || got > after+1_000_000 {
			t.Errorf("decided at %d, between %d and %d", got, before, after)
		}
	})
}

func TestTake_ContextEnded(t *testing.T) {
	f := newFixture(t, 0, rules.PerHour(10))
	d := f.demand(0, 1)
	takes := store.NewTakes([]store.Demand{d}, f.take(d))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out store.Outcome
	_, settling := f.Settle(ctx, takes, takes.Same(0))
	_, resetting := f.Reset(ctx, store.Reset{Key: d.Key})
	for what, err := range map[string]error{
		"Take": f.Take(ctx, []store.Demand{d}, &out), "Peek": f.Peek(ctx, []store.Demand{d}, &out),
		"Settle": settling, "Reset": resetting,
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v, want context.Canceled", what, err)
		}
	}
	if got := f.left(0); got != 9 {
		t.Errorf("%d left, want 9", got)
	}
}

func TestStore_InvalidArguments(t *testing.T) {
	f := newFixture(t, 0, rules.PerHour(10))
	d := f.demand(0, 1)
	takes := store.NewTakes([]store.Demand{d}, f.take(d))
	if _, err := f.Settle(t.Context(), takes, takes.Same(-1)); !errors.Is(err, store.ErrDemand) {
		t.Errorf("settling at -1: %v, want ErrDemand", err)
	}
	if _, err := f.Reset(t.Context(), store.Reset{Key: store.Key{}}); err == nil {
		t.Error("a reset of everything is accepted")
	}
	if got := f.left(0); got != 9 {
		t.Errorf("%d left, want 9", got)
	}
}
