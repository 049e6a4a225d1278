package storetest_test

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/storetest"
)

// memoryFaults are those of stores that refuse from memory.
var memoryFaults = []string{
	"refuses from memory what can wait", "refuses from memory what fits again", "refuses strict demands from memory",
	"refuses from memory for shadow demands", "refuses from memory after a settlement", "refuses from memory after a reset",
	"refuses from memory what costs less", "tells too long a wait from memory",
}

func init() {
	for _, fault := range memoryFaults {
		faults[fault] = "memory refuses only what the store would refuse"
	}
}

// forgetful is a store that refuses from memory, with a fault.
type forgetful struct {
	mu sync.Mutex
	store.Store
	clock *storetest.Clock
	fault string
	known map[store.KeyID]refused
}

type refused struct {
	at     time.Time
	cost   int64
	result store.Result
}

func (s *forgetful) Take(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range demands {
		if d := &demands[i]; s.refuses(d) {
			out.Prepare(demands)
			for j := range out.Results {
				out.Results[j].Status, out.Results[j].Source = store.NotAsked, store.FromNegativeCache
			}
			known := s.known[d.Key.ID]
			out.Results[i] = known.result
			out.Results[i].Source = store.FromNegativeCache
			passed := s.clock.Now().Sub(known.at)
			if s.fault == "tells too long a wait from memory" {
				passed = 0
			}
			out.Results[i].Wait -= passed
			for j := range out.Results[i].Bands {
				b := &out.Results[i].Bands[j]
				b.Wait, b.FullAfter, b.MoreAfter = max(0, b.Wait-passed), max(0, b.FullAfter-passed), max(0, b.MoreAfter-passed)
			}
			out.Decide(demands)
			return nil
		}
	}
	if err := s.Store.Take(ctx, demands, out); err != nil {
		return err
	}
	for i := range demands {
		id, result := demands[i].Key.ID, out.Results[i]
		delete(s.known, id)
		if result.Status == store.Rejected && !demands[i].Overdraft {
			result.Bands = slices.Clone(result.Bands)
			s.known[id] = refused{s.clock.Now(), demands[i].Cost, result}
		}
	}
	return nil
}

func (s *forgetful) refuses(d *store.Demand) bool {
	known, ok := s.known[d.Key.ID]
	wait := known.result.Wait - s.clock.Now().Sub(known.at)
	return ok && d.Min == 0 && !d.Overdraft && len(known.result.Bands) == len(d.Bands) &&
		(d.Cost >= known.cost || s.fault == "refuses from memory what costs less") &&
		(!d.Strict || s.fault == "refuses strict demands from memory") &&
		(!d.Shadow || s.fault == "refuses from memory for shadow demands") &&
		(wait > d.MaxWait || wait > 0 && s.fault == "refuses from memory what can wait" ||
			d.MaxWait == 0 && s.fault == "refuses from memory what fits again")
}

func (s *forgetful) Settle(ctx context.Context, takes store.Takes, actual []int64) ([]store.Settlement, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault != "refuses from memory after a settlement" {
		clear(s.known)
	}
	return s.Store.Settle(ctx, takes, actual)
}

func (s *forgetful) Reset(ctx context.Context, what store.Reset) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault != "refuses from memory after a reset" {
		clear(s.known)
	}
	return s.Store.Reset(ctx, what)
}
