package lease_test

import (
	"context"
	"testing"

	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/lease"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// marked is a store that resets once for each mark.
type marked struct {
	*memstore.Store
	marks map[string]bool
}

func (m *marked) Reset(ctx context.Context, what store.Reset) (bool, error) {
	if m.marks[what.Mark] {
		return false, nil
	}
	m.marks[what.Mark] = true
	return m.Store.Reset(ctx, what)
}

// Resets that happen once for all gateways are those of the wrapped store. Refusals end with a reset, also with one by another gateway.
func TestStore_Resets(t *testing.T) {
	w := newWorld(t)
	shared := &marked{Store: w.Store.(*memstore.Store), marks: map[string]bool{}}
	here, there := lease.New(shared, lease.Config{Now: w.clock.Now}), lease.New(shared, lease.Config{Now: w.clock.Now})
	d := demand("one", 3, perMinute)
	for _, s := range []*lease.Store{here, here, here, there} { // two of them are refused
		w.take(s, d)
	}
	for i, s := range []*lease.Store{here, there} {
		if did, err := s.Reset(t.Context(), store.Reset{Key: store.Key{RuleSet: "api"}, Mark: "mark"}); did != (i == 0) || err != nil {
			t.Errorf("gateway %d: reset %v, %v", i, did, err)
		}
	}
	for i, s := range []*lease.Store{here, there} {
		if !w.take(s, d).Admitted() {
			t.Errorf("gateway %d refuses after a reset", i)
		}
	}
}
