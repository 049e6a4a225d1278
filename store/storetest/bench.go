package storetest

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/store"
)

// Benchmark measures a store: one key, many keys, and three rules of two
// bands, alone and from all cores.
func Benchmark(b *testing.B, open func(t testing.TB) Backend) {
	minute, second := band("minute", 1_000_000, 1_000_000, time.Minute), band("second", 100_000, 100_000, time.Second)
	b.Run("one key", func(b *testing.B) {
		f := newFixture(b, open(b))
		bench(b, f, 1, f.demand(1, minute))
	})
	b.Run("100,000 keys", func(b *testing.B) {
		f := newFixture(b, open(b))
		bench(b, f, 100_000, f.demand(1, minute))
	})
	b.Run("three rules of two bands", func(b *testing.B) {
		f := newFixture(b, open(b))
		bench(b, f, 100_000, f.demand(1, minute, second), f.demand(1, minute, second), f.demand(1, minute, second))
	})
}

func bench(b *testing.B, f *fixture, keys uint64, demands ...store.Demand) {
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		own := append([]store.Demand(nil), demands...)
		var out store.Outcome
		for n := uint64(0); pb.Next(); n++ {
			// Spread like hashes, which keys are.
			for i := range own {
				binary.LittleEndian.PutUint64(own[i].Key.ID[:], (n%keys)*0x9e3779b97f4a7c15)
			}
			if err := f.Store.Take(b.Context(), own, &out); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
