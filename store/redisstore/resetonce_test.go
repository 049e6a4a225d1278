package redisstore

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/store"
)

// A reset with a mark is done once, though many gateways receive the same
// changes late and out of order.
func TestResetOnce_Marks(t *testing.T) {
	server := testenv.StartStandalone(t, testenv.Config{})
	const gateways, changes = 8, 5
	stores := make([]probe, gateways)
	for i := range stores {
		stores[i] = newProbe(t, openStore(t, server.URI(), Config{}))
		stores[i].ruleSet = "set"
	}
	d := stores[0].demand("rule", 1, year)
	for change := range changes {
		stores[0].take(d)
		mark := fmt.Sprint(change)
		var done atomic.Int64
		var all sync.WaitGroup
		for _, s := range stores {
			all.Go(func() {
				did, err := s.Reset(t.Context(), store.Reset{Key: store.Key{RuleSet: "set"}, Mark: mark})
				if err != nil {
					t.Error(err)
				}
				if did {
					done.Add(1)
				}
				// A gateway that is late with the previous change does nothing.
				if did, err := s.Reset(t.Context(), store.Reset{Key: store.Key{RuleSet: "set"}, Mark: fmt.Sprint(max(0, change-1))}); did || err != nil {
					t.Errorf("a late gateway reset again: %v", err)
				}
			})
		}
		all.Wait()
		if done.Load() != 1 {
			t.Errorf("change %d was followed by %d resets", change, done.Load())
		}
		for i, s := range stores {
			if left := s.left(d); left != 3 {
				t.Errorf("change %d: gateway %d sees %d of 3 tokens", change, i, left)
			}
		}
	}
	if _, err := stores[0].Reset(t.Context(), store.Reset{Key: store.Key{RuleSet: "set"}, Mark: "two words"}); err == nil {
		t.Error("a mark of two words was accepted")
	}
	if _, err := stores[0].Reset(t.Context(), store.Reset{Key: d.Key, Mark: "mark"}); err == nil {
		t.Error("one bucket was reset by a mark")
	}
}
