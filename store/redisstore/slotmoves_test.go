package redisstore

import (
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// divided is a bucket set with tokens and slots whose value is on one node of a cluster and its
// holders on another, while their slot of the cluster moves.
type divided struct {
	probe
	demand store.Demand // of no holder
	to     *testenv.Server
}

func divide(t *testing.T, cluster *testenv.Cluster, bands ...rules.Band) *divided {
	t.Helper()
	d := &divided{probe: newProbe(t, openStore(t, cluster.URI(), Config{}))}
	d.demand = d.probe.demand("divided", 1, bands...)
	// A set of holders without any is gone, and could not be on another node: one is of another rule.
	key := holdersOf(d.name(d.demand))
	d.take(d.own())
	slot := int(slotOfShard(d.names.shard(d.demand.Key.ID), d.config.Shards))
	from, err := cluster.MasterOf(t.Context(), slot)
	must(t, err)
	masters, err := cluster.Masters(t.Context())
	must(t, err)
	d.to = masters[slices.IndexFunc(masters, func(s *testenv.Server) bool { return s != from })]
	migration, err := cluster.StartMigration(t.Context(), slot, d.to)
	must(t, err)
	must(t, migration.MoveKeys(t.Context(), d.name(d.demand)))
	t.Cleanup(func() {
		must(t, migration.MoveKeys(context.Background(), key))
		must(t, migration.Finish(context.Background()))
	})
	return d
}

// own is the demand of another request.
func (d *divided) own() store.Demand {
	own := d.demand
	_, _ = rand.Read(own.Holder[:]) // never fails
	return own
}

// left returns how many tokens and slots are left.
func (d *divided) left() (tokens, slots int64) {
	d.t.Helper()
	free := d.own()
	free.Cost = 0
	var out store.Outcome
	must(d.t, d.Peek(d.t.Context(), []store.Demand{free}, &out))
	bands := out.Results[0].Bands
	return bands[0].Remaining, bands[1].Remaining
}

// mustLeave fails the test unless so much is left. What is given back is less by what refills
// meanwhile, so it may be less than a token too few.
func (d *divided) mustLeave(tokens, slots int64) {
	d.t.Helper()
	if left, free := d.left(); left < tokens-1 || left > tokens || free != slots {
		d.t.Errorf("%d tokens and %d slots are left, want %d and %d", left, free, tokens, slots)
	}
}

// elsewhere is a demand in another shard.
func (d *divided) elsewhere(band rules.Band) store.Demand {
	other := d.probe.demand("elsewhere", 1, band)
	for d.names.shard(other.Key.ID) == d.names.shard(d.demand.Key.ID) {
		_, _ = rand.Read(other.Key.ID[:])
	}
	return other
}

// manySlots has more tokens and slots than the tests take.
var manySlots = []rules.Band{
	{Label: "tokens", Capacity: 100_000, RefillTokens: 10, Refill: 24 * time.Hour},
	{Label: "slots", Kind: rules.Concurrency, Capacity: 10_000, Hold: time.Hour},
}

// While a slot of the cluster moves, the tokens and the slots of a bucket set are taken, renewed
// and given back together, also by requests that are rejected, or whose callers leave.
func TestCluster_TokensAndSlotsWhileSlotMoves(t *testing.T) {
	cluster := testenv.StartCluster(t, partialCoverage)
	for _, c := range []struct {
		name string
		run  func(*testing.T, *divided)
	}{
		{"settled", settledDivided},
		{"renewed", renewedDivided},
		{"rejected", rejectedDivided},
		{"of callers that leave", leftDivided},
		{"withdrawn", withdrawnDivided},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, divide(t, cluster, manySlots...)) })
	}
	t.Run("of a shadow rule", func(t *testing.T) {
		shadowDivided(t, divide(t, cluster, manySlots[0], rules.Band{Label: "slots", Kind: rules.Concurrency, Capacity: 2, Hold: time.Hour}))
	})
	t.Run("half of them out of reach", func(t *testing.T) { frozenDivided(t, divide(t, cluster, manySlots...)) })
}

func settledDivided(t *testing.T, d *divided) {
	tokens, slots := d.left()
	for actual := range int64(3) {
		demands := []store.Demand{d.own(), d.elsewhere(ample)}
		takes := store.NewTakes(demands, d.take(demands...))
		settled, err := d.Settle(t.Context(), takes, takes.Same(actual))
		if err := store.SettleError(settled, err); err != nil || len(settled) != len(takes) {
			t.Fatalf("%d settlements of %d takes: %v", len(settled), len(takes), err)
		}
		for _, s := range settled {
			if s.Charged != max(0, actual-1) {
				t.Errorf("a take of 1 is settled at %d: %+v", actual, s)
			}
		}
		tokens -= actual
		d.mustLeave(tokens, slots)
	}
}

func renewedDivided(t *testing.T, d *divided) {
	own := d.own()
	takes := store.NewTakes([]store.Demand{own}, d.take(own))
	for range 3 {
		if held, err := d.Extend(t.Context(), takes); err != nil || !slices.Equal(held, []bool{true}) {
			t.Fatalf("the slot is held: %t, %v", held, err)
		}
	}
	if _, err := d.Settle(t.Context(), takes, takes.Same(1)); err != nil {
		t.Fatal(err)
	}
	if held, err := d.Extend(t.Context(), takes); err != nil || !slices.Equal(held, []bool{false}) {
		t.Errorf("a slot that was released is held: %t, %v", held, err)
	}
}

