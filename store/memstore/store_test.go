package memstore_test

import (
	"testing"

	"github.com/fluxgate/fluxgate/store/memstore"
	"github.com/fluxgate/fluxgate/store/storetest"
)

func open(t testing.TB) storetest.Backend {
	t.Helper()
	clock := storetest.NewClock()
	store, err := memstore.New(memstore.Config{Clock: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	return storetest.Backend{Store: store, Warnings: store, Advance: clock.Advance}
}

func TestStore_Conformance(t *testing.T) { storetest.Run(t, open) }

func BenchmarkStore(b *testing.B) {
	storetest.Benchmark(b, func(t testing.TB) storetest.Backend {
		t.Helper()
		store, err := memstore.New(memstore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		return storetest.Backend{Store: store}
	})
}
