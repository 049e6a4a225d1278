package storetest_test

import (
	"context"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/storetest"
)

// leaseFaults are those of stores that take tokens ahead, and the check that must notice.
var leaseFaults = map[string]string{
	"spends a partial grant as a whole one":   "leases admit no more than the buckets give in a lease time longer",
	"renews twice":                            "leases spend what the bucket gives, and pause no longer than they may",
	"pauses for too long":                     "leases spend what the bucket gives, and pause no longer than they may",
	"ignores strict":                          "leases leave strict demands to the store",
	"refuses a request that could wait":       "leases refuse no request that could wait",
	"returns what was spent":                  "leases return what a refused request has spent, and no more",
	"keeps what a refused request has spent":  "leases return what a refused request has spent, and no more",
	"spends after expiry":                     "leases end with the lease time",
	"gives receipts from when it was spent":   "leases give receipts from when the tokens were taken",
	"spends nothing of its slices":            "leases end with the lease time",
	"pauses all buckets of a refused request": "leases let no caller at its own limit block others",
	"takes slices for any cost":               "leases take nothing for a cost that no slice has",
}

func init() {
	maps.Copy(faults, leaseFaults)
}

// A store that takes tokens ahead without a fault passes the checks for it.
func TestRun_CorrectLeases(t *testing.T) {
	for _, c := range storetest.Checks() {
		if strings.HasPrefix(c.Name, "leases ") {
			t.Run(c.Name, func(t *testing.T) { c.Run(t, openLeasing("")) })
		}
	}
}

var simpleBounds = storetest.Leases{Time: 250 * time.Millisecond, Pause: 50 * time.Millisecond, Share: 8}

func openLeasing(fault string) storetest.Backend {
	clock := storetest.NewClock()
	shared := &plain{states: map[store.KeyID]bucket.State{}, holds: map[store.KeyID]time.Duration{}, generations: map[[2]string]byte{}, clock: clock}
	gateway := func(testing.TB) store.Store {
		return &leasing{Store: shared, clock: clock, fault: fault, slices: map[store.KeyID]*held{}}
	}
	return storetest.Backend{Store: gateway(nil), Advance: clock.Advance, Gateway: gateway, Leases: simpleBounds}
}

// leasing is a gateway that takes tokens ahead, with a fault.
type leasing struct {
	mu sync.Mutex
	store.Store
	clock  *storetest.Clock
	fault  string
	slices map[store.KeyID]*held
}

// held is what it has of a bucket.
type held struct {
	left, at          int64
	until, pauseUntil time.Time
}

func (s *leasing) is(fault string) bool { return s.fault == fault }

func (s *leasing) Take(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
	if err := store.CheckDemands(demands); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	out.Prepare(demands)
	local, refused := make([]*held, len(demands)), false
	var rest []store.Demand
	for i := range demands {
		d, h := &demands[i], s.of(&demands[i])
		switch result := &out.Results[i]; {
		case h != nil && s.fill(ctx, h, d, now) && (d.MaxWait == 0 || h.left >= d.Cost):
			result.Source = store.FromLease
			if h.left < d.Cost {
				result.Status, refused = store.Rejected, refused || !d.Shadow
				break
			}
			h.left -= d.Cost
			local[i], result.Granted, result.Now = h, d.Cost, h.at
			if s.is("gives receipts from when it was spent") {
				result.Now = now.UnixMicro()
			}
		case h != nil && d.MaxWait > 0 && now.Before(h.pauseUntil) && s.is("refuses a request that could wait"):
			result.Status, result.Source, refused = store.Rejected, store.FromLease, true
		default:
			rest = append(rest, *d)
		}
	}
	if len(rest) > 0 && !refused {
		var shared store.Outcome
		if err := s.Store.Take(ctx, rest, &shared); err != nil {
			return err
		}
		refused = !shared.Admitted()
		for i, j := 0, 0; j < len(rest); i++ {
			if demands[i].Key.ID == rest[j].Key.ID {
				out.Results[i] = shared.Results[j]
				j++
			}
		}
	} else if refused {
		for i := range out.Results {
			if out.Results[i].Source == store.FromStore {
				out.Results[i].Status = store.NotAsked
			}
		}
	}
	for i := range demands {
		if h := s.slices[demands[i].Key.ID]; h != nil && refused && s.is("pauses all buckets of a refused request") {
			h.pauseUntil = now.Add(simpleBounds.Pause)
		}
	}
	for i, h := range local {
		if h != nil && (refused && !s.is("keeps what a refused request has spent") || len(rest) > 0 && s.is("returns what was spent")) {
			h.left += demands[i].Cost
		}
	}
	out.Decide(demands)
	return nil
}

// of returns what is held of a bucket, or nil if the store has to decide.
func (s *leasing) of(d *store.Demand) *held {
	strict := d.Strict && !s.is("ignores strict")
	if strict || d.Cost == 0 || d.Min > 0 || d.Overdraft || d.Bands[0].Capacity < 100 {
		return nil
	}
	if d.Cost > d.Bands[0].Capacity/simpleBounds.Share && !s.is("takes slices for any cost") {
		return nil
	}
	if s.slices[d.Key.ID] == nil {
		s.slices[d.Key.ID] = new(held)
	}
	return s.slices[d.Key.ID]
}

// fill takes a slice if less is held than a demand needs, and reports whether the
// demand is decided from memory.
func (s *leasing) fill(ctx context.Context, h *held, d *store.Demand, now time.Time) bool {
	if !now.Before(h.until) && !s.is("spends after expiry") {
		h.left = 0
	}
	if h.left >= d.Cost || now.Before(h.pauseUntil) {
		return true
	}
	slice := store.Demand{Key: d.Key, Bands: d.Bands, Cost: d.Bands[0].Capacity/simpleBounds.Share - h.left, Min: 1}
	if s.is("takes slices for any cost") {
		slice.Cost = max(slice.Cost, d.Cost)
	}
	var out store.Outcome
	for range 2 {
		if err := s.Store.Take(ctx, []store.Demand{slice}, &out); err != nil || !s.is("renews twice") {
			break
		}
	}
	granted := out.Results[0].Granted
	if h.left == 0 {
		h.at, h.until = out.Results[0].Now, now.Add(simpleBounds.Time)
	}
	if granted < slice.Cost {
		h.pauseUntil = now.Add(simpleBounds.Pause)
		if s.is("pauses for too long") {
			h.pauseUntil = now.Add(2 * simpleBounds.Pause)
		}
	}
	if granted > 0 && s.is("spends a partial grant as a whole one") {
		granted = slice.Cost
	}
	if s.is("spends nothing of its slices") {
		granted = 0
	}
	h.left += granted
	return h.left >= d.Cost
}
