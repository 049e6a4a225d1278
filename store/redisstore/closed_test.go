package redisstore

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// Calls after Close fail with ErrClosed, whether Redis answers or not.
func TestClose_LaterCalls(t *testing.T) {
	for name, kill := range map[string]bool{"Redis answers": false, "Redis is away": true} {
		t.Run(name, func(t *testing.T) {
			server := testenv.StartStandalone(t, testenv.Config{})
			s := openStore(t, server.URI(), Config{})
			p := newProbe(t, s)
			d := p.demand("r", 1, ample)
			takes := store.NewTakes([]store.Demand{d}, p.take(d))
			if kill {
				must(t, server.Kill())
			}
			must(t, s.Close())
			for name, call := range map[string]func() error{
				"take": func() error { return s.Take(t.Context(), []store.Demand{d}, new(store.Outcome)) },
				"peek": func() error { return s.Peek(t.Context(), []store.Demand{d}, new(store.Outcome)) },
				"settle": func() error {
					settled, err := s.Settle(t.Context(), takes, []int64{0})
					return errors.Join(err, settled[0].NotSent)
				},
			} {
				if err := call(); !errors.Is(err, store.ErrClosed) {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
}

// An engine whose store is closed in an outage gives up what it would have sent to it: the tokens of the
// fallback are uncharged, its settlements are lost, and nothing of it keeps running.
func TestClose_EngineInOutage(t *testing.T) {
	server := testenv.StartStandalone(t, testenv.Config{})
	s := openStore(t, server.URI(), Config{Timeout: 200 * time.Millisecond})
	set := fluxgate.Must(rules.NewSet("api", rules.Rule{ID: "r", Bands: []rules.Band{rules.PerDay(1_000)}}))
	freed := make(chan struct{})
	func() {
		engine := fluxgate.Must(fluxgate.New(s, fluxgate.Static(set), fluxgate.WithRuleSet("api")))
		check := func() fluxgate.Decision {
			d, err := engine.Check(t.Context(), &fluxgate.Request{Cost: 3})
			must(t, err)
			return d
		}
		before := check()
		must(t, server.Kill())
		until(t, "the fallback decides", func() bool { return check().Degraded })
		until(t, "a settlement waits", func() bool {
			if engine.FallbackStats().PendingSettlements == 0 {
				_, _ = engine.Settle(context.Background(), before.Receipt(), 1)
			}
			return engine.FallbackStats().PendingSettlements > 0
		})
		must(t, s.Close())
		until(t, "it is given up", func() bool {
			stats := engine.FallbackStats()
			return stats.Pending == 0 && stats.PendingSettlements == 0
		})
		if stats := engine.FallbackStats(); stats.Uncharged != stats.Admitted || stats.LostSettlements != 1 {
			t.Errorf("%+v", stats)
		}
		runtime.AddCleanup(engine, func(int) { close(freed) }, 0)
	}()
	for start := time.Now(); ; runtime.GC() {
		select {
		case <-freed:
			return
		case <-time.After(10 * time.Millisecond):
		}
		if time.Since(start) > 30*time.Second {
			t.Fatal("a timer or a goroutine keeps the engine")
		}
	}
}
