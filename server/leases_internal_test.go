package server

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/server/config"
)

// What is left of slices is given back before the connections to Redis are closed.
func TestLeases_GivenBack(t *testing.T) {
	redis := testenv.StartStandalone(t, testenv.Config{})
	file := filepath.Join(t.TempDir(), "rules.yaml")
	const capacity, rate, requests = 100_000, 200, 2_000
	rules := fmt.Sprintf("id: api-limits\nrules: [{id: all, bands: [{capacity: %d, refillTokens: %d, refill: 1s}]}]\n", capacity, rate)
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	open := func(prefix, leases string) *Operator {
		c, err := config.Load(config.Sources{Set: []string{
			"redis.uri=" + redis.URI(), "redis.prefix=" + prefix, "redis.leases=" + leases, "rules.file=" + file, "mongo.enabled=false",
		}})
		if err != nil {
			t.Fatal(err)
		}
		o, err := NewOperator(t.Context(), c, false, Options{Logger: discard})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	attempt := 0 // on a busy machine a slice may end before the server does, or Redis may be slow
	testenv.Eventually(t, "slices that have not ended are given back", func() bool {
		attempt++
		prefix := fmt.Sprint("attempt-", attempt)
		one := open(prefix, "auto")
		start, degraded := time.Now(), false
		for range requests {
			d, err := one.app.plane.Check(t.Context(), new(fluxgate.Request))
			if err != nil || !d.Allowed {
				t.Fatalf("%+v, %v", d, err)
			}
			degraded = degraded || d.Degraded
		}
		held := one.app.plane.leaseStats().Held
		if err := one.Close(); err != nil {
			t.Fatal(err)
		}
		other := open(prefix, "off")
		defer other.Close()
		d, err := other.app.plane.Check(t.Context(), &fluxgate.Request{Peek: true})
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
