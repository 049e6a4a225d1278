package redisstore

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// clusterTrial is a store on a cluster of its own.
type clusterTrial struct {
	trial
	cluster *testenv.Cluster
}

// Healthy parts of a cluster continue when one fails; the default is to stop
// all of it.
var partialCoverage = testenv.Config{Directives: []string{"cluster-require-full-coverage no"}}

func newClusterTrial(t testing.TB, cluster *testenv.Cluster, timeout time.Duration) clusterTrial {
	t.Helper()
	return clusterTrial{newTrial(t, cluster.URI(), Config{Timeout: timeout, Shards: 12}, cluster.Nodes()...), cluster}
}

// shardsOn are the shards whose slots a master holds.
func (tr clusterTrial) shardsOn(master *testenv.Server) []int {
	tr.Helper()
	var shards []int
	for i := range tr.config.Shards {
		m, err := tr.cluster.MasterOf(tr.Context(), int(slotOfShard(i, tr.config.Shards)))
		if err != nil {
			tr.Fatal(err)
		}
		if m == master {
			shards = append(shards, i)
		}
	}
	if len(shards) < 2 {
		tr.Fatalf("%s holds shards %v", master.Addr(), shards)
	}
	return shards
}

func (tr clusterTrial) masters() []*testenv.Server {
	tr.Helper()
	masters, err := tr.cluster.Masters(tr.Context())
	if err != nil || len(masters) != 3 {
		tr.Fatalf("masters %v: %v", masters, err)
	}
	return masters
}

// The tests share a cluster, since starting one takes longer than most of them.
// The last one breaks it.
func TestCluster_Faults(t *testing.T) {
	cluster := testenv.StartCluster(t, partialCoverage)
	t.Run("script flushes are not seen by callers", func(t *testing.T) { clusterFlush(newClusterTrial(t, cluster, patience), t) })
	t.Run("a slot that moves is not seen by callers", func(t *testing.T) { resharding(newClusterTrial(t, cluster, patience)) })
	t.Run("a blocked caller does not drain what others share", func(t *testing.T) {
		blockedCaller(newClusterTrial(t, cluster, patience))
	})
	t.Run("a caller leaves a frozen shard at once and gives back the other", func(t *testing.T) {
		leaveFrozenShard(newClusterTrial(t, cluster, 10*time.Second))
	})
	t.Run("a frozen shard leaves the others time", func(t *testing.T) { frozenShard(newClusterTrial(t, cluster, 500*time.Millisecond)) })
	t.Run("a master that is killed costs only its own shards", func(t *testing.T) {
		masterKilled(newClusterTrial(t, cluster, patience))
	})
}

func clusterFlush(tr clusterTrial, t *testing.T) {
	masters := tr.masters()
	own := make([]store.Demand, crowdSize)
	for i := range own {
		own[i] = tr.demandIn(i%tr.config.Shards, ample)
		tr.mustTake(own[i])
	}
	before := tr.Scripts()
	crowd := tr.gather(crowdSize, 2*time.Millisecond, func(i int) []store.Demand {
		return []store.Demand{own[i], own[(i+1)%crowdSize]}
	})
	flushes := flushScripts(t, time.Second, masters...)
	crowd.stop()

	all, loads := crowd.all(), tr.Scripts()-before
	tr.Logf("%d callers asked %d times during %d script flushes of %d masters: %d errors, the script was loaded %d times, longest call %v",
		crowdSize, all.asked, flushes, len(masters), all.failed, loads, all.longest.Round(time.Millisecond))
	all.unharmed(t)
	if most := uint64(flushes * len(masters)); loads > most || loads < most/8 {
		tr.Errorf("the script was loaded %d times for %d flushes of %d masters", loads, flushes, len(masters))
	}
	for i := range own {
		if taken, want := tr.taken(own[i]), 1+crowd.callers[i].admitted+crowd.callers[(i+crowdSize-1)%crowdSize].admitted; taken != want {
			tr.Errorf("bucket %d: %d tokens were taken for %d requests", i, taken, want)
		}
	}
}

