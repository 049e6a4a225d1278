package redisstore_test

import (
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
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
	for name, buckets := range map[string]store.Store{"redisstore": redis, "lease": lease.New(redis, lease.Config{})} {
		if _, err := fluxgate.New(buckets, sets); err == nil {
			t.Errorf("%s: an engine without a fallback", name)
		}
	}
	inMemory := lease.New(fluxgate.Must(memstore.New(memstore.Config{})), lease.Config{})
	defer inMemory.Close()
	if _, err := fluxgate.New(inMemory, sets); err != nil {
		t.Errorf("a store that is not shared needs no fallback: %v", err)
	}
	engines := map[rules.OnFailure]*fluxgate.Engine{
		rules.FailLocal:  fluxgate.Must(fluxgate.New(redis, sets, fluxgate.WithAutoFallback(fluxgate.Must(memstore.New(memstore.Config{}))))),
		rules.FailOpen:   fluxgate.Must(fluxgate.New(redis, sets, fluxgate.WithOnFailure(rules.FailOpen))),
		rules.FailClosed: fluxgate.Must(fluxgate.New(redis, sets, fluxgate.WithOnFailure(rules.FailClosed))),
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[rules.OnFailure]int{rules.FailLocal: 10, rules.FailOpen: 25, rules.FailClosed: 0} {
		for _, path := range []string{"/default", "/local"} {
			passed := 0
			for range 25 {
				d, err := engines[mode].Check(t.Context(), &fluxgate.Request{Path: path})
				if err != nil {
					t.Fatal(err)
				}
				if d.Allowed {
					passed++
				}
			}
			if passed != want {
				t.Errorf("%s %s: %d of 25 pass, want %d", mode, path, passed, want)
			}
		}
	}
}
