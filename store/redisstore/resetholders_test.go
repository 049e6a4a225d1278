package redisstore

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

var tokensAndSlots = []rules.Band{
	{Label: "tokens", Capacity: 3, Refill: time.Hour},
	{Label: "slots", Kind: rules.Concurrency, Capacity: 1, Hold: time.Minute},
}

// A bucket and its holders are deleted by one command: a request between two would see the
// tokens of a full bucket beside the slots of the old one, and lose its own slot.
func TestReset_HoldersAtOnce(t *testing.T) {
	server := testenv.StartStandalone(t, testenv.Config{})
	p := newProbe(t, openStore(t, server.URI(), Config{}))
	d := p.demand("rule", 1, tokensAndSlots...)
	d.Holder[0] = 1
	p.take(d)
	client := newScriptClient(t, server)
	if err := client.ConfigSet(t.Context(), "slowlog-log-slower-than", "0").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Reset(t.Context(), store.Reset{Key: d.Key}); err != nil {
		t.Fatal(err)
	}
	commands, err := client.SlowLogGet(t.Context(), 100).Result()
	if err != nil {
		t.Fatal(err)
	}
	deleted := 0
	want := []string{p.name(d), holdersOf(p.name(d))}
	for _, c := range commands {
		ofBucket := slices.ContainsFunc(want, func(key string) bool { return slices.Contains(c.Args, key) })
		if strings.EqualFold(c.Args[0], "del") && ofBucket { // the store also deletes the key of its own probe
			deleted++
			if !slices.Equal(c.Args[1:], want) {
				t.Errorf("deleted %q, want %q", c.Args[1:], want)
			}
		}
	}
	if deleted == 0 { // it may be more than one: a call without an answer is made again
		t.Errorf("nothing was deleted: %v", commands)
	}
	if n := client.Exists(t.Context(), p.name(d), holdersOf(p.name(d))).Val(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

// While their slot moves, the two may be on two nodes.
func TestReset_HoldersWhileSlotMoves(t *testing.T) {
	cluster := testenv.StartCluster(t, testenv.Config{})
	p := newProbe(t, openStore(t, cluster.URI(), Config{}))
	d := p.demand("rule", 1, tokensAndSlots...)
	d.Holder[0] = 1
	p.take(d)
	slot := int(slotOfShard(p.names.shard(d.Key.ID), p.config.Shards))
	from, err := cluster.MasterOf(t.Context(), slot)
	if err != nil {
		t.Fatal(err)
	}
	masters, err := cluster.Masters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	to := masters[0]
	if to == from {
		to = masters[1]
	}
	migration, err := cluster.StartMigration(t.Context(), slot, to)
	if err != nil {
		t.Fatal(err)
	}
	if err := migration.MoveKeys(t.Context(), p.name(d)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Reset(t.Context(), store.Reset{Key: d.Key}); err != nil {
		t.Fatal(err)
	}
	if err := migration.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.Holder[0] = 2
	if out := p.take(d); out.Results[0].Bands[0].Remaining != 2 {
		t.Errorf("after the reset, a take leaves %+v", out.Results[0].Bands)
	}
}