// resharding moves the slot of a shard back and forth while a crowd takes from
// single keys, from several keys of the shard, and from keys of this shard and
// another.
func resharding(tr clusterTrial) {
	home, away := tr.masters()[0], tr.masters()[1]
	shard, other := tr.shardsOn(home)[0], tr.shardsOn(tr.masters()[2])[0]
	slot := int(slotOfShard(shard, tr.config.Shards))

	// ample counts what was taken; the scarce one must never give too many;
	// the brief ones are full, and so absent, again and again.
	scarceBand := rules.Band{Label: "scarce", Capacity: 20, RefillTokens: 100, Refill: time.Second}
	scarce := tr.demandIn(shard, scarceBand)
	single, first, second := tr.demandIn(shard, ample), tr.demandIn(shard, ample), tr.demandIn(shard, ample)
	third, elsewhere := tr.demandIn(shard, ample), tr.demandIn(other, ample)
	brief := make([]store.Demand, crowdSize)
	for i := range brief {
		brief[i] = tr.demandIn(shard, rules.Band{Label: "brief", Capacity: 10, RefillTokens: 1, Refill: 3 * time.Millisecond})
	}
	gone := tr.demandIn(shard, ample)
	tr.mustTake(gone)
	kinds := [][]store.Demand{
		{scarce},
		{single},
		{first, second},
		{elsewhere, third, first},
	}
	crowd := tr.gather(crowdSize, 3*time.Millisecond, func(i int) []store.Demand {
		if kind := i % (len(kinds) + 1); kind < len(kinds) {
			return kinds[kind]
		}
		return brief[i : i+1]
	})
	crowd.untilAllServed(time.Now())

	nodes := tr.cluster.Nodes()
	askBefore, tryBefore, movedBefore := replies(tr, "ASK", nodes...), replies(tr, "TRYAGAIN", nodes...), replies(tr, "MOVED", nodes...)
	const moves = 4
	for i := range moves {
		to := away
		if i%2 == 1 {
			to = home
		}
		m, err := tr.cluster.StartMigration(tr.Context(), slot, to)
		if err != nil {
			tr.Fatal(err)
		}
		crowd.untilAsked(4 * crowdSize)
		// Key by key, with traffic in between: some are here, some there.
		for _, d := range []store.Demand{first, scarce, single, third, second} {
			if err := m.MoveKeys(tr.Context(), tr.name(d)); err != nil {
				tr.Fatal(err)
			}
			crowd.untilAsked(4 * crowdSize)
		}
		// A single key can be reset after it has moved.
		if err := m.MoveKeys(tr.Context(), tr.name(gone)); err != nil {
			tr.Fatal(err)
		}
		if _, err := tr.Reset(tr.Context(), store.Reset{Key: gone.Key}); err != nil {
			tr.Errorf("resetting a key that has moved: %v", err)
		}
		tr.mustTake(gone)
		if taken := tr.taken(gone); taken != 1 {
			tr.Errorf("%d tokens are missing from a bucket that was reset and taken from once", taken)
		}
		if err := m.Finish(tr.Context()); err != nil {
			tr.Fatal(err)
		}
		crowd.untilAllServed(time.Now())
	}
	crowd.stop()

	asked, try, moved := replies(tr, "ASK", nodes...)-askBefore, replies(tr, "TRYAGAIN", nodes...)-tryBefore, replies(tr, "MOVED", nodes...)-movedBefore
	all := crowd.all()
	tr.Logf("%d callers asked %d times while the slot moved %d times: %d errors, longest call %v; the servers answered ASK %d, TRYAGAIN %d, MOVED %d times",
		crowdSize, all.asked, moves, all.failed, all.longest.Round(time.Millisecond), asked, try, moved)
	all.unharmed(tr)
	if asked == 0 || try == 0 || moved == 0 {
		tr.Error("not every kind of redirect has been seen")
	}

	admitted := make([]int64, len(kinds))
	var passes []int64
	for i := range crowd.callers {
		if kind := i % (len(kinds) + 1); kind < len(kinds) {
			admitted[kind] += crowd.callers[i].admitted
		}
		if i%(len(kinds)+1) == 0 {
			passes = append(passes, crowd.callers[i].passes...)
		}
	}
	for _, c := range []struct {
		name   string
		demand store.Demand
		want   int64
	}{
		{"single", single, admitted[1]}, {"first", first, admitted[2] + admitted[3]}, {"second", second, admitted[2]},
		{"third", third, admitted[3]}, {"elsewhere", elsewhere, admitted[3]},
	} {
		if taken := tr.taken(c.demand); taken != c.want {
			tr.Errorf("%s: %d tokens were taken for %d requests", c.name, taken, c.want)
		}
	}
	within(tr, scarceBand, scarce.Bands[0], passes, 0)
}

