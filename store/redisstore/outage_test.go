package redisstore

import (
	"context"
	"slices"
	"sync"
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
			f := newOutageFleet(t, "redis://"+proxy.Addr())
			stop := f.load()
			defer stop()
			f.empty()
			must(t, begin())
			began, before := time.Now(), f.count()
			f.passes(3 * time.Second)
			local, due := f.count()-before, perSecond*time.Since(began).Seconds()
			must(t, end())
			first, last := f.seen()
			f.passes(3 * time.Second)
			stop()
			t.Logf("%d admitted in the outage, %.0f due", local, due)
			if share := float64(local) / due; share < 0.9 || share > 1.1 {
				t.Errorf("%d admitted in the outage, which is %.2f of what is due", local, share)
			}
			f.verify(first, last)
		})
	}
}

// outageFleet is gateways that share a limit of perSecond, and what their callers have seen.
type outageFleet struct {
	testing.TB
	stores  []*Store
	engines []*fluxgate.Engine

	mu       sync.Mutex
	rejected []time.Time // by gateway, when a request that Redis rejected was sent
	emptyAt  time.Time   // the bucket was empty
	from     time.Time   // requests sent after it are counted
	admitted int64
	local    time.Time // the last decision without Redis
	former   fluxgate.FallbackStats
}

const perSecond = 100

func newOutageFleet(t testing.TB, uri string) *outageFleet {
	t.Helper()
	const gateways = 4
	f := &outageFleet{TB: t, rejected: make([]time.Time, gateways)}
	set := fluxgate.Must(rules.NewSet("api", rules.Rule{ID: "r", Bands: []rules.Band{rules.PerMinute(60 * perSecond)}}))
	for range gateways {
		s := openStore(t, uri, Config{Timeout: 100 * time.Millisecond, Refresh: 300 * time.Millisecond})
		local := fluxgate.Must(memstore.New(memstore.Config{}))
		f.stores = append(f.stores, s)
		f.engines = append(f.engines, fluxgate.Must(fluxgate.New(s, fluxgate.Static(set), fluxgate.WithFallback(local))))
	}
	countsEventually(t, gateways, f.stores...)
	testenv.Eventually(t, "most is taken", func() bool { return f.check(0, 59*perSecond).Source == store.FromStore })
	return f
}

func (f *outageFleet) check(gateway int, cost int64) fluxgate.Decision {
	d, err := f.engines[gateway].Check(context.Background(), &fluxgate.Request{Cost: cost})
	if err != nil {
		f.Error(err)
	}
	return d
}

// load sends requests until stop is called.
func (f *outageFleet) load() (stop func()) {
	const callers = 8
	load, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for gateway := range f.engines {
		for range callers {
			running.Go(func() {
				for load.Err() == nil {
					sent := time.Now()
					f.note(gateway, sent, f.check(gateway, 1))
					time.Sleep(2 * time.Millisecond)
				}
			})
		}
	}
	return func() { cancel(); running.Wait() }
}

func (f *outageFleet) note(gateway int, sent time.Time, d fluxgate.Decision) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case d.Degraded:
		f.local = time.Now()
	case !d.Allowed:
		f.rejected[gateway] = sent
	}
	if d.Allowed && sent.After(f.from) {
		f.admitted++
	}
}

// empty waits until the bucket is empty and every gateway has seen it, and counts from then on.
func (f *outageFleet) empty() {
	f.Helper()
	began := time.Now()
	testenv.Eventually(f, "the bucket is empty, and all have seen it", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return !slices.ContainsFunc(f.rejected, began.After)
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.from, f.emptyAt, f.admitted, f.former = time.Now(), slices.MaxFunc(f.rejected, time.Time.Compare), 0, f.stats()
}

func (f *outageFleet) count() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.admitted
}

func (f *outageFleet) passes(d time.Duration) {
	f.Helper()
	from := time.Now()
	testenv.Eventually(f, "time passes", func() bool { return time.Since(from) > d })
}

// seen returns when the first and the last gateway have seen Redis again, to charge it.
func (f *outageFleet) seen() (first, last time.Time) {
	f.Helper()
	away := slices.Clone(f.stores)
	testenv.Eventually(f, "all have seen Redis again", func() bool {
		away = slices.DeleteFunc(away, func(s *Store) bool {
			if s.nodes.queue(0).refusal() != nil {
				return false
			}
			if last = time.Now(); first.IsZero() {
				first = last
			}
			return true
		})
		return len(away) == 0
	})
	return first, last
}

func (f *outageFleet) stats() (sum fluxgate.FallbackStats) {
	for _, e := range f.engines {
		s := e.FallbackStats()
		sum.Admitted, sum.Charged, sum.Uncharged = sum.Admitted+s.Admitted, sum.Charged+s.Charged, sum.Uncharged+s.Uncharged
	}
	return sum
}

// verify compares what was admitted with what is due, after the load.
func (f *outageFleet) verify(first, last time.Time) {
	f.Helper()
	stats, due := f.stats(), perSecond*time.Since(f.emptyAt).Seconds()
	f.Logf("%d admitted, %.0f due; the last gateway saw Redis %v after the first; %+v", f.admitted, due, last.Sub(first), stats)
	most := due + perSecond*max(1, f.local.Sub(first).Seconds())
	if last.Sub(first) > longestHold/2 {
		// The machine is busy: the last gateway did not charge Redis before the first took from
		// it. Redis has handed out what is due, less what it was charged.
		most = due + float64(stats.Admitted-f.former.Admitted-stats.Charged+f.former.Charged)
	}
	if float64(f.admitted) > most+1 {
		f.Errorf("%d admitted, %.0f due, at most %.0f", f.admitted, due, most)
	}
	if stats.Charged == 0 {
		f.Error("Redis was not charged")
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
