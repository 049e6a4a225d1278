package failover_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/failover"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// shared is a store that can be away.
type shared struct {
	*memstore.Store
	mu   sync.Mutex
	away bool
}

func (s *shared) setAway(away bool) { s.mu.Lock(); defer s.mu.Unlock(); s.away = away }
func (s *shared) isAway() bool      { s.mu.Lock(); defer s.mu.Unlock(); return s.away }

func (s *shared) Take(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
	if s.isAway() {
		return store.ErrNotSent
	}
	return s.Store.Take(ctx, demands, out)
}

func (s *shared) Settle(ctx context.Context, takes store.Takes, actual []int64) ([]store.Settlement, error) {
	if s.isAway() {
		return slices.Repeat([]store.Settlement{{NotSent: store.ErrNotSent}}, len(takes)), nil
	}
	return s.Store.Settle(ctx, takes, actual)
}

// pair is a decorator, with half of each limit in its fallback, and the store below it.
type pair struct {
	testing.TB
	*failover.Store
	shared *shared
}

func newPair(t testing.TB) *pair {
	t.Helper()
	below := &shared{Store: fluxgate.Must(memstore.New(memstore.Config{}))}
	fallback := fluxgate.Must(memstore.New(memstore.Config{}))
	return &pair{t, failover.New(below, fallback, failover.Config{Share: 0.5}), below}
}

func (p *pair) take(demands ...store.Demand) (store.Outcome, store.Takes) {
	p.Helper()
	var out store.Outcome
	if err := p.Take(p.Context(), demands, &out); err != nil {
		p.Fatal(err)
	}
	if out.Admission == store.NotAdmitted {
		return out, nil
	}
	takes := store.NewTakes(demands, &out)
	return out, takes
}

// used is how many tokens of a demand's bucket the store below has.
func (p *pair) used(d store.Demand) int64 {
	p.Helper()
	var out store.Outcome
	if err := p.shared.Peek(p.Context(), []store.Demand{d}, &out); err != nil {
		p.Fatal(err)
	}
	return d.Bands[0].Capacity - out.Results[0].Bands[0].Remaining
}

// demand is for n of 100 tokens, of which hardly any refill in a test.
func demand(key byte, mode store.OnFailure, n int64) store.Demand {
	band := rules.Band{Capacity: 100, Refill: 300 * 24 * time.Hour}
	return store.Demand{
		Key:   store.Key{RuleSet: "set", Rule: string('a' + rune(key)), ID: store.KeyID{key}},
		Bands: []store.ExactBand{fluxgate.Must(band.Exact(0))}, Cost: n, OnFailure: mode,
	}
}

// charged is until the store was charged after an outage.
const charged = time.Second

// A demand is decided by its failure mode, and a request by all of them.
func TestTake_Modes(t *testing.T) {
	open, closed := demand(1, store.FailOpen, 60), demand(2, store.FailClosed, 60)
	local, large, cut := demand(3, store.FailLocal, 40), demand(4, store.FailLocal, 60), demand(5, store.FailLocalCut, 60)
	shadow := closed
	shadow.Shadow = true
	const undecided = store.Unavailable
	for name, c := range map[string]struct {
		demands  []store.Demand
		want     store.Admission
		statuses []store.Status
	}{
		"open":                     {[]store.Demand{open}, store.Undecided, []store.Status{undecided}},
		"closed":                   {[]store.Demand{closed}, store.NotAdmitted, []store.Status{undecided}},
		"closed beside local":      {[]store.Demand{local, closed}, store.NotAdmitted, []store.Status{undecided, undecided}},
		"a closed shadow":          {[]store.Demand{local, shadow}, store.Admitted, []store.Status{store.OK, undecided}},
		"local":                    {[]store.Demand{local, open}, store.Undecided, []store.Status{store.OK, undecided}},
		"more than the share":      {[]store.Demand{large}, store.NotAdmitted, []store.Status{store.TooCostly}},
		"more than the share, cut": {[]store.Demand{cut}, store.Admitted, []store.Status{store.OK}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPair(t)
				p.shared.setAway(true)
				demands := slices.Clone(c.demands)
				out, _ := p.take(demands...)
				for i, want := range c.statuses {
					if r := &out.Results[i]; r.Status != want || (r.Source == store.FromFallback) != (want != undecided) {
						t.Errorf("demand %d is %v from %v, want %v", i, r.Status, r.Source, want)
					}
				}
				if out.Admission != c.want {
					t.Errorf("admission %v, want %v", out.Admission, c.want)
				}
				p.shared.setAway(false)
				time.Sleep(charged)
				for i, d := range c.demands {
					if got := p.used(d); got != out.Results[i].Granted {
						t.Errorf("the store was charged %d for demand %d, which was granted %d", got, i, out.Results[i].Granted)
					}
				}
			})
		})
	}
}

// A bucket set that was reset while the store was away is not charged.
func TestReset_ChargesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		p.shared.setAway(true)
		reset, other := demand(1, store.FailLocal, 20), demand(2, store.FailLocal, 20)
		p.take(reset)
		p.take(other)
		if _, err := p.Reset(t.Context(), store.Reset{Key: reset.Key}); err != nil {
			t.Fatal(err)
		}
		p.take(demand(1, store.FailLocal, 5))
		p.shared.setAway(false)
		time.Sleep(charged)
		if p.used(reset) != 5 || p.used(other) != 20 {
			t.Errorf("%d and %d used, want 5 and 20", p.used(reset), p.used(other))
		}
	})
}

// What was charged after a second outage is known for as long as after the first.
func TestSettle_TwoOutages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		var last store.Takes
		for range 2 {
			p.shared.setAway(true)
			_, last = p.take(demand(1, store.FailLocal, 20))
			p.shared.setAway(false)
			time.Sleep(9 * time.Minute)
		}
		settled, err := p.Settle(t.Context(), last, []int64{0})
		if used := p.used(demand(1, 0, 0)); err != nil || used != 20 || p.Stats().LostSettlements != 0 {
			t.Errorf("settled %+v, error %v: %d used, want 20; %+v", settled, err, used, p.Stats())
		}
	})
}

// Slots are renewed where they were taken.
func TestExtend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		slots := func(key byte) store.Demand {
			band := rules.Band{Kind: rules.Concurrency, Capacity: 10, Hold: time.Minute}
			d := demand(key, store.FailLocal, 1)
			d.Bands, d.Holder = []store.ExactBand{fluxgate.Must(band.Exact(0))}, store.HolderID{key}
			return d
		}
		_, takes := p.take(slots(1))
		p.shared.setAway(true)
		_, local := p.take(slots(2))
		p.shared.setAway(false)
		lost := local[0]
		lost.Holder = store.HolderID{3}
		held, err := p.Extend(t.Context(), store.Takes{lost, takes[0], local[0]})
		if want := []bool{false, true, true}; err != nil || !slices.Equal(held, want) {
			t.Errorf("held %v, error %v; want %v", held, err, want)
		}
	})
}

// An invalid demand is an error, and no failure of the store.
func TestTake_InvalidDemand(t *testing.T) {
	p := newPair(t)
	d := demand(1, store.FailLocal, -1)
	if err := p.Take(t.Context(), []store.Demand{d}, new(store.Outcome)); !errors.Is(err, store.ErrDemand) {
		t.Errorf("error %v, want ErrDemand", err)
	}
}