// within fails the test if a band has handed out more than an ideal one that
// lost its state so often: in any interval without losses, else in all.
func within(t testing.TB, b rules.Band, exact store.ExactBand, passes []int64, losses int) {
	t.Helper()
	if len(passes) < 2 {
		t.Fatalf("%d requests passed", len(passes))
	}
	slices.Sort(passes)
	took := time.Duration(passes[len(passes)-1]-passes[0]) * time.Microsecond
	most := holds(b, took) + float64(losses)*float64(b.Capacity)
	burst := mostAtOnce(exact, passes)
	t.Logf("%d per %v and %d at once: %d passed in %v, at most %.1f may with %d losses; most at once %.2f",
		b.Tokens(), b.Refill, b.Capacity, len(passes), took.Round(time.Millisecond), most, losses, burst)
	if float64(len(passes)) > most || burst > float64(b.Capacity*int64(losses+1)) {
		t.Errorf("%d passed, at most %.1f may; most at once %.2f", len(passes), most, burst)
	}
}

// masterKilled kills a master for good. Its replica takes over.
func masterKilled(tr clusterTrial) {
	masters := tr.masters()
	victim := masters[0]
	dead, alive := tr.shardsOn(victim)[1], tr.shardsOn(masters[1])[1]
	band := rules.Band{Label: "shared", Capacity: 100, RefillTokens: 200, Refill: time.Second}
	shared, well, third := tr.demandIn(dead, band), tr.demandIn(alive, ample), tr.demandIn(tr.shardsOn(masters[2])[0], ample)
	both := []store.Demand{tr.demandIn(alive, ample), tr.demandIn(dead, ample)}
	const half = crowdSize / 2
	crowd := tr.gather(crowdSize, 5*time.Millisecond, func(i int) []store.Demand {
		switch {
		case i < half:
			return []store.Demand{shared}
		case i < half+half/2:
			return []store.Demand{[]store.Demand{well, third}[i%2]}
		}
		return both
	})
	crowd.untilAllServed(time.Now())
	before := crowd.sum(half+half/2, crowdSize)
	scripts := tr.Scripts()

	killed := time.Now()
	if err := victim.Kill(); err != nil {
		tr.Fatal(err)
	}
	recovery := crowd.untilAllServed(killed)
	if err := tr.cluster.WaitHealthy(tr.Context()); err != nil {
		tr.Fatal(err)
	}
	healthy := time.Since(killed)
	settled := crowd.all()
	crowd.untilAsked(10 * crowdSize)
	crowd.stop()

	onDead, onAlive, onBoth := crowd.sum(0, half), crowd.sum(half, half+half/2), crowd.sum(half+half/2, crowdSize)
	tr.Logf("%d callers: all were served again %v after the kill, the cluster was whole after %v; the script was loaded %d times",
		crowdSize, recovery.Round(time.Millisecond), healthy.Round(time.Millisecond), tr.Scripts()-scripts)
	tr.Logf("on the dead shard %d of %d calls failed: %q", onDead.failed, onDead.asked, onDead.kinds())
	tr.Logf("on other masters %d of %d calls failed, longest %v", onAlive.failed, onAlive.asked, onAlive.longest.Round(time.Millisecond))
	tr.Logf("on both %d of %d calls failed, in %d the dead shard alone was unavailable", onBoth.failed, onBoth.asked, onBoth.away)
	all := crowd.all()
	all.onlyUnavailable(tr)
	onAlive.unharmed(tr)
	if onDead.failed == 0 {
		tr.Error("nobody noticed: the test tests nothing")
	}
	if onBoth.failed > 0 {
		tr.Errorf("%d requests to a dead and a living shard are errors: %q", onBoth.failed, onBoth.kinds())
	}
	if onBoth.away == 0 {
		tr.Error("no request was told that a part of it is unavailable")
	}
	// The healthy shard took for every request, also while the other was down.
	if taken := tr.taken(both[0]); taken != onBoth.admitted {
		tr.Errorf("%d requests passed and took %d tokens of the living shard", onBoth.admitted, taken)
	}
	if all.failed != settled.failed || all.away != settled.away {
		tr.Errorf("calls failed after the cluster was whole: %q", all.kinds())
	}
	if before.failed+before.away > 0 {
		tr.Errorf("calls failed before the kill: %q", before.kinds())
	}
	within(tr, band, shared.Bands[0], onDead.passes, 1)
}

