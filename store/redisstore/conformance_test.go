package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/lease"
	"github.com/fluxgate/fluxgate/store/storetest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// openStore makes a store that is closed with the test.
func openStore(t testing.TB, uri string, config Config) *Store {
	t.Helper()
	if config.Timeout == 0 {
		config.Timeout = patience
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	s, err := Open(ctx, uri, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// patience is the deadline of calls in the suite, which passes its time itself: a busy
// machine may take long.
const patience = 10 * time.Second

// conformance runs the suite with the time passed in.
func conformance(t *testing.T, uri string) {
	storetest.Run(t, func(t testing.TB) storetest.Backend {
		clock := storetest.NewClock()
		open := func(t testing.TB) *Store {
			return openStore(t, uri, Config{Timeout: patience, clock: func() int64 { return clock.Now().UnixMicro() }})
		}
		s := open(t)
		return storetest.Backend{
			Store: s, Warnings: s, Gateway: func(t testing.TB) store.Store { return open(t) }, Advance: clock.Advance,
		}
	})
}

// patient is a store whose calls have no deadline but its own: the clock of the suite
// is stopped during a call, however long a busy machine takes.
type patient struct{ *Store }

func (p patient) Take(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
	return p.Store.Take(context.WithoutCancel(ctx), demands, out)
}

// leaseConformance runs the suite on gateways that answer from memory, each with its own
// connections.
func leaseConformance(t *testing.T, uri string) {
	storetest.Run(t, func(t testing.TB) storetest.Backend {
		clock, steady := storetest.NewClock(), storetest.NewClock()
		gateway := func(t testing.TB) store.Store {
			// Other tests have gateways too. The number of them is not what is tested.
			s := openStore(t, uri, Config{Timeout: patience, clock: func() int64 { return clock.Now().UnixMicro() }, Uncounted: true})
			return lease.New(patient{s}, lease.Config{Now: steady.Now, Go: func(call func()) { call() }})
		}
		return storetest.Backend{
			Store:   gateway(t),
			Gateway: gateway,
			Leases:  storetest.Leases{Time: lease.Time, Pause: lease.MaxPause, Share: 3},
			Advance: func(d time.Duration) {
				clock.Advance(d)
				steady.Advance(max(0, d)) // that of a gateway does not step back
			},
		}
	})
}

func TestConformance_LeaseStandalone(t *testing.T) {
	leaseConformance(t, testenv.SharedStandalone(t).URI())
}

func TestConformance_LeaseSentinel_NoRace(t *testing.T) {
	leaseConformance(t, testenv.SharedSentinel(t).URI())
}

func TestConformance_LeaseCluster(t *testing.T) {
	leaseConformance(t, testenv.SharedCluster(t).URI())
}

func TestConformance_Standalone(t *testing.T) {
	conformance(t, testenv.SharedStandalone(t).URI())
}

// The race detector sees the same code with one Redis.
func TestConformance_Sentinel_NoRace(t *testing.T) {
	conformance(t, testenv.SharedSentinel(t).URI())
}

func TestConformance_Cluster(t *testing.T) {
	conformance(t, testenv.SharedCluster(t).URI())
}
