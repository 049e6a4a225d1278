package testenv

import (
	"fmt"
	"strings"
	"testing"
)

// A cluster with TLS and users answers.
func TestCluster_TLSAndUsers(t *testing.T) {
	c := StartCluster(t, Config{TLS: true, Users: []User{{Name: "gate", Password: "pw"}}})
	for _, n := range c.Nodes() {
		ping(t, n)
	}
	want := "rediss://gate:pw@" + strings.Join(c.Addrs(), ",")
	if c.URI() != want || len(c.Addrs()) != 6 {
		t.Errorf("URI %s, want %s", c.URI(), want)
	}
	migrate(t, c) // MIGRATE needs the credentials too
}

// A slot is migrated to another master.
func TestCluster_Migration(t *testing.T) { migrate(t, StartCluster(t, Config{})) }

// migrate moves a slot with keys and checks what clients see meanwhile.
func migrate(t *testing.T, c *Cluster) {
	t.Helper()
	ctx := testContext(t)
	const a, b = "{tag}a", "{tag}b"
	slot := Slot(a)
	from, err := c.MasterOf(ctx, slot)
	must(t, err)
	masters, err := c.Masters(ctx)
	must(t, err)
	to := masters[0]
	if to == from {
		to = masters[1]
	}
	run(t, from, "MSET", a, "1", b, "2")

	m, err := c.StartMigration(ctx, slot, to)
	must(t, err)
	must(t, m.MoveKeys(ctx, a))
	if got := run(t, from, "GET", b); got != "2" {
		t.Errorf("the key that stayed: %v", got)
	}
	replyError(t, from, fmt.Sprintf("ASK %d %s", slot, to.Addr()), "GET", a)
	replyError(t, from, "TRYAGAIN", "MGET", a, b)

	must(t, m.Finish(ctx))
	if got := run(t, to, "MGET", a, b).([]any); got[0] != "1" || got[1] != "2" {
		t.Errorf("the keys arrived as %v", got)
	}
	replyError(t, from, fmt.Sprintf("MOVED %d %s", slot, to.Addr()), "GET", a)
	if now, err := c.MasterOf(ctx, slot); err != nil || now != to {
		t.Errorf("the slot's master is %v, %v", now, err)
	}
}

func replyError(t *testing.T, s *Server, prefix string, args ...any) {
	t.Helper()
	_, err := s.Do(testContext(t), args...)
	if err == nil || !strings.Contains(err.Error(), prefix) {
		t.Errorf("%v answered %v, want %s", args, err, prefix)
	}
}

// A replica takes over from a lost master.
func TestCluster_MasterLost(t *testing.T) {
	ctx := testContext(t)
	c := StartCluster(t, Config{})
	const slot = 0
	old, err := c.MasterOf(ctx, slot)
	must(t, err)
	replicas, err := c.Replicas(ctx, old)
	must(t, err)
	if len(replicas) != 1 {
		t.Fatalf("%d replicas", len(replicas))
	}

	must(t, old.Kill())
	must(t, c.WaitHealthy(ctx))
	now, err := c.MasterOf(ctx, slot)
	must(t, err)
	if now != replicas[0] {
		t.Fatalf("the replica %s did not take over", replicas[0].Addr())
	}
	run(t, now, "SET", keyOf(t, slot), "value")

	must(t, old.Restart(ctx))
	must(t, c.WaitHealthy(ctx))
	replicas, err = c.Replicas(ctx, now)
	must(t, err)
	if len(replicas) != 1 || replicas[0] != old {
		t.Fatalf("the old master did not come back as a replica: %v", addrsOf(replicas))
	}

	must(t, now.Freeze())
	must(t, c.WaitHealthy(ctx))
	if m, err := c.MasterOf(ctx, slot); err != nil || m != old {
		t.Fatalf("the first master did not take over from the frozen one: %v", err)
	}
	must(t, now.Thaw())
	must(t, c.WaitHealthy(ctx))
	if got := run(t, old, "GET", keyOf(t, slot)); got != "value" {
		t.Errorf("the value was lost: %v", got)
	}
}

// A failover makes a replica the master, whether its master runs or not.
func TestCluster_Failover(t *testing.T) {
	ctx := testContext(t)
	c := StartCluster(t, Config{})
	masters, err := c.Masters(ctx)
	must(t, err)
	if len(masters) != 3 {
		t.Fatalf("%d masters", len(masters))
	}
	now, err := c.Failover(ctx, masters[1]) // coordinated
	must(t, err)
	if m, err := c.MasterOf(ctx, Slots/2); err != nil || m != now || m == masters[1] {
		t.Errorf("the new master does not own its slots: %v", err)
	}
	must(t, masters[2].Kill())
	now, err = c.Failover(ctx, masters[2]) // without the master
	must(t, err)
	if m, err := c.MasterOf(ctx, Slots-1); err != nil || m != now {
		t.Errorf("the new master does not own its slots: %v", err)
	}
}

// keyOf returns a key in the slot.
func keyOf(t *testing.T, slot int) string {
	t.Helper()
	for i := range 1_000_000 {
		if key := fmt.Sprint("key", i); Slot(key) == slot {
			return key
		}
	}
	t.Fatalf("no key in slot %d", slot)
	return ""
}

// Keys have the slots of Redis Cluster.
func TestSlot_KnownKeys(t *testing.T) {
	n := SharedCluster(t).Nodes()[0]
	for _, key := range []string{"", "123456789", "foo", "{user}.a", "a{user}b{other}", "{}a", "a{b", "}{x}", "\xff\x00"} {
		if want := run(t, n, "CLUSTER", "KEYSLOT", key); int64(Slot(key)) != want {
			t.Errorf("slot of %q is %d, want %v", key, Slot(key), want)
		}
	}
}