// blockedCaller has one caller whose own rule is empty send about 5,000
// requests a second to a bucket that others share.
func blockedCaller(tr clusterTrial) {
	const (
		others   = 32
		blocked  = 256
		perSec   = 5_000
		duration = 3 * time.Second
	)
	masters := tr.masters()
	// So large that it does not overflow, however slow the callers are.
	band := rules.Band{Label: "global", Capacity: 100_000, RefillTokens: 200, Refill: time.Second}
	global := tr.demandIn(tr.shardsOn(masters[0])[0], band)
	empty := tr.demandIn(tr.shardsOn(masters[1])[0], rules.Band{Label: "own", Capacity: 1, Refill: time.Hour})
	tr.mustTake(empty)
	own := make([]store.Demand, others)
	for i := range own {
		own[i] = tr.demandIn(tr.shardsOn(masters[2])[i%2], ample)
	}
	part := global
	part.Cost = band.Capacity - 200
	began, err := tr.take(part)
	if err != nil || !began.Admitted() {
		tr.Fatal(began, err)
	}
	start := time.Now()
	var sent atomic.Int64
	flood := tr.gather(blocked, 0, func(int) []store.Demand {
		turn := sent.Add(1)
		time.Sleep(time.Until(start.Add(time.Duration(turn) * time.Second / perSec)))
		return []store.Demand{global, empty}
	})
	crowd := tr.gather(others, time.Millisecond, func(i int) []store.Demand { return []store.Demand{global, own[i]} })
	until(tr, "the time is up", func() bool { return time.Since(start) > duration })
	crowd.stop()
	flood.stop()

	all, floods := crowd.all(), flood.all()
	all.unharmed(tr)
	floods.unharmed(tr)
	if floods.admitted > 0 {
		tr.Errorf("%d requests of the blocked caller passed", floods.admitted)
	}
	peek := global
	peek.Cost = 0
	elapsed := time.Since(start)
	out, err := tr.take(peek)
	if err != nil {
		tr.Fatal(err)
	}
	took := time.Duration(out.Results[0].Now-began.Results[0].Now) * time.Microsecond
	ideal, left := holds(band, took)-float64(part.Cost), out.Results[0].Bands[0].Remaining
	lost := ideal - float64(all.admitted+left)
	tr.Logf("%d callers got %d tokens in %v and left %d, an ideal bucket gives %.1f: %.1f (%.2f %%) are lost to a blocked caller that asked %.0f times a second",
		others, all.admitted, took.Round(time.Millisecond), left, ideal, lost, 100*lost/ideal, float64(floods.asked)/elapsed.Seconds())
	if lost > ideal/100 {
		tr.Errorf("%.1f of %.1f tokens are lost", lost, ideal)
	}
	if lost < -1 {
		tr.Errorf("%d tokens were handed out of %.1f", all.admitted, ideal)
	}
}
