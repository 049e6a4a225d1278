package redisstore_test

import (
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/testenv"
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
	sets := fluxgate.Static(fluxgate.Must(fluxgate.NewRuleSet("api",
		fluxgate.Rule{ID: "default", Paths: []string{"/default"}, Bands: []fluxgate.Band{fluxgate.PerHour(10)}},
		fluxgate.Rule{ID: "local", Paths: []string{"/local"}, OnFailure: fluxgate.FailLocal, Bands: []fluxgate.Band{fluxgate.PerHour(10)}},
	)))
	for name, store := range map[string]fluxgate.Store{"redisstore": redis, "lease": lease.New(redis, lease.Config{})} {
		if _, err := fluxgate.New(store, sets); err == nil {
			t.Errorf("%s: an engine without a fallback", name)
		}
	}
	inMemory := lease.New(fluxgate.Must(memstore.New(memstore.Config{})), lease.Config{})
	defer inMemory.Close()
	if _, err := fluxgate.New(inMemory, sets); err != nil {
		t.Errorf("a store that is not shared needs no fallback: %v", err)
	}
	engines := map[fluxgate.OnFailure]*fluxgate.Engine{
		fluxgate.FailLocal:  fluxgate.Must(fluxgate.New(redis, sets, fluxgate.WithAutoFallback(fluxgate.Must(memstore.New(memstore.Config{}))))),
		fluxgate.FailOpen:   fluxgate.Must(fluxgate.New(redis, sets, fluxgate.WithOnFailure(fluxgate.FailOpen))),
		fluxgate.FailClosed: fluxgate.Must(fluxgate.New(redis, sets, fluxgate.WithOnFailure(fluxgate.FailClosed))),
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[fluxgate.OnFailure]int{fluxgate.FailLocal: 10, fluxgate.FailOpen: 25, fluxgate.FailClosed: 0} {
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
