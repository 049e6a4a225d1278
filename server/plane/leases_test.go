package plane_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/server/plane"
)

// What is left of slices is given back before the connections to Redis are closed.
func TestLeases_GivenBack(t *testing.T) {
	redis := testenv.StartStandalone(t, testenv.Config{})
	const capacity, rate, requests = 100_000, 200, 2_000
	set, err := rules.NewSet("api-limits", rules.Rule{
		ID: "all", Bands: []rules.Band{{Capacity: capacity, RefillTokens: rate, Refill: time.Second}},
	})
	if err != nil {
		t.Fatal(err)
	}
	open := func(prefix, leases string) *plane.Plane {
		c, err := config.Load(config.Sources{Set: []string{
			"redis.uri=" + redis.URI(), "redis.prefix=" + prefix, "redis.leases=" + leases, "mongo.enabled=false",
		}})
		if err != nil {
			t.Fatal(err)
		}
		p, err := plane.New(c, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Open(t.Context(), plane.Options{Rules: fluxgate.Static(set), Wait: time.Minute}); err != nil {
			t.Fatal(err)
		}
		return p
	}
	attempt := 0 // on a busy machine a slice may end before the server does, or Redis may be slow
	testenv.Eventually(t, "slices that have not ended are given back", func() bool {
		attempt++
		prefix := fmt.Sprint("attempt-", attempt)
		one := open(prefix, "auto")
		start, degraded := time.Now(), false
		for range requests {
			d, err := one.Check(t.Context(), new(fluxgate.Request))
			if err != nil || !d.Allowed {
				t.Fatalf("%+v, %v", d, err)
			}
			degraded = degraded || d.Degraded
		}
		held := one.LeaseStats().Held
		if err := one.Close(); err != nil {
			t.Fatal(err)
		}
		other := open(prefix, "off")
		defer other.Close()
		d, err := other.Check(t.Context(), &fluxgate.Request{Peek: true})
		most := min(capacity, capacity-requests+int64(rate*time.Since(start).Seconds())+1)
		if degraded {
			return false // Redis was slow, and does not know of every request
		}
		if err != nil || d.Remaining > most {
			t.Fatalf("%d tokens are left, at most %d can be: %v", d.Remaining, most, err)
		}
		return held > requests/4 && d.Remaining > most-held/2
	})
}
