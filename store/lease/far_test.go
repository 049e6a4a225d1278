package lease_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/lease"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// farStore is a store behind a network with this round trip.
type farStore struct {
	store.Store
	roundTrip atomic.Int64
}

func (*farStore) Gateways() int { return 1 }

func (f *farStore) Take(ctx context.Context, d []store.Demand, out *store.Outcome) error {
	half := time.Duration(f.roundTrip.Load() / 2)
	time.Sleep(half)
	err := f.Store.Take(ctx, d, out)
	time.Sleep(half)
	return err
}

func newFarStore(t *testing.T, roundTrip time.Duration) *farStore {
	t.Helper()
	near, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	f := &farStore{Store: near}
	f.roundTrip.Store(int64(roundTrip))
	return f
}

func busyDemand(t *testing.T) store.Demand {
	t.Helper()
	band, err := rules.PerSecond(1_000).Exact(0)
	if err != nil {
		t.Fatal(err)
	}
	return store.Demand{Key: store.Key{RuleSet: "s", Rule: "r", ID: store.KeyID{7}}, Bands: []store.ExactBand{band}, Cost: 1}
}

// A busy bucket admits at least nine tenths of its tokens, however far away the store is.
func TestStore_Far(t *testing.T) {
	for _, millis := range []int{2, 50, 100, 160, 200, 300} {
		away := time.Duration(millis) * time.Millisecond
		t.Run(away.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := lease.New(newFarStore(t, away), lease.Config{})
				const seconds, perSecond = 10, 2_000
				var admitted atomic.Int64
				var all sync.WaitGroup
				for range seconds * perSecond {
					all.Go(func() {
						var out store.Outcome
						if err := s.Take(t.Context(), []store.Demand{busyDemand(t)}, &out); err != nil {
							t.Error(err)
						} else if out.Admitted() {
							admitted.Add(1)
						}
					})
					time.Sleep(time.Second / perSecond)
				}
				all.Wait()
				if err := s.Close(); err != nil { // waits for a slice that is under way
					t.Error(err)
				}
				if due := int64(1_000 + seconds*1_000); admitted.Load() < due*9/10 || admitted.Load() > due+250 {
					t.Errorf("admitted %d of %d tokens: %+v", admitted.Load(), due, s.Stats())
				}
			})
		})
	}
}

// A store that comes closer is asked for slices again, and FromMemory says when it is too far away.
func TestStore_FarAndNear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far := newFarStore(t, 200*time.Millisecond)
		s := lease.New(far, lease.Config{})
		demand := busyDemand(t)
		slicesIn := func(wait time.Duration) int64 {
			before := s.Stats().Slices
			var all sync.WaitGroup
			for began := time.Now(); time.Since(began) < wait; time.Sleep(2 * time.Millisecond) {
				all.Go(func() { _ = s.Take(t.Context(), []store.Demand{busyDemand(t)}, new(store.Outcome)) })
			}
			all.Wait()
			return s.Stats().Slices - before
		}
		slicesIn(3 * time.Second)
		if n := slicesIn(3 * time.Second); n != 0 {
			t.Errorf("%d slices are taken from a store 200ms away", n)
		}
		if text := s.FromMemory(&demand); !strings.Contains(text, "Redis answers after 200ms") {
			t.Errorf("FromMemory() = %q", text)
		}
		far.roundTrip.Store(int64(2 * time.Millisecond))
		slicesIn(3 * time.Second)
		if n := slicesIn(time.Second); n == 0 {
			t.Error("no slice is taken from a store that is near again")
		}
	})
}
