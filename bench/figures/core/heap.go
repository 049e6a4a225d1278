package main

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"runtime"

	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/store"
)

// heap measures what a live bucket takes, and that callers without number do
// not take more than the bound allows.
func heap(report *figure.Report) {
	report.AtMost("heap-per-bucket", heapPerBucket(figure.Some(1_000_000)), 200, " B")
	report.AtMost("heap-after-flood", heapAfterFlood(figure.Some(1_000_000), figure.Some(5_000_000)), 1.05, "× heap at the bound")
}

func heapPerBucket(live int) float64 {
	before := heapInUse()
	store := newStore(2 * live) // hashes do not fill all parts of a store alike
	fill(store, 0, live)
	if n := store.Stats().Buckets; n != live {
		panic(fmt.Sprintf("%d buckets of %d are there", n, live))
	}
	grown := heapInUse() - before
	runtime.KeepAlive(store)
	return float64(grown) / float64(live)
}

// heapAfterFlood is how many times as much heap as at the bound there is
// after a flood of callers.
func heapAfterFlood(bound, callers int) float64 {
	before := heapInUse()
	store := newStore(bound)
	fill(store, 0, 2*bound) // once over, so that every part of the store is full
	full := heapInUse() - before
	fill(store, 2*bound, callers)
	if n := store.Stats().Buckets; n > bound || n < bound*99/100 {
		panic(fmt.Sprintf("%d buckets where %d are the bound", n, bound))
	}
	after := heapInUse() - before
	runtime.KeepAlive(store)
	return float64(after) / float64(full)
}

// fill takes from the keys in [from, to), each once.
func fill(buckets store.Store, from, to int) {
	demands := []store.Demand{newDemand()}
	var out store.Outcome
	for n := from; n < to; n++ {
		demands[0].Key.ID = key(uint64(n))
		take(buckets, demands, &out)
	}
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC() // the second frees what the first one's finalizers held
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// newDemand asks for one token of one band.
func newDemand() store.Demand {
	band, err := plenty.Exact(0)
	must(err)
	return store.Demand{
		Key:   store.Key{RuleSet: "api", Rule: "by-address"},
		Bands: []store.ExactBand{band}, Cost: 1,
	}
}

// key is the key of a caller: a hash, as the engine makes them.
func key(caller uint64) store.KeyID {
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64(nil, caller))
	return store.KeyID(sum[:16])
}
