package lease_test

import (
	"context"
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/store/lease"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// marked is a store that resets once for each mark and counts what it is asked.
type marked struct {
	*memstore.Store
	marks     map[string]bool
	forgotten string
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
