package lease_test

import (
	"context"
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/store/lease"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// marked is a store of two gateways that resets once for each mark and notes what it is asked.
type marked struct {
	*memstore.Store
	marks     map[string]bool
	forgotten string
	charged   int64
}

func (*marked) Gateways() int { return 2 }

func (*marked) Resets() uint64 { return 7 }

func (m *marked) Charge(_ context.Context, demands []fluxgate.Demand, _ *fluxgate.Outcome) error {
	m.charged += demands[0].Cost
	return nil
}

func (m *marked) ResetOnce(ctx context.Context, what fluxgate.Key, mark string) (bool, error) {
	if m.marks[mark] {
		return false, nil
	}
	m.marks[mark] = true
	return true, m.Reset(ctx, what)
}

func (m *marked) ForgetResets(_ context.Context, ruleSet string, _ func(string) bool) error {
	m.forgotten = ruleSet
	return nil
}

// Resets that happen once for all gateways, and resets that are forgotten, are those of
// the wrapped store. Refusals end with a reset, also with one by another gateway.
func TestStore_Resets(t *testing.T) {
	w := newWorld(t)
	shared := &marked{Store: w.Store.(*memstore.Store), marks: map[string]bool{}}
	here, there := lease.New(shared, lease.Config{Now: w.clock.Now}), lease.New(shared, lease.Config{Now: w.clock.Now})
	d := demand("one", 3, perMinute)
	for _, s := range []*lease.Store{here, here, here, there} { // two of them are refused
		w.take(s, d)
	}
	for i, s := range []*lease.Store{here, there} {
		if did, err := s.ResetOnce(t.Context(), fluxgate.Key{RuleSet: "api"}, "mark"); did != (i == 0) || err != nil {
			t.Errorf("gateway %d: reset %v, %v", i, did, err)
		}
	}
	for i, s := range []*lease.Store{here, there} {
		if !w.take(s, d).Admitted() {
			t.Errorf("gateway %d refuses after a reset", i)
		}
	}
	if err := here.ForgetResets(t.Context(), "api", nil); err != nil || shared.forgotten != "api" {
		t.Errorf("resets of %q are forgotten, %v", shared.forgotten, err)
	}
	// A store without marks resets every time.
	plain := lease.New(w, lease.Config{Now: w.clock.Now})
	for range 2 {
		if did, err := plain.ResetOnce(t.Context(), fluxgate.Key{RuleSet: "api"}, "mark"); !did || err != nil {
			t.Errorf("reset %v, %v", did, err)
		}
	}
}

// Charges, and the numbers of gateways and of resets, are those of the wrapped store. One that
// has none takes, and counts none.
func TestStore_Optional(t *testing.T) {
	w := newWorld(t)
	shared := &marked{Store: w.Store.(*memstore.Store)}
	d := []fluxgate.Demand{demand("one", 3, fluxgate.PerHour(79))}
	for name, c := range map[string]struct {
		store    fluxgate.Store
		gateways int
		resets   uint64
		charged  int64
		takes    bool
		memory   string
	}{
		"with":    {shared, 2, 7, 3, false, "refusals; no leases: capacity 79 is below 80"},
		"without": {w, 0, 0, 0, true, "refusals; no leases: refills below 200 a second"},
	} {
		s, out := lease.New(c.store, lease.Config{Now: w.clock.Now}), new(fluxgate.Outcome)
		shared.charged = 0
		if err := s.Charge(t.Context(), d, out); err != nil || shared.charged != c.charged || out.Admitted() != c.takes {
			t.Errorf("%s: charged %d, %v, %+v", name, shared.charged, err, out)
		}
		if s.Gateways() != c.gateways || s.Resets() != c.resets || s.FromMemory(&d[0]) != c.memory {
			t.Errorf("%s: %d gateways, %d resets, %s", name, s.Gateways(), s.Resets(), s.FromMemory(&d[0]))
		}
	}
}
