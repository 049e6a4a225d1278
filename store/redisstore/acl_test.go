package redisstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/store"
)

// documentedUser returns the rules of the ACL user in a block of docs/redis.md.
func documentedUser(t testing.TB, block string) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "```acl "+block+"\n")
	line, _, ended := strings.Cut(rest, "\n```")
	rules, isUser := strings.CutPrefix(line, "user fluxgate on >change-me ")
	if !found || !ended || !isUser {
		t.Fatalf("docs/redis.md has no user in a block %q", block)
	}
	return strings.Fields(rules)
}

const aclUser, aclPassword = "fluxgate", "change-me"

func aclConfig(rules []string) testenv.Config {
	return testenv.Config{Users: []testenv.User{{Name: aclUser, Password: aclPassword, Rules: strings.Join(rules, " ")}}}
}

// setUser gives the user other rules.
func setUser(t testing.TB, server *testenv.Server, rules []string) {
	t.Helper()
	args := []any{"ACL", "SETUSER", aclUser, "reset", "on", ">" + aclPassword}
	for _, r := range rules {
		args = append(args, r)
	}
	if _, err := server.Do(t.Context(), args...); err != nil {
		t.Fatal(err)
	}
}

// underACL opens a store and does all that a gateway does, a flush included.
func underACL(t testing.TB, uri string, servers []*testenv.Server) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	s, err := Open(ctx, uri, Config{Refresh: 10 * time.Millisecond, Timeout: time.Second})
	if err != nil {
		return err
	}
	defer s.Close()
	p := newProbe(t, s)
	if err := p.everything(); err != nil {
		return err
	}
	if err := s.fleet.quiet(ctx); err != nil {
		return err
	}
	for _, server := range servers {
		if _, err := server.Do(ctx, "FLUSHALL"); err != nil {
			return err
		}
	}
	field := resetField(p.ruleSet, "")
	want := fmt.Sprint(s.fleet.generations()[field])
	for start := time.Now(); time.Since(start) < 2*time.Second; time.Sleep(5 * time.Millisecond) {
		h := s.Health(ctx)
		if h.Err != nil {
			return h.Err
		}
		for _, server := range servers {
			if reply, err := server.Do(ctx, "HGET", s.names.fleet(), field); err == nil && reply == want {
				return p.everything()
			}
		}
	}
	return errors.New("the fleet state was not restored")
}

// The documented ACL is enough for one server, and no part can be left out.
func TestACL_Standalone(t *testing.T) {
	rules := documentedUser(t, "server")
	server := testenv.StartStandalone(t, aclConfig(rules))
	servers := []*testenv.Server{server}
	if err := underACL(t, server.URI(), servers); err != nil {
		t.Fatal(err)
	}
	// Nothing can be left out but what only a cluster needs.
	for i, rule := range rules {
		if !strings.HasPrefix(rule, "+") || rule == "+cluster|slots" || rule == "+asking" {
			continue
		}
		setUser(t, server, slices.Delete(slices.Clone(rules), i, i+1))
		if err := underACL(t, server.URI(), servers); err == nil {
			t.Errorf("%s is not needed", rule)
		}
	}
	setUser(t, server, rules)
	if err := underACL(t, server.URI(), servers); err != nil {
		t.Error(err)
	}
	// And it allows nothing else.
	client := newScriptClient(t, server)
	for _, command := range [][]any{
		{"GET", "other:key"}, {"SET", "fluxgate:x", "1"}, {"KEYS", "*"}, {"SCAN", "0"}, {"FLUSHALL"}, {"CONFIG", "GET", "*"},
		{"SCRIPT", "FLUSH"}, {"HGETALL", "other:fleet"}, {"EVAL", "return redis.call('DEL', KEYS[1])", "1", "other:key"}, {"SUBSCRIBE", "x"},
	} {
		if err := client.Do(t.Context(), command...).Err(); err == nil || !strings.Contains(err.Error(), "NOPERM") && !strings.Contains(err.Error(), "ACL") {
			t.Errorf("%v: %v", command, err)
		}
	}
}

func TestACL_Cluster(t *testing.T) {
	rules := documentedUser(t, "server")
	cluster := testenv.StartCluster(t, aclConfig(rules))
	masters, err := cluster.Masters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := underACL(t, cluster.URI(), masters); err != nil {
		t.Fatal(err)
	}
	// While a slot moves, its keys are asked for with ASKING.
	p := newProbe(t, openStore(t, cluster.URI(), Config{}))
	d := p.demand("rule", 1, year)
	p.take(d)
	slot := int(slotOfShard(p.names.shard(d.Key.ID), p.config.Shards))
	from, err := cluster.MasterOf(t.Context(), slot)
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
	if p.take(d); p.left(d) != 1 {
		t.Errorf("%d of 3 tokens are left after two were taken", p.left(d))
	}
	without := func(rule string) {
		for _, server := range cluster.Nodes() {
			setUser(t, server, slices.DeleteFunc(slices.Clone(rules), func(r string) bool { return r == rule }))
		}
	}
	without("+asking")
	var out store.Outcome
	if err := p.Take(t.Context(), []store.Demand{d}, &out); err == nil {
		t.Error("+asking is not needed")
	}
	if err := migration.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	without("+cluster|slots")
	if err := underACL(t, cluster.URI(), masters); err == nil {
		t.Error("+cluster|slots is not needed")
	}
}

func TestACL_Sentinel(t *testing.T) {
	rules := documentedUser(t, "server")
	sentinel := testenv.StartSentinel(t, aclConfig(rules))
	watching := documentedUser(t, "sentinel")
	set := func(rules []string) {
		for _, s := range sentinel.Sentinels() {
			setUser(t, s, rules)
		}
	}
	set(watching)
	master, err := sentinel.Master(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := underACL(t, sentinel.URI(), []*testenv.Server{master}); err != nil {
		t.Fatal(err)
	}
	// Without the subscription no failover is noticed.
	s := openStore(t, sentinel.URI(), Config{})
	until(t, "somebody listens to the sentinels", func() bool {
		listeners := int64(0)
		for _, s := range sentinel.Sentinels() {
			reply, err := s.Do(t.Context(), "CLIENT", "LIST")
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(fmt.Sprint(reply)) {
				if strings.Contains(line, "user="+aclUser+" ") && strings.Contains(line, " sub=2 ") {
					listeners++
				}
			}
		}
		return listeners > 0
	})
	_ = s
	set(slices.DeleteFunc(slices.Clone(watching), func(r string) bool { return r == "+sentinel|get-master-addr-by-name" }))
	if err := underACL(t, sentinel.URI(), []*testenv.Server{master}); err == nil {
		t.Error("+sentinel|get-master-addr-by-name is not needed")
	}
}
