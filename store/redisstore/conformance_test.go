package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/store/lease"
	"github.com/fluxgate/fluxgate/store/storetest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// openStore makes a store that is closed with the test.
func openStore(t testing.TB, uri string, config Config) *Store {
	t.Helper()
	if config.Timeout == 0 {
		config.Timeout = 2 * time.Second
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
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

// conformance runs the suite with the time passed in.
func conformance(t *testing.T, uri string) {
	storetest.Run(t, func(t testing.TB) storetest.Backend {
		clock := storetest.NewClock()
		s := openStore(t, uri, Config{clock: func() int64 { return clock.Now().UnixMicro() }})
		return storetest.Backend{Store: s, Advance: clock.Advance}
	})
}

// leaseConformance runs the suite on a store that refuses from memory.
func leaseConformance(t *testing.T, uri string) {
	storetest.Run(t, func(t testing.TB) storetest.Backend {
		clock, steady := storetest.NewClock(), storetest.NewClock()
		s := openStore(t, uri, Config{clock: func() int64 { return clock.Now().UnixMicro() }})
		return storetest.Backend{Store: lease.New(s, lease.Config{Now: steady.Now}), Advance: func(d time.Duration) {
			clock.Advance(d)
			steady.Advance(max(0, d)) // that of a gateway does not step back
		}}
	})
}

func TestConformance_LeaseStandalone(t *testing.T) {
	leaseConformance(t, testenv.SharedStandalone(t).URI())
}

func TestConformance_LeaseSentinel(t *testing.T) {
	leaseConformance(t, testenv.SharedSentinel(t).URI())
}

func TestConformance_LeaseCluster(t *testing.T) {
	leaseConformance(t, testenv.SharedCluster(t).URI())
}

func TestConformance_Standalone(t *testing.T) {
	conformance(t, testenv.SharedStandalone(t).URI())
}

func TestConformance_Sentinel(t *testing.T) {
	conformance(t, testenv.SharedSentinel(t).URI())
}

func TestConformance_Cluster(t *testing.T) {
	conformance(t, testenv.SharedCluster(t).URI())
}
