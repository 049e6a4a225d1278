package insight

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/store"
)

// keyOf is the key of a caller. Keys are hashes.
func keyOf(n uint64) (id store.KeyID) {
	binary.LittleEndian.PutUint64(id[:], n*0x9e3779b97f4a7c15)
	binary.LittleEndian.PutUint64(id[8:], n)
	return id
}

func plenty() *budget {
	b := new(budget)
	b.left.Store(maxCallers)
	return b
}

// On a stream of 10 million requests of a million callers the true top 20 are found, each
// count is off by at most the lowest one, and the memory does not grow.
func TestSketch_Zipf_NoRace(t *testing.T) {
	const requests, callers, top = 10_000_000, 1_000_000, 20
	for _, s := range []float64{1.05, 1.2} {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), s, 1, callers-1)
			truth := make([]uint32, callers)
			list, extra := new(callerList), plenty()
			var before, after runtime.MemStats
			for i := range requests {
				if i == requests/10 {
					runtime.ReadMemStats(&before)
				}
				n := zipf.Uint64()
				truth[n]++
				id := keyOf(n)
				list.current.add(&id, extra)
			}
			runtime.ReadMemStats(&after)
			if grown := after.Mallocs - before.Mallocs; grown > 100 {
				t.Errorf("%d allocations after the first tenth of the stream", grown)
			}
			if left := extra.left.Load(); left != maxCallers-(mostCallers-leastCallers) {
				t.Errorf("%d callers of the budget are left", left)
			}
			byCount := make([]uint64, callers)
			for i := range byCount {
				byCount[i] = uint64(i)
			}
			slices.SortFunc(byCount, func(a, b uint64) int { return cmp.Compare(truth[b], truth[a]) })
			for _, c := range list.top(top) {
				n := binary.LittleEndian.Uint64(c.id[8:])
				if !slices.Contains(byCount[:top], n) {
					t.Errorf("caller %d is not of the top %d", n, top)
				}
				if off := int64(c.count) - int64(truth[n]); off < 0 || off > int64(list.current.lowest) {
					t.Errorf("caller %d made %d requests, counted %d", n, truth[n], c.count)
				}
			}
		})
	}
}

// A sketch of any size agrees with exact counts, however callers come and go.
func TestSketch_Random(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		var s sketch
		extra := new(budget)
		extra.left.Store(random.Int64N(40))
		truth := map[store.KeyID]uint32{}
		for range random.IntN(2_000) {
			id := keyOf(random.Uint64N(1 + random.Uint64N(60)))
			truth[id]++
			s.add(&id, extra)
		}
		for id, n := range truth {
			e := s.find(&id)
			if e == nil && n > s.lowest {
				t.Fatalf("a caller with %d requests is missing, the lowest count is %d", n, s.lowest)
			}
			if e != nil && (e.id != id || n > e.count || n+s.lowest < e.count) {
				t.Fatalf("counted %d, made %d, the lowest count is %d", e.count, n, s.lowest)
			}
		}
		for place := range s.order {
			if int(s.entries[s.order[place]].place) != place || place > 0 && s.Less(place, (place-1)/2) {
				t.Fatal("the heap is not in order")
			}
		}
	}
}

// A list that is full for lack of budget has its own places, and gives others back.
func TestSketch_Budget(t *testing.T) {
	extra := new(budget)
	extra.left.Store(leastCallers)
	lists := make([]callerList, 3)
	for i := range lists {
		for n := range uint64(100) {
			id := keyOf(n)
			lists[i].current.add(&id, extra)
		}
	}
	for i, want := range []int{2 * leastCallers, leastCallers, leastCallers} {
		if got := len(lists[i].current.entries); got != want {
			t.Errorf("list %d has %d callers, want %d", i, got, want)
		}
	}
	for range 2 {
		lists[0].rotate(extra)
	}
	if extra.left.Load() != 0 {
		t.Error("a list gave back what its last window uses")
	}
	for range 2 {
		lists[0].rotate(extra)
	}
	if extra.left.Load() != leastCallers || cap(lists[0].current.entries)+cap(lists[0].last.entries) != 0 {
		t.Errorf("an unused list has %d places", cap(lists[0].current.entries))
	}
}

// A request does not wait while another one is counted: it is left out.
func TestCallers_Missed(t *testing.T) {
	list, extra := new(callerList), plenty()
	id := keyOf(1)
	list.current.add(&id, extra)
	e := &fluxgate.EvaluatedRule{Key: store.Key{ID: id}}
	list.mu.Lock()
	list.add(nil, e, extra)
	list.mu.Unlock()
	for range 2 {
		if found := list.top(1); len(found) != 1 || found[0].count != 1 {
			t.Errorf("%+v", found)
		}
		list.rotate(extra)
	}
	if found := list.top(1); len(found) != 0 {
		t.Errorf("after two windows: %+v", found)
	}
}

// A caller of both windows has the sum of both.
func TestCallers_Windows(t *testing.T) {
	list, none := new(callerList), new(budget)
	add := func(n uint64, times int) {
		id := keyOf(n)
		for range times {
			list.current.add(&id, none)
		}
	}
	for n := range uint64(leastCallers) {
		add(n, 5)
	}
	add(0, 1)
	add(leastCallers, 1) // replaces one with 5
	list.rotate(none)
	add(0, 9)
	add(100, 7)
	found := list.top(2)
	if len(found) != 2 || found[0].id != keyOf(0) || found[0].count != 15 {
		t.Errorf("in both windows: %+v", found[0])
	}
	if found[1].id != keyOf(100) || found[1].count != 7 {
		t.Errorf("in the current window: %+v", found[1])
	}
}
