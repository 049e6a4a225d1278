package fluxgate

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// waitSeen is a store that admits all, and calls seen with each request.
type waitSeen struct {
	store.Store
	seen func()
}

func (s *waitSeen) Take(_ context.Context, demands []store.Demand, out *store.Outcome) error {
	s.seen()
	out.Prepare(demands)
	out.Decide(demands)
	return nil
}

func (*waitSeen) Salt() []byte  { return nil }
func (*waitSeen) Gateways() int { return 0 }

// The slots remember no bucket longer than a request may wait for it.
func TestWaitSlots_ForgetBuckets(t *testing.T) {
	store := new(waitSeen)
	rule := rules.Rule{ID: "q", Scope: rules.ScopeUser, OnLimitExceed: rules.WaitForRefill, Bands: []rules.Band{rules.PerSecond(1)}}
	engine := Must(New(store, Static(Must(rules.NewSet("api", rule))), WithWaiting(time.Second, 10)))
	store.seen = func() {
		if w := &engine.waits; w.taken != 1 || len(w.buckets) != 1 {
			t.Errorf("while a request is decided %d slots are taken, for %d buckets", w.taken, len(w.buckets))
		}
	}
	for i := range 100 {
		if d, err := engine.Check(t.Context(), &Request{UserID: fmt.Sprint(i)}); err != nil || !d.Allowed {
			t.Fatal(d.Reason, err)
		}
	}
	if w := &engine.waits; w.taken != 0 || len(w.buckets) != 0 {
		t.Errorf("afterwards %d slots are taken, for %d buckets", w.taken, len(w.buckets))
	}
}
