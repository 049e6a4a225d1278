package testenv

import (
	"slices"
	"strings"
	"testing"
)

// A Sentinel group with TLS and users answers.
func TestSentinel_TLSAndUsers(t *testing.T) {
	s := StartSentinel(t, Config{TLS: true, Users: []User{{Name: "gate", Password: "pw", Rules: "~fg:* +@all"}}})
	for _, x := range append(s.Servers(), s.Sentinels()...) {
		ping(t, x)
	}
	want := "rediss-sentinel://gate:pw@" + strings.Join(s.Addrs(), ",") + "/" + s.MasterName()
	if s.URI() != want || len(s.Addrs()) != 3 {
		t.Errorf("URI %s, want %s", s.URI(), want)
	}
	if s.SentinelUsername() != "gate" || s.SentinelPassword() != "pw" {
		t.Errorf("sentinels want %q and %q", s.SentinelUsername(), s.SentinelPassword())
	}
	failOver(t, s)
}

// Sentinels may have no password.
func TestSentinel_Open(t *testing.T) {
	s := StartSentinel(t, Config{Password: "pw", OpenSentinels: true})
	for _, x := range append(s.Servers(), s.Sentinels()...) {
		ping(t, x)
	}
	if s.Password() != "pw" || s.SentinelPassword() != "" {
		t.Errorf("servers want %q, sentinels %q", s.Password(), s.SentinelPassword())
	}
	failOver(t, s)
}

// failOver replaces the master and checks that the old one becomes a replica.
func failOver(t *testing.T, s *Sentinel) {
	t.Helper()
	ctx := testContext(t)
	old, err := s.Master(ctx)
	must(t, err)
	now, err := s.Failover(ctx)
	must(t, err)
	if now == old {
		t.Fatal("the master is the old one")
	}
	if addr, err := s.MasterAddr(ctx); err != nil || addr != now.Addr() {
		t.Errorf("the sentinels name %s, %v", addr, err)
	}
	must(t, s.WaitHealthy(ctx))
	if info, err := old.Info(ctx, "replication"); err != nil || info["role"] != "slave" {
		t.Errorf("the old master is %s, %v", info["role"], err)
	}
}

// A replica takes over from a lost master.
func TestSentinel_MasterLost(t *testing.T) {
	ctx := testContext(t)
	s := StartSentinel(t, Config{})
	first, err := s.Master(ctx)
	must(t, err)
	write, err := first.session(ctx)
	must(t, err)
	defer write.close()
	_, err = write.do("SET", "key", "value")
	must(t, err)
	if n, err := write.do("WAIT", sentinelReplicas, 5000); err != nil || n != int64(sentinelReplicas) {
		t.Fatalf("%v replicas have the key, %v", n, err)
	}

	must(t, first.Kill())
	second, err := s.WaitForNewMaster(ctx, first)
	must(t, err)
	if got := run(t, second, "GET", "key"); got != "value" {
		t.Errorf("the new master has %v", got)
	}
	must(t, first.Restart(ctx))
	must(t, s.WaitHealthy(ctx))
	if got := run(t, first, "GET", "key"); got != "value" {
		t.Errorf("the old master came back with %v", got)
	}

	must(t, second.Freeze())
	third, err := s.WaitForNewMaster(ctx, second)
	must(t, err)
	must(t, second.Thaw())
	must(t, s.WaitHealthy(ctx))
	if info, err := second.Info(ctx, "replication"); err != nil || info["role"] != "slave" {
		t.Errorf("the thawed master is %s, %v", info["role"], err)
	}
	if !slices.Contains(s.Servers(), third) {
		t.Errorf("%s is not in the group", third.Addr())
	}
}

// A sentinel can restart.
func TestSentinel_Restart(t *testing.T) {
	ctx := testContext(t)
	s := StartSentinel(t, Config{})
	w := s.Sentinels()[0]
	must(t, w.Kill())
	must(t, s.WaitHealthy(ctx)) // the other two are enough
	must(t, w.Restart(ctx))
	must(t, s.WaitHealthy(ctx))
	must(t, w.Freeze())
	must(t, s.WaitHealthy(ctx))
	must(t, w.Thaw())
	failOver(t, s)
}
