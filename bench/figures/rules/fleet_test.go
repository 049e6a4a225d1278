package rules_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/redisrules"
	"github.com/fluxgate/fluxgate/rules/reload"
)

func newClient(t *testing.T, addr string) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// fleet is an editor whose changes are announced and gateways that listen.
type fleet struct {
	t        *testing.T
	editor   rules.Editor
	gateways []*reload.Reloader
	capacity int64
	base     int64
}

// newFleet has the gateways listen through listenAt.
func newFleet(t *testing.T, server *testenv.Server, listenAt string, size int, interval time.Duration) *fleet {
	t.Helper()
	client := newClient(t, server.Addr())
	source := fluxgate.Must(redisrules.New(client, redisrules.Config{}))
	f := &fleet{t: t, editor: reload.Announcing(source, client, reload.AnnounceConfig{})}
	f.change()
	for range size {
		r := fluxgate.Must(reload.Start(t.Context(), source, reload.Config{
			RuleSets: []string{"set"}, Strategy: reload.Auto, Interval: interval, Redis: newClient(t, listenAt),
		}))
		t.Cleanup(func() { _ = r.Close() })
		f.gateways = append(f.gateways, r)
	}
	for _, r := range f.gateways {
		for r.Stats().Subscribed == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	return f
}

// change makes a new version and returns when it was committed.
func (f *fleet) change() time.Time {
	f.t.Helper()
	f.capacity++
	set := fluxgate.Must(rules.NewSet("set", rules.Rule{
		ID: "rule", Bands: []rules.Band{{Capacity: f.capacity, Refill: time.Hour}},
	}))
	var err error
	if f.base, err = f.editor.Put(f.t.Context(), set, rules.Change{Author: "figures", Base: f.base}); err != nil {
		f.t.Fatal(err)
	}
	return time.Now()
}

// effect is how long after the commit each gateway used the change.
func (f *fleet) effect(committed time.Time) []time.Duration {
	took := make([]time.Duration, len(f.gateways))
	var all sync.WaitGroup
	for i, r := range f.gateways {
		all.Go(func() {
			for {
				set := r.RuleSet(f.t.Context(), "set")
				for rule := range set.Rules() {
					if rule.Bands[0].Capacity == f.capacity {
						took[i] = time.Since(committed)
						return
					}
				}
				if time.Since(committed) > time.Minute {
					f.t.Error("a gateway never saw the change")
					return
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	all.Wait()
	return took
}

// arriving measures the time from commit to effect on 20 gateways that listen
// and poll.
func arriving(t *testing.T, report *figure.Report) {
	t.Helper()
	server := testenv.StartStandalone(t, testenv.Config{})
	f := newFleet(t, server, server.Addr(), 20, 30*time.Second)
	var took []time.Duration
	for range figure.Rounds(100) {
		took = append(took, f.effect(f.change())...)
	}
	slices.Sort(took)
	t.Logf("%d changes on %d gateways: median %v, slowest %v", 100, len(f.gateways), took[len(took)/2], took[len(took)-1])
	report.AtMost("rules-commit-to-effect-p99", ms(took[len(took)*99/100]), 100, " ms")
}

// cutOff is the same while no server receives the announcement.
func cutOff(t *testing.T, report *figure.Report) {
	t.Helper()
	const interval = 500 * time.Millisecond
	server := testenv.StartStandalone(t, testenv.Config{})
	proxy := testenv.StartProxy(t, server.Addr())
	f := newFleet(t, server, proxy.Addr(), 20, interval)
	proxy.Refuse()
	proxy.Cut()
	var took []time.Duration
	for range figure.Rounds(10) {
		took = append(took, f.effect(f.change())...)
	}
	slices.Sort(took)
	// A poll takes time too, here 20 of them on a busy machine.
	const jitter, look = 50 * time.Millisecond, 50 * time.Millisecond
	report.AtMost("rules-commit-to-effect-slowest-without-announcements", ms(took[len(took)-1]), ms(interval+jitter+look), " ms")
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1_000 }
