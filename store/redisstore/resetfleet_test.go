package redisstore

import (
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/lease"
)

// resetSeen is within what time all gateways use the new buckets, as docs/reliability.md
// says.
const resetSeen = 250 * time.Millisecond

// k resets hand out at most k capacities more, and what the old bucket regains until all
// gateways have seen them, with leases and without.
func TestReset_FleetBound(t *testing.T) {
	for name, uri := range map[string]func(testing.TB) string{
		"standalone": func(t testing.TB) string { return testenv.SharedStandalone(t).URI() },
		"cluster":    func(t testing.TB) string { return testenv.SharedCluster(t).URI() },
	} {
		for _, leases := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/leases=%v", name, leases), func(t *testing.T) { resetUnderLoad(t, uri(t), leases) })
		}
	}
}

func resetUnderLoad(t *testing.T, uri string, leases bool) {
	const gateways, capacity, perSecond, resets = 8, 100, 1_000, 3
	config := Config{Prefix: "fleet-" + rand.Text()}
	stores, takers := make([]*Store, gateways), make([]store.Store, gateways)
	for i := range stores {
		stores[i] = openStore(t, uri, config)
		if takers[i] = stores[i]; leases {
			takers[i] = lease.New(stores[i], lease.Config{})
		}
	}
	d := newProbe(t, stores[0]).demand("rule", 1, rules.Band{Capacity: capacity, RefillTokens: perSecond, Refill: time.Second})
	var granted atomic.Int64
	var callers sync.WaitGroup
	stop, began := make(chan struct{}), time.Now()
	for _, s := range takers {
		for range 4 {
			callers.Go(func() {
				var out store.Outcome
				for {
					select {
					case <-stop:
						return
					case <-time.After(2 * time.Millisecond): // a busy machine would see resets late
					}
					if err := s.Take(t.Context(), []store.Demand{d}, &out); err != nil {
						t.Error(err)
						return
					}
					granted.Add(out.Results[0].Granted)
				}
			})
		}
	}
	for range resets {
		time.Sleep(700 * time.Millisecond) // the callers take what was reset, and some refills
		must(t, errorOf(stores[gateways-1].Reset(t.Context(), store.Reset{Key: store.Key{RuleSet: d.Key.RuleSet, Rule: d.Key.Rule}})))
	}
	time.Sleep(700 * time.Millisecond) // likewise
	close(stop)
	callers.Wait()
	more := resets * resetSeen
	if leases {
		more += lease.Time
	}
	took := time.Since(began)
	bound := (resets+1)*capacity + int64(perSecond*(took+more).Seconds())
	due := capacity + int64(perSecond*took.Seconds())
	t.Logf("%d tokens in %v around %d resets, at most %d; %d are due without a reset", granted.Load(), took, resets, bound, due)
	if granted.Load() > bound {
		t.Errorf("%d tokens too many", granted.Load()-bound)
	}
}

// A gateway that refuses from memory forgets its refusals when another gateway resets
// the rule.
func TestReset_RefusalsOfOthers(t *testing.T) {
	config := Config{Prefix: "refusals-" + rand.Text(), Refresh: time.Hour}
	uri := testenv.SharedStandalone(t).URI()
	here, there := openStore(t, uri, config), lease.New(openStore(t, uri, config), lease.Config{})
	d := newProbe(t, here).demand("rule", 3, year)
	take := func() bool {
		var out store.Outcome
		must(t, there.Take(t.Context(), []store.Demand{d}, &out))
		return out.Admission == store.Admitted
	}
	for round := range 3 {
		if !take() || take() {
			t.Fatalf("round %d: not admitted once", round)
		}
		must(t, errorOf(here.Reset(t.Context(), store.Reset{Key: store.Key{RuleSet: d.Key.RuleSet}})))
		reset := time.Now()
		until(t, "the reset is seen", func() bool { return there.Resets() > uint64(round) })
		t.Logf("seen after %v", time.Since(reset))
	}
}

// A subscription that is cut or that the server forgets is made again, and what was
// missed is seen.
func TestReset_SubscriptionCut(t *testing.T) {
	server := testenv.StartStandalone(t, testenv.Config{})
	proxy := testenv.StartProxy(t, server.Addr())
	config := Config{Refresh: 300 * time.Millisecond}
	here, there := openStore(t, server.URI(), config), openStore(t, "redis://"+proxy.Addr(), config)
	field := resetField("set", "rule")
	listening := func() bool {
		reply, err := server.Do(t.Context(), "PUBSUB", "NUMSUB", here.names.resets())
		return err == nil && fmt.Sprint(reply) == fmt.Sprintf("[%s 2]", here.names.resets())
	}
	for range 5 {
		until(t, "both listen", listening)
		must(t, errorOf(here.Reset(t.Context(), store.Reset{Key: store.Key{RuleSet: "set", Rule: "rule"}})))
		until(t, "it is seen", func() bool { return there.fleet.generations()[field] == here.fleet.generations()[field] })
		proxy.Cut()
	}
}

// A flood of announcements causes few looks at the fleet state.
func TestReset_AnnouncementFlood(t *testing.T) {
	server := testenv.StartStandalone(t, testenv.Config{})
	s := openStore(t, server.URI(), Config{})
	until(t, "it listens", func() bool { return s.fleet.quiet(t.Context()) == nil })
	looks := func() int64 {
		reply, err := server.Do(t.Context(), "INFO", "commandstats")
		if err != nil {
			t.Fatal(err)
		}
		var calls int64
		_, after, _ := strings.Cut(fmt.Sprint(reply), "cmdstat_hgetall:calls=")
		_, _ = fmt.Sscan(strings.Split(after, ",")[0], &calls)
		return calls
	}
	before, began := looks(), time.Now()
	for time.Since(began) < time.Second {
		if _, err := server.Do(t.Context(), "PUBLISH", s.names.resets(), strings.Repeat("x", 1_000)); err != nil {
			t.Fatal(err)
		}
	}
	// Also those of the heartbeat, and of the ticks.
	if n, most := looks()-before, 4+int64(time.Since(began)/wakePause); n > most {
		t.Errorf("%d looks, want at most %d", n, most)
	}
}

// A user without the rights of announcements has resets that others see later. Health says so.
func TestReset_NoRights(t *testing.T) {
	rules := documentedUser(t, "server")
	for _, right := range []string{"+subscribe", "+publish", "&fluxgate:resets"} {
		t.Run(right, func(t *testing.T) {
			var without []string
			for _, r := range rules {
				if r != right {
					without = append(without, r)
				}
			}
			server, log := testenv.StartStandalone(t, aclConfig(without)), new(testenv.LogBuffer)
			config := Config{Refresh: 100 * time.Millisecond, Logger: log.Logger()}
			here, there := openStore(t, server.URI(), config), openStore(t, server.URI(), config)
			key := store.Key{RuleSet: "set", Rule: "rule"}
			must(t, errorOf(here.Reset(t.Context(), store.Reset{Key: key})))
			field := resetField(key.RuleSet, key.Rule)
			until(t, "it is seen", func() bool { return there.fleet.generations()[field] > 0 })
			h := here.Health(t.Context())
			if !h.Healthy() || len(h.Warnings) == 0 || !strings.Contains(h.Warnings[0], "fluxgate:resets") {
				t.Errorf("health %v, warnings %q", h.Healthy(), h.Warnings)
			}
			until(t, "it is logged", func() bool { return len(log.Lines("other processes")) > 0 })
		})
	}
}
