package redisstore_test

import (
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store/lease"
	"github.com/fluxgate/fluxgate/store/memstore"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

// An engine over Redis has an answer to an outage: New refuses one that would let all
// requests pass without having been asked to. With a fallback the limit holds while Redis is
// away, also for rules that name local themselves.
func TestEngine_Outage(t *testing.T) {
	server := testenv.StartStandalone(t, testenv.Config{})
	redis, err := redisstore.Open(t.Context(), server.URI(), redisstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer redis.Close()
	sets := fluxgate.Static(fluxgate.Must(rules.NewSet("api",
		rules.Rule{ID: "default", Paths: []string{"/default"}, Bands: []rules.Band{rules.PerHour(10)}},
		rules.Rule{ID: "local", Paths: []string{"/local"}, OnFailure: rules.FailLocal, Bands: []rules.Band{rules.PerHour(10)}},
	)))
	leases := lease.New(redis, lease.Config{})
	engines := map[string]*fluxgate.Engine{
		"local":               fluxgate.Must(fluxgate.New(redis, sets)),
		"local, with leases":  fluxgate.Must(fluxgate.New(leases, sets)),
		"local, half of it":   fluxgate.Must(fluxgate.New(redis, sets, fluxgate.WithFallbackShare(0.5))),
		"local, with a store": fluxgate.Must(fluxgate.New(redis, sets, fluxgate.WithFallback(fluxgate.Must(memstore.New(memstore.Config{}))))),
		"open":                fluxgate.Must(fluxgate.New(redis, sets, fluxgate.WithOnFailure(rules.FailOpen))),
		"closed":              fluxgate.Must(fluxgate.New(redis, sets, fluxgate.WithOnFailure(rules.FailClosed))),
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][2]int{
		"local": {10, 10}, "local, with leases": {10, 10}, "local, half of it": {5, 5}, "local, with a store": {10, 10}, "open": {25, 10}, "closed": {0, 10},
	} {
		for i, path := range []string{"/default", "/local"} {
			passed := 0
			for range 25 {
				d, err := engines[name].Check(t.Context(), &fluxgate.Request{Path: path})
				if err != nil {
					t.Fatal(err)
				}
				if d.Allowed {
					passed++
				}
			}
			if passed != want[i] {
				t.Errorf("%s %s: %d of 25 pass, want %d", name, path, passed, want[i])
			}
		}
	}
}
