package main

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// cores compares the throughput of two callers with keys of their own on two
// cores with that on one. The control is the same callers with a store each,
// who share nothing: what the machine had to give.
func cores(report *figure.Report) {
	store := newStore(0)
	shared := twoCallers(store, store)
	apart := twoCallers(newStore(0), newStore(0))
	var possible []float64
	gain := figure.Median(401, func() float64 {
		possible = append(possible, gained(apart))
		return gained(shared)
	})
	slices.Sort(possible)
	report.Verdict("memstore-two-cores",
		fmt.Sprintf("%.2f× one core, %.2f× with a store each", gain, possible[len(possible)/2]),
		"at least 1.60× one core", gain >= 1.6)
}

// gained is what two cores gain over one.
func gained(callers [2]func()) float64 {
	one := together(1, callers)
	return float64(one) / float64(together(2, callers))
}

// together is how long two callers take on so many cores, from the moment on
// which all of the cores are at work.
func together(cores int32, callers [2]func()) time.Duration {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(int(cores)))
	var atWork atomic.Int32
	var start time.Time
	var group sync.WaitGroup
	for _, call := range callers {
		group.Go(func() {
			if atWork.Add(1) == cores {
				start = time.Now()
			}
			for atWork.Load() < cores { // the other one is on its way
			}
			call()
		})
	}
	group.Wait()
	return time.Since(start)
}

// twoCallers each have 50,000 keys and take from 5,000 of them in a turn. What
// they write is on their own stacks, or they would share more than a store.
func twoCallers(stores ...*memstore.Store) (callers [2]func()) {
	const keys, perTurn = 50_000, 5_000
	for i := range callers {
		own := make([]store.KeyID, keys)
		for k := range own {
			own[k] = key(uint64(i*keys + k))
		}
		first := 0
		callers[i] = func() {
			demands := []store.Demand{newDemand()}
			var out store.Outcome
			for _, id := range own[first:][:perTurn] {
				demands[0].Key.ID = id
				take(stores[i], demands, &out)
			}
			first = (first + perTurn) % keys
		}
		for range keys / perTurn {
			callers[i]() // every bucket is there
		}
	}
	return callers
}
