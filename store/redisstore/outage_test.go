package redisstore

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// Four gateways under saturating load admit no more than the limit in an outage
// that begins with an empty bucket, and after it, but for what refills until the
// last of them has seen Redis again: here at most a second.
func TestOutage_FleetStaysWithinLimit(t *testing.T) {
	const gateways, callers, perMinute = 4, 8, 6_000
	const outage, after = 3 * time.Second, 3 * time.Second
	for name, fault := range map[string]func(*testenv.Server, *testenv.Proxy) (begin, end func() error){
		"frozen": func(s *testenv.Server, _ *testenv.Proxy) (begin, end func() error) { return s.Freeze, s.Thaw },
		"refused": func(_ *testenv.Server, p *testenv.Proxy) (begin, end func() error) {
			return func() error { p.Refuse(); p.Cut(); return nil }, p.Accept
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := testenv.StartStandalone(t, testenv.Config{})
			proxy := testenv.StartProxy(t, server.Addr())
			begin, end := fault(server, proxy)
			set := fluxgate.Must(rules.NewSet("api", rules.Rule{ID: "r", Bands: []rules.Band{rules.PerMinute(perMinute)}}))
			var stores []*Store
			var engines []*fluxgate.Engine
			for range gateways {
				s := openStore(t, "redis://"+proxy.Addr(), Config{Timeout: 100 * time.Millisecond, Refresh: 300 * time.Millisecond})
				local := fluxgate.Must(memstore.New(memstore.Config{}))
				stores, engines = append(stores, s), append(engines, fluxgate.Must(fluxgate.New(s, fluxgate.Static(set), fluxgate.WithFallback(local))))
			}
			countsEventually(t, gateways, stores...)
			check := func(e *fluxgate.Engine, cost int64) fluxgate.Decision {
				d, err := e.Check(context.Background(), &fluxgate.Request{Cost: cost})
				if err != nil {
					t.Error(err)
				}
				return d
			}
			check(engines[0], perMinute-100)
			testenv.Eventually(t, "the bucket is empty, and all have seen it", func() bool {
				for i := 0; i < gateways; {
					if !check(engines[i], 1).Allowed {
						i++
					}
				}
				return true
			})

			var admitted atomic.Int64
			load, stop := context.WithCancel(t.Context())
			defer stop()
			var running sync.WaitGroup
			start := time.Now()
			for _, e := range engines {
				for range callers {
					running.Go(func() {
						for load.Err() == nil {
							if d := check(e, 1); d.Allowed {
								admitted.Add(1)
							}
							pause := time.NewTimer(2 * time.Millisecond)
							<-pause.C
						}
					})
				}
			}
			passes := func(d time.Duration) {
				from := time.Now()
				testenv.Eventually(t, "time passes", func() bool { return time.Since(from) > d })
			}
			if err := begin(); err != nil {
				t.Fatal(err)
			}
			passes(outage)
			local := admitted.Load()
			if err := end(); err != nil {
				t.Fatal(err)
			}
			passes(after)
			stop()
			running.Wait()
			due := perMinute * time.Since(start).Minutes()
			var stats fluxgate.FallbackStats
			for _, e := range engines {
				s := e.FallbackStats()
				stats.Admitted, stats.Charged, stats.Uncharged = stats.Admitted+s.Admitted, stats.Charged+s.Charged, stats.Uncharged+s.Uncharged
			}
			t.Logf("%d admitted, of these %d in the outage; %.0f due; %+v", admitted.Load(), local, due, stats)
			if got := float64(admitted.Load()); got > due+perMinute/60 {
				t.Errorf("%.0f admitted, %.0f due", got, due)
			}
			if share := float64(local) / (perMinute * outage.Minutes()); share < 0.9 || share > 1.1 {
				t.Errorf("%d admitted in the outage, which is %.2f of what is due", local, share)
			}
			if stats.Charged == 0 {
				t.Error("Redis was not charged")
			}
		})
	}
}

// While Redis answers reads and refuses writes, a caller gets what is left of its
// bucket once: Redis is charged for it when it can be.
func TestOutage_OutOfMemory(t *testing.T) {
	const capacity = 100
	server := testenv.StartStandalone(t, testenv.Config{})
	s := openStore(t, server.URI(), Config{Refresh: beating})
	set := fluxgate.Must(rules.NewSet("api", rules.Rule{ID: "r", Bands: []rules.Band{rules.PerHour(capacity)}}))
	engine := fluxgate.Must(fluxgate.New(s, fluxgate.Static(set), fluxgate.WithFallback(fluxgate.Must(memstore.New(memstore.Config{}))), fluxgate.WithFallbackShare(1)))
	check := func(req fluxgate.Request) fluxgate.Decision {
		d, err := engine.Check(t.Context(), &req)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	memory := func(limit string) {
		if _, err := server.Do(t.Context(), "CONFIG", "SET", "maxmemory", limit); err != nil {
			t.Fatal(err)
		}
	}
	memory("1")
	admitted := 0
	for began := time.Now(); time.Since(began) < 2*time.Second; time.Sleep(time.Millisecond) {
		check(fluxgate.Request{Peek: true})
		check(fluxgate.Request{Cost: capacity + 1})
		if check(fluxgate.Request{}).Allowed {
			admitted++
		}
	}
	if admitted != capacity {
		t.Errorf("%d admitted while Redis is out of memory, want %d", admitted, capacity)
	}
	memory("0")
	testenv.Eventually(t, "Redis is charged and decides", func() bool { return check(fluxgate.Request{Peek: true}).Source == store.FromStore })
	if stats := engine.FallbackStats(); check(fluxgate.Request{}).Allowed || stats.Charged < capacity-1 || stats.Uncharged > 0 {
		t.Errorf("%+v", stats)
	}
}