// rejectedDivided has callers compete for tokens in another shard: those that lose have taken
// from the bucket set in the second round.
func rejectedDivided(t *testing.T, d *divided) {
	tokens, slots := d.left()
	scarce := d.elsewhere(rules.Band{Label: "scarce", Capacity: 2, RefillTokens: 1, Refill: 20 * time.Millisecond})
	var admitted, rejected atomic.Int64
	var callers sync.WaitGroup
	for range 16 {
		callers.Go(func() {
			for rejected.Load() < 400 {
				demands := []store.Demand{d.own(), scarce}
				var out store.Outcome
				if err := d.Take(t.Context(), demands, &out); err != nil {
					t.Error(err)
					return
				}
				if !out.Admitted() {
					rejected.Add(1)
					continue
				}
				admitted.Add(1)
				takes := store.NewTakes(demands, &out)
				if err := store.SettleError(d.Settle(t.Context(), takes, takes.Same(1))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	t.Logf("%d were admitted and %d rejected", admitted.Load(), rejected.Load())
	d.mustLeave(tokens-admitted.Load(), slots)
}

func leftDivided(t *testing.T, d *divided) {
	tokens, slots := d.left()
	var admitted, left atomic.Int64
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			for n := range 100 {
				demands := []store.Demand{d.own()}
				waits := time.Duration(200+n*211+i*97) * time.Microsecond
				if n%10 == 0 {
					waits = patience // a busy machine serves no others
				}
				ctx, cancel := context.WithTimeout(t.Context(), waits)
				var out store.Outcome
				err := d.Take(ctx, demands, &out)
				cancel()
				if err != nil {
					left.Add(1)
					continue
				}
				admitted.Add(1)
				takes := store.NewTakes(demands, &out)
				if err := store.SettleError(d.Settle(t.Context(), takes, takes.Same(1))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	t.Logf("%d callers left, %d were served", left.Load(), admitted.Load())
	if left.Load() == 0 || admitted.Load() == 0 {
		t.Error("no caller left, or all did")
	}
	until(t, "what was taken for callers that left is given back", func() bool {
		now, free := d.left()
		return free == slots && now >= tokens-admitted.Load()-1
	})
	d.mustLeave(tokens-admitted.Load(), slots)
}

// withdrawnDivided withdraws both halves by hand, as for a caller that leaves after they were taken.
func withdrawnDivided(t *testing.T, d *divided) {
	tokens, slots := d.left()
	for range 3 {
		demands := []store.Demand{d.own(), d.elsewhere(ample)}
		deadline := time.Now().Add(patience)
		parts := d.split(demands)
		for _, p := range parts {
			p.op = opTake
		}
		var out store.Outcome
		parts, err := d.requestParts(t.Context(), demands, &out, parts, deadline)
		if must(t, err); len(parts) != 3 {
			t.Fatalf("%d parts, want two halves and a demand", len(parts))
		}
		if now, free := d.left(); now != tokens-1 || free != slots-1 {
			t.Fatalf("%d of %d tokens and %d of %d slots are left after a take", now, tokens, free, slots)
		}
		d.withdraw(t.Context(), deadline, parts)
		d.mustLeave(tokens, slots)
	}
}

// shadowDivided has callers compete for the only free slot under a shadow rule: one that gets
// none takes no token.
func shadowDivided(t *testing.T, d *divided) {
	tokens, slots := d.left()
	d.demand.Shadow = true
	var fitted, alone atomic.Int64
	var callers sync.WaitGroup
	for range 16 {
		callers.Go(func() {
			for range 50 {
				demands := []store.Demand{d.own()}
				var out store.Outcome
				if err := d.Take(t.Context(), demands, &out); err != nil || !out.Admitted() {
					t.Errorf("admission %d, %v", out.Admission, err)
					return
				}
				takes := store.NewTakes(demands, &out)
				if len(takes) == 0 {
					alone.Add(1)
					continue
				}
				fitted.Add(1)
				if err := store.SettleError(d.Settle(t.Context(), takes, takes.Same(1))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	t.Logf("%d fitted, %d did not", fitted.Load(), alone.Load())
	if fitted.Load() == 0 || alone.Load() == 0 {
		t.Error("the callers did not compete")
	}
	d.mustLeave(tokens-fitted.Load(), slots)
}

// frozenDivided freezes the node of the value after the slots were taken: without an answer about
// the tokens there is no receipt, so the slot is given back.
func frozenDivided(t *testing.T, d *divided) {
	_, slots := d.left()
	demands := []store.Demand{d.own()}
	deadline := time.Now().Add(patience)
	parts := byKey(demands, d.split(demands))
	for _, p := range parts {
		p.op = opTake
	}
	must(t, d.to.Freeze())
	var out store.Outcome
	parts, err := d.requestParts(t.Context(), demands, &out, parts, time.Now().Add(300*time.Millisecond))
	must(t, d.to.Thaw())
	must(t, err)
	taken := slices.ContainsFunc(parts, func(p *part) bool { return p.err == nil && p.refused(&out) })
	if status := out.Results[0].Status; status != store.Unavailable || !taken {
		t.Fatalf("the demand is %v; the slot was taken: %t", status, taken)
	}
	if takes := store.NewTakes(demands, &out); takes != nil {
		t.Errorf("a demand that is unavailable grants %+v", takes)
	}
	d.withdraw(t.Context(), deadline, parts)
	until(t, "the slot is given back", func() bool { _, free := d.left(); return free == slots })
}
