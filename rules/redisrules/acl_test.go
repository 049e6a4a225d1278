package redisrules

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/redis/go-redis/v9"
)

const aclUser, aclPassword = "rules", "change-me"

// documentedUser returns the rules of the ACL user in docs/redis.md.
func documentedUser(t testing.TB) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "```acl rules\nuser "+aclUser+" on >"+aclPassword+" ")
	line, _, _ := strings.Cut(rest, "\n")
	if !found {
		t.Fatal("docs/redis.md has no such user")
	}
	return strings.Fields(line)
}

func aclConfig(rules []string) testenv.Config {
	return testenv.Config{Users: []testenv.User{{Name: aclUser, Password: aclPassword, Rules: strings.Join(rules, " ")}}}
}

// without removes rules from the user.
func without(t testing.TB, servers []*testenv.Server, all []string, less ...string) {
	t.Helper()
	args := []any{"ACL", "SETUSER", aclUser, "reset", "on", ">" + aclPassword}
	for _, rule := range all {
		if !slices.Contains(less, rule) {
			args = append(args, rule)
		}
	}
	for _, srv := range servers {
		do(t, srv, args...)
	}
}

// underACL calls everything on new connections and without cached scripts. The
// history is so short that revisions are deleted.
func underACL(t testing.TB, options *redis.UniversalOptions, servers []*testenv.Server) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, srv := range servers {
		do(t, srv, "SCRIPT", "FLUSH")
	}
	client := redis.NewUniversalClient(options)
	defer client.Close()
	s, err := New(client, Config{History: 3})
	if err != nil {
		return err
	}
	return everything(ctx, t, s)
}

// The documented ACL is sufficient on one server.
func TestACL_Standalone(t *testing.T) {
	all := documentedUser(t)
	srv := testenv.StartStandalone(t, aclConfig(all))
	servers := []*testenv.Server{srv}
	if err := underACL(t, toServer(t, srv), servers); err != nil {
		t.Fatal(err)
	}
	for _, rule := range all {
		if !strings.HasPrefix(rule, "+") || slices.Contains([]string{"+cluster|slots", "+asking", "+command"}, rule) {
			continue
		}
		without(t, servers, all, rule)
		if err := underACL(t, toServer(t, srv), servers); err == nil {
			t.Errorf("%s is not needed", rule)
		} else if strings.Contains(err.Error(), aclPassword) {
			t.Errorf("the password is in %q", err)
		}
	}
	without(t, servers, all)
	if err := underACL(t, toServer(t, srv), servers); err != nil {
		t.Error(err)
	}
	// It permits nothing else.
	client := dial(t, toServer(t, srv))
	for _, command := range [][]any{
		{"GET", "fluxgate:{rules}:heads"}, {"HGET", "fluxgate:fleet", "salt"}, {"HGET", "fluxgate:{3k}:heads", "x"}, {"KEYS", "*"}, {"SCAN", "0"},
		{"FLUSHALL"}, {"DEL", "fluxgate:{rules}:heads"}, {"UNLINK", "fluxgate:fleet"}, {"CONFIG", "GET", "*"}, {"SCRIPT", "FLUSH"}, {"SUBSCRIBE", "x"},
		{"EVAL", "return redis.call('HGET', KEYS[1], 'x')", "1", "other:key"},
	} {
		if err := client.Do(t.Context(), command...).Err(); err == nil || !strings.Contains(err.Error(), "NOPERM") && !strings.Contains(err.Error(), "ACL") {
			t.Errorf("%v: %v", command, err)
		}
	}
}

// A user who only reads needs fewer permissions.
func TestACL_ReadOnly(t *testing.T) {
	all := documentedUser(t)
	srv := testenv.StartStandalone(t, aclConfig(all))
	s := newSource(t, dial(t, toServer(t, srv)), Config{Prefix: "fluxgate"})
	mustPut(t, s, ruleSet(t, "limits", "first"), 0)
	o := override("a", 2_000)
	mustOverride(t, s, o)
	without(t, []*testenv.Server{srv}, all, "+hset", "+hdel", "+zadd", "+zrem", "+hlen", "+zcard", "+zscore", "+time", "+unlink")
	ctx := t.Context()
	if heads, err := s.Revisions(ctx, []string{"limits"}); err != nil || len(heads) != 1 {
		t.Error(heads, err)
	}
	if _, err := s.Load(ctx, "limits"); err != nil {
		t.Error(err)
	}
	if _, err := s.Version(ctx, "limits", 1); err != nil {
		t.Error(err)
	}
	if list, err := s.List(ctx, "", 0); err != nil || len(list) != 1 {
		t.Error(list, err)
	}
	if history, err := s.History(ctx, "limits", 0, 0); err != nil || len(history) != 1 {
		t.Error(history, err)
	}
	if revisions, err := s.OverrideRevisions(ctx, []string{"limits"}); err != nil || len(revisions) != 1 {
		t.Error(revisions, err)
	}
	if page, err := s.OverrideChanges(ctx, "limits", 0, 0); err != nil || len(page.Overrides) != 1 {
		t.Error(page, err)
	}
	if page, err := s.ListOverrides(ctx, "limits", "", 0); err != nil || len(page.Overrides) != 1 {
		t.Error(page, err)
	}
	if _, err := s.Override(ctx, "limits", o.ID()); err != nil {
		t.Error(err)
	}
	if _, err := s.Put(ctx, ruleSet(t, "limits", "second"), by(1, "")); err == nil {
		t.Error("a read-only user can write")
	}
	if _, err := s.PutOverrides(ctx, "limits", []rules.Override{o}); err == nil {
		t.Error("a read-only user can write overrides")
	}
	without(t, []*testenv.Server{srv}, all)
	consistent(t, srv, s)
}

// The documented ACL is sufficient in a cluster.
func TestACL_Cluster(t *testing.T) {
	all := documentedUser(t)
	cluster := testenv.StartCluster(t, aclConfig(all))
	masters, err := cluster.Masters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := underACL(t, toCluster(cluster), masters); err != nil {
		t.Fatal(err)
	}
	// While the slot moves, the client sends ASKING.
	s := newSource(t, dial(t, toCluster(cluster)), Config{Prefix: "fluxgate"})
	mustPut(t, s, ruleSet(t, "limits", "first"), 0)
	slot := testenv.Slot(s.key("heads"))
	from, err := cluster.MasterOf(t.Context(), slot)
	if err != nil {
		t.Fatal(err)
	}
	to := masters[0]
	if to == from {
		to = masters[1]
	}
	keys := do(t, from, "CLUSTER", "GETKEYSINSLOT", slot, 1000).([]any)
	migration, err := cluster.StartMigration(t.Context(), slot, to)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, key := range keys {
		if !strings.HasPrefix(key.(string), s.key("")) {
			t.Errorf("the slot has a key %q", key)
		}
		names = append(names, key.(string))
	}
	if err := migration.MoveKeys(t.Context(), names...); err != nil {
		t.Fatal(err)
	}
	mustPut(t, s, ruleSet(t, "limits", "second"), 1)
	without(t, cluster.Nodes(), all, "+asking")
	if _, err := s.Put(t.Context(), ruleSet(t, "limits", "third"), by(2, "")); err == nil {
		t.Error("+asking is not needed")
	}
	without(t, cluster.Nodes(), all)
	if err := migration.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		v, err := s.Load(ctx, "limits")
		if err == nil && v.Revision == 2 {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("after the slot has moved: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	without(t, cluster.Nodes(), all, "+cluster|slots")
	if err := underACL(t, toCluster(cluster), masters); err == nil {
		t.Error("+cluster|slots is not needed")
	}
}
