package redisstore

import (
	"crypto/rand"
	"flag"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

var holdersFor = flag.Duration("redisstore.holders", 5*time.Second, "how long callers hold slots, of whom some are lost")

// held is a time in which a caller has held a slot at least.
type held struct{ from, to int64 }

// mostHeld is how many slots were held at the same time.
func mostHeld(all []held) (most int) {
	type event struct {
		at     int64
		change int
	}
	var events []event
	for _, h := range all {
		events = append(events, event{h.from, 1}, event{max(h.from, h.to), -1})
	}
	slices.SortFunc(events, func(a, b event) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return a.change - b.change // a slot that is free may be taken at the same moment
	})
	now := 0
	for _, e := range events {
		now += e.change
		most = max(most, now)
	}
	return most
}

// Four gateways and 200 callers, of whom some are lost while they hold a slot: never
// are more slots held than there are, by the clock of Redis, and the slots of the lost
// come back after their hold.
func TestHolders_Lost(t *testing.T) {
	const gateways, callers, capacity, hold = 4, 200, 20, time.Second
	server := testenv.StartStandalone(t, testenv.Config{})
	var stores []*Store
	for range gateways {
		stores = append(stores, openStore(t, server.URI(), Config{}))
	}
	p := newProbe(t, stores[0])
	d := p.demand("slots", 1, rules.Band{Kind: rules.Concurrency, Capacity: capacity, Hold: hold})
	request := func() []store.Demand {
		own := d
		_, _ = rand.Read(own.Holder[:]) // never fails
		return []store.Demand{own}
	}
	var mu sync.Mutex
	var all []held
	var lost, released, refused int
	var running sync.WaitGroup
	end := time.Now().Add(*holdersFor)
	for i := range callers {
		s, r := stores[i%gateways], mathrand.New(mathrand.NewPCG(uint64(i), 1))
		running.Go(func() {
			for time.Now().Before(end) {
				demands := request()
				var out store.Outcome
				if err := s.Take(t.Context(), demands, &out); err != nil {
					t.Error(err)
					return
				}
				if !out.Admitted() {
					mu.Lock()
					refused++
					mu.Unlock()
					time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
					continue
				}
				takes := store.NewTakes(demands, &out)
				h := held{from: out.Results[0].Now}
				until := h.from + hold.Microseconds()
				gone := r.IntN(10) == 0
				for range r.IntN(3) { // a long request renews
					time.Sleep(time.Duration(r.IntN(400)) * time.Millisecond)
					sent := time.Now().UnixMicro()
					ok, err := s.Extend(t.Context(), takes)
					if err != nil || !ok[0] && time.Now().UnixMicro() < until {
						t.Errorf("a slot could not be renewed: %t, %v", ok, err)
						return
					}
					if !ok[0] { // on a busy machine the hold was over
						gone = true
						break
					}
					until = sent + hold.Microseconds()
				}
				time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
				if h.to = time.Now().UnixMicro(); gone {
					h.to = until
				} else if _, err := s.Settle(t.Context(), takes, []int64{1}); err != nil {
					t.Error(err)
				}
				mu.Lock()
				all = append(all, h)
				if gone {
					lost++
				} else {
					released++
				}
				mu.Unlock()
			}
		})
	}
	running.Wait()
	t.Logf("%d slots released, %d lost, %d requests refused, at most %d of %d at the same time", released, lost, refused, mostHeld(all), capacity)
	if most := mostHeld(all); most > capacity {
		t.Errorf("%d slots were held at the same time, of %d", most, capacity)
	}
	if lost == 0 || refused == 0 || released == 0 {
		t.Error("the test tests nothing")
	}
	back := time.Now()
	until(t, "all slots are free", func() bool {
		var out store.Outcome
		must(t, stores[0].Peek(t.Context(), request(), &out))
		return out.Results[0].Bands[0].Remaining == capacity
	})
	if took := time.Since(back); took > hold+time.Second {
		t.Errorf("the lost slots were back after %v", took)
	}
	// Nothing is left behind.
	until(t, "the keys have expired", func() bool {
		n, err := server.Do(t.Context(), "EXISTS", p.name(d), holdersOf(p.name(d)))
		must(t, err)
		return fmt.Sprint(n) == "0"
	})
}
