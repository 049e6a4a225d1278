package redisstore

import (
	"errors"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// A slot of a request that was rejected, or whose caller has left, comes back also if Redis is
// away then: what was not sent is given back again.
func TestGiveBack_Outage(t *testing.T) {
	server := testenv.StartStandalone(t, testenv.Config{})
	proxy := testenv.StartProxy(t, server.Addr())
	p := newProbe(t, openStore(t, "redis://"+proxy.Addr(), Config{Timeout: 100 * time.Millisecond}))
	d := p.demand("rule", 1, rules.Band{Label: "slots", Kind: rules.Concurrency, Capacity: 1, Hold: time.Hour})
	d.Holder[0] = 1
	takes := store.NewTakes([]store.Demand{d}, p.take(d))
	proxy.Refuse()
	proxy.Cut()
	until(t, "settlements are not sent", func() bool {
		settled, err := p.Settle(t.Context(), takes, takes.Same(1))
		return err == nil && errors.Is(settled[0].NotSent, store.ErrNotSent)
	})
	p.giveBack(takes)
	time.Sleep(300 * time.Millisecond) // Redis is away for longer than a decision takes
	if waiting, lost := p.Unsent(); waiting != 1 || lost != 0 {
		t.Fatalf("%d wait and %d are lost, want one that waits", waiting, lost)
	}
	must(t, proxy.Accept())
	d.Holder[0] = 2
	until(t, "Redis decides", func() bool {
		var out store.Outcome
		return p.Take(t.Context(), []store.Demand{d}, &out) == nil && out.Admitted()
	})
}
