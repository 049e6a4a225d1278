package redisrules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/rulestest"
)

// mostOverrides is the check that takes seconds: one server is enough.
const mostOverrides = "a rule set has at most MaxOverrides"

func overrideConformance(t *testing.T, options *redis.UniversalOptions, subject rulestest.Subject, wanted func(check string) bool) {
	t.Helper()
	one, other := dial(t, options), dial(t, options)
	for _, check := range rulestest.OverrideChecks() {
		if !wanted(check.Name) {
			continue
		}
		t.Run(check.Name, func(t *testing.T) {
			s, subject := newSource(t, one, Config{}), subject
			subject.Overrides = s
			subject.OpenOverrides = func(t testing.TB) rules.OverrideEditor { return newSource(t, other, s.config) }
			subject.Lose = s.lose
			check.Run(t, subject)
		})
	}
}

// The suite passes on one server.
func TestOverrides_Conformance(t *testing.T) {
	srv := testenv.SharedStandalone(t)
	overrideConformance(t, toServer(t, srv), rulestest.Subject{
		Writers: 10, Changes: 200, Stored: func(t testing.TB) string { return dump(t, srv) },
	}, func(check string) bool { return check != mostOverrides })
}

// A rule set can have 100,000 overrides.
func TestOverrides_Most_NoRace(t *testing.T) {
	overrideConformance(t, toServer(t, testenv.StartStandalone(t, testenv.Config{})), rulestest.Subject{},
		func(check string) bool { return check == mostOverrides })
}

// The suite passes behind Sentinel.
func TestOverrides_Sentinel(t *testing.T) {
	overrideConformance(t, toSentinel(testenv.SharedSentinel(t)), rulestest.Subject{Writers: 10, Changes: 100},
		func(check string) bool { return check != mostOverrides })
}

// The suite passes in a cluster.
func TestOverrides_Cluster(t *testing.T) {
	overrideConformance(t, toCluster(testenv.SharedCluster(t)), rulestest.Subject{Writers: 10, Changes: 100},
		func(check string) bool { return check != mostOverrides })
}

// dump returns all keys, fields, members and values of a server.
func dump(t testing.TB, srv *testenv.Server) string {
	t.Helper()
	var all []string // sorted: the order of keys may change
	for _, key := range do(t, srv, "KEYS", "*").([]any) {
		command := []any{"GET", key}
		switch kind := do(t, srv, "TYPE", key); kind {
		case "hash":
			command[0] = "HGETALL"
		case "zset":
			command = []any{"ZRANGE", key, 0, -1}
		}
		all = append(all, fmt.Sprintln(key, do(t, srv, command...)))
	}
	slices.Sort(all)
	return strings.Join(all, "")
}

// everyOverride calls every operation of overrides.
func everyOverride(ctx context.Context, s *Source, id string) error {
	change := override(id, 2_000)
	change.RuleSetID = id
	first, err := s.PutOverrides(ctx, id, []rules.Override{change})
	if err != nil {
		return err
	}
	if o, err := s.Override(ctx, id, change.ID()); err != nil {
		return err
	} else if o.Revision != first {
		return fmt.Errorf("the override is at revision %d, not %d", o.Revision, first)
	}
	if list, err := s.ListOverrides(ctx, id, "", 0); err != nil {
		return err
	} else if len(list.Overrides) != 1 {
		return fmt.Errorf("the list has %d overrides", len(list.Overrides))
	}
	change.Times, change.Deleted = 0, true
	second, err := s.PutOverrides(ctx, id, []rules.Override{change})
	if err != nil {
		return err
	}
	if page, err := s.OverrideChanges(ctx, id, first, 0); err != nil {
		return err
	} else if len(page.Overrides) != 1 || !page.Overrides[0].Deleted {
		return fmt.Errorf("the changes are %+v", page)
	}
	if revisions, err := s.OverrideRevisions(ctx, []string{id, "unknown"}); err != nil {
		return err
	} else if len(revisions) != 1 || revisions[id] != second {
		return fmt.Errorf("the revisions are %v", revisions)
	}
	change.Times, change.Deleted = 3_000, false
	if _, err := s.PutOverrides(ctx, id, []rules.Override{change}); err != nil {
		return err
	}
	heads, err := s.Revisions(ctx, []string{id})
	if err == nil {
		_, err = s.Delete(ctx, id, by(heads[id].Revision, ""))
	}
	return err
}

// override returns an override of a user in the rule set limits.
func override(user string, times rules.Times) rules.Override {
	return rules.Override{
		RuleSetID: "limits", RuleID: "standard", Identity: map[string]string{"userId": user}, Times: times, Author: "alice", Deleted: times == 0,
	}
}

func mustOverride(t testing.TB, s *Source, changes ...rules.Override) int64 {
	t.Helper()
	revision, err := s.PutOverrides(t.Context(), "limits", changes)
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

// counted returns a source whose client counts the bytes that it receives.
func counted(t testing.TB, srv *testenv.Server) (*Source, *atomic.Int64) {
	t.Helper()
	sent, received := new(atomic.Int64), new(atomic.Int64)
	client := redis.NewClient(&redis.Options{
		Addr: srv.Addr(),
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return countedConn{conn, sent, received}, err
		},
	})
	t.Cleanup(func() { _ = client.Close() })
	return newSource(t, client, Config{}), received
}

// Ten thousand overrides are written in seconds, and one change among them is read with few
// bytes.
func TestOverrides_Bytes_NoRace(t *testing.T) {
	srv := testenv.StartStandalone(t, testenv.Config{})
	s, received := counted(t, srv)
	used := func() (bytes int) {
		info, err := srv.Info(t.Context(), "memory")
		if err == nil {
			bytes, err = strconv.Atoi(info["used_memory"])
		}
		if err != nil {
			t.Fatal(err)
		}
		return bytes
	}
	empty, began := used(), time.Now()
	const many = 10_000
	for first := 0; first < many; first += rules.MaxPage {
		batch := make([]rules.Override, rules.MaxPage)
		for i := range batch {
			batch[i] = override(fmt.Sprintf("a-user-with-a-name-%d", first+i), 2_000)
			batch[i].Reason = "a contract"
		}
		mustOverride(t, s, batch...)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("%d overrides were written in %v", many, took)
	} else {
		t.Logf("%d overrides were written in %v, %v of it in scripts", many, took, scriptTime(t, srv))
	}
	if bytes := (used() - empty) / many; bytes > 1<<10 {
		t.Errorf("an override takes %d bytes", bytes)
	} else {
		t.Logf("an override takes %d bytes", bytes)
	}
	revision := mustOverride(t, s, override("a-user-with-a-name-77", 3_000))
	if _, err := s.OverrideChanges(t.Context(), "limits", revision, 0); err != nil { // loads the script
		t.Fatal(err)
	}
	before := received.Load()
	revisions, err := s.OverrideRevisions(t.Context(), []string{"limits", "others"})
	poll := received.Load() - before
	if err != nil || len(revisions) != 1 || revisions["limits"] != revision {
		t.Fatal(revisions, err)
	}
	page, err := s.OverrideChanges(t.Context(), "limits", revision-1, 0)
	if err != nil || len(page.Overrides) != 1 || page.Revision != revision {
		t.Fatal(page, err)
	}
	change := received.Load() - before - poll
	t.Logf("a poll receives %d bytes, one change %d", poll, change)
	if poll > 64 || change > 1<<10 {
		t.Errorf("a poll receives %d bytes, one change %d", poll, change)
	}
}

// Deleted overrides are forgotten, the oldest first, when they are more than others and 1,000.
func TestOverrides_Forgotten(t *testing.T) {
	srv := testenv.SharedStandalone(t)
	s := newSource(t, dial(t, toServer(t, srv)), Config{})
	first := mustOverride(t, s, override("stays", 2_000))
	size := func() string {
		return fmt.Sprint(do(t, srv, "HLEN", s.key("overrides:limits")), do(t, srv, "ZCARD", s.key("override-changes:limits")),
			do(t, srv, "ZCARD", s.key("override-deleted:limits")), do(t, srv, "ZCARD", s.key("override-list:limits")))
	}
	round := func(n, times int) (last int64) {
		t.Helper()
		var list []rules.Override
		for i := range n {
			list = append(list, override(fmt.Sprint("user-", times, "-", i), 2_000))
		}
		mustOverride(t, s, list...)
		for i := range list {
			list[i] = override(list[i].Identity["userId"], 0)
		}
		return mustOverride(t, s, list...)
	}
	round(1_000, 1)
	if got := size(); got != "1001 1001 1000 1" {
		t.Errorf("after 1,000 deletions: %s", got)
	}
	round(1, 2) // as many as can be
	if _, err := s.OverrideChanges(t.Context(), "limits", first, 0); err != nil || size() != "1002 1002 1001 1" {
		t.Errorf("after 1,001 deletions: %s, %v", size(), err)
	}
	last := round(2, 3)
	if got := size(); got != "1002 1002 1001 1" {
		t.Errorf("after 1,003 deletions: %s", got)
	}
	forgotten := first + 1_000 + 2 // the second of the first deletions
	if _, err := s.OverrideChanges(t.Context(), "limits", forgotten-1, 0); !errors.Is(err, rules.ErrOverridesLost) {
		t.Errorf("the changes since before what was forgotten: %v", err)
	}
	if page, err := s.OverrideChanges(t.Context(), "limits", forgotten, 0); err != nil || len(page.Overrides) != 1_000 {
		t.Errorf("the changes since what was forgotten: %d, %v", len(page.Overrides), err)
	}
	for i := range 5 {
		round(1_000, 4+i)
	}
	if got := size(); got != "1002 1002 1001 1" {
		t.Errorf("after 6,003 deletions: %s", got)
	}
	mustOverride(t, s, override("user-1-0", 2_000), override("user-8-999", 2_000))
	if got := size(); got != "1003 1003 1000 3" || last == 0 {
		t.Errorf("after two were put again: %s", got)
	}
}

// A batch whose answer was lost is written once.
func TestOverrides_LostAnswer(t *testing.T) {
	srv := testenv.StartStandalone(t, testenv.Config{})
	proxy := testenv.StartProxy(t, srv.Addr())
	s := newSource(t, impatient(t, proxy.Addr()), Config{})
	near := newSource(t, dial(t, toServer(t, srv)), s.config)
	mustOverride(t, s, override("a", 2_000))
	for i, meanwhile := range []func(){
		func() {},
		func() { mustOverride(t, near, override("a", 9_000)) },
		func() { mustOverride(t, near, override("a", 0)) },
	} {
		before := mustOverride(t, near, override("b", 2_000))
		a, err := near.Override(t.Context(), "limits", func() string { o := override("a", 0); return o.ID() }())
		if err != nil {
			t.Fatal(err)
		}
		writes, _ := calls(t, srv, "hset")
		proxy.SwallowReplies(true)
		type outcome struct {
			revision int64
			err      error
		}
		done := make(chan outcome, 1)
		go func() {
			a.Times++
			revision, err := s.PutOverrides(t.Context(), "limits", []rules.Override{a})
			done <- outcome{revision, err}
		}()
		until(t, "the server has made the change", func() bool { now, _ := calls(t, srv, "hset"); return now > writes })
		meanwhile()
		proxy.Cut()
		if o := <-done; o.err != nil || o.revision != before+1 {
			t.Errorf("change %d: revision %d, want %d: %v", i, o.revision, before+1, o.err)
		}
	}
	for i := range 300 {
		mustOverride(t, s, override(fmt.Sprint(i), 2_000))
	}
	if kept := do(t, srv, "ZCARD", s.key("override-tokens:limits")); kept != int64(100) {
		t.Errorf("%v tokens are kept", kept)
	}
}

// Damage is an error that names the override and has nothing of its content, other overrides
// can be read, and a new change repairs it.
func TestOverrides_Damage(t *testing.T) {
	srv := testenv.SharedStandalone(t)
	ctx := t.Context()
	hurt, whole := override("hurt", 2_000), override("whole", 2_000)
	for name, damage := range map[string]func(s *Source) []any{
		"not JSON": func(s *Source) []any {
			return []any{"HSET", s.key("overrides:limits"), hurt.ID(), "2 7fffffffffffffff 1767225600000000\nsecret"}
		},
		"no first line": func(s *Source) []any { return []any{"HSET", s.key("overrides:limits"), hurt.ID(), "secret"} },
		"empty":         func(s *Source) []any { return []any{"HSET", s.key("overrides:limits"), hurt.ID(), ""} },
		"no entry":      func(s *Source) []any { return []any{"HDEL", s.key("overrides:limits"), hurt.ID()} },
		"too long": func(s *Source) []any {
			return []any{"HSET", s.key("overrides:limits"), hurt.ID(), strings.Repeat("secret", 1<<18)}
		},
		"of another override": func(s *Source) []any {
			return []any{"EVAL", copyEntry, 1, s.key("overrides:limits"), whole.ID(), hurt.ID()}
		},
		"a revision of another one": func(s *Source) []any { return []any{"EVAL", reviseEntry, 1, s.key("overrides:limits"), hurt.ID()} },
	} {
		for _, repair := range []rules.Override{hurt, override("hurt", 0)} {
			s := newSource(t, dial(t, toServer(t, srv)), Config{})
			revision := mustOverride(t, s, hurt, whole)
			do(t, srv, damage(s)...)
			changes, err := s.OverrideChanges(ctx, "limits", 0, 0)
			if err != nil || len(changes.Overrides) != 1 || changes.Revision != revision {
				t.Fatalf("%s: the changes are %+v, %v", name, changes, err)
			}
			damaged := []error{changes.Damaged[hurt.ID()]}
			if name != "a revision of another one" {
				list, err := s.ListOverrides(ctx, "limits", "", 0)
				if err != nil || len(list.Overrides) != 1 {
					t.Fatalf("%s: the list is %+v, %v", name, list, err)
				}
				_, put := s.PutOverrides(ctx, "limits", []rules.Override{{RuleID: hurt.RuleID, Identity: hurt.Identity, Times: 1, Revision: 1}})
				damaged = append(damaged, list.Damaged[hurt.ID()])
				if name != "not JSON" && name != "of another override" { // which the script does not read
					damaged = append(damaged, put)
				}
				if name != "no entry" {
					_, err := s.Override(ctx, "limits", hurt.ID())
					damaged = append(damaged, err)
				}
			}
			for i, err := range damaged {
				if err == nil || errors.Is(err, rules.ErrNotFound) || !strings.Contains(err.Error(), hurt.ID()) ||
					!strings.Contains(err.Error(), "limits") || strings.Contains(err.Error(), "secret") {
					t.Errorf("%s: error %d is %v", name, i, err)
				}
			}
			mustOverride(t, s, repair)
			want := 2
			if repair.Deleted {
				want = 1
			}
			changes, err = s.OverrideChanges(ctx, "limits", 0, 0)
			if err != nil || len(changes.Overrides) != 2 || len(changes.Damaged) != 0 {
				t.Errorf("%s: after a repair the changes are %+v, %v", name, changes, err)
			}
			list, err := s.ListOverrides(ctx, "limits", "", 0)
			if err != nil || len(list.Overrides) != want || len(list.Damaged) != 0 {
				t.Errorf("%s: after a repair the list is %+v, %v", name, list, err)
			}
		}
	}
}

const (
	copyEntry   = "return redis.call('HSET', KEYS[1], ARGV[2], redis.call('HGET', KEYS[1], ARGV[1]))"
	reviseEntry = "return redis.call('HSET', KEYS[1], ARGV[1], (redis.call('HGET', KEYS[1], ARGV[1]):gsub('^%d+', '9', 1)))"
)

// A damaged revision of a rule set is an error of that rule set only.
func TestOverrides_DamagedRevision(t *testing.T) {
	srv := testenv.SharedStandalone(t)
	ctx := t.Context()
	for _, wrong := range []string{"x", "", "0", "-1", "01", "1.5", "9007199254740993"} {
		s := newSource(t, dial(t, toServer(t, srv)), Config{})
		mustOverride(t, s, override("a", 2_000))
		other := override("b", 2_000)
		other.RuleSetID = "others"
		revision, err := s.PutOverrides(ctx, "others", []rules.Override{other})
		if err != nil {
			t.Fatal(err)
		}
		do(t, srv, "HSET", s.key("override-revisions"), "limits", wrong)
		revisions, err := s.OverrideRevisions(ctx, []string{"limits", "others"})
		if err != nil || revisions["limits"] != unreadable || revisions["others"] != revision {
			t.Errorf("%q: the revisions are %v, %v", wrong, revisions, err)
		}
		_, changes := s.OverrideChanges(ctx, "limits", 0, 0)
		_, put := s.PutOverrides(ctx, "limits", []rules.Override{override("a", 3_000)})
		for _, err := range []error{changes, put} {
			if err == nil || !strings.Contains(err.Error(), "damaged") {
				t.Errorf("%q: %v", wrong, err)
			}
		}
	}
}

// A server that is out of memory or has a key of another type writes nothing of a batch.
func TestOverrides_NothingWritten(t *testing.T) {
	srv := testenv.StartStandalone(t, testenv.Config{})
	batch := []rules.Override{override("a", 3_000), override("b", 3_000), override("c", 0)}
	for _, name := range []string{
		"override-revisions", "override-forgotten", "overrides:limits", "override-changes:limits", "override-list:limits",
		"override-deleted:limits", "override-tokens:limits", "out of memory",
	} {
		s := newSource(t, dial(t, toServer(t, srv)), Config{})
		mustOverride(t, s, override("a", 2_000), override("c", 2_000))
		if name == "out of memory" {
			do(t, srv, "CONFIG", "SET", "maxmemory", 1)
		} else {
			do(t, srv, "EVAL", retype, 1, s.key(name))
		}
		before := dump(t, srv)
		if _, err := s.PutOverrides(t.Context(), "limits", batch); err == nil {
			t.Errorf("%s: no error", name)
		}
		if dump(t, srv) != before {
			t.Errorf("%s: something was written", name)
		}
		do(t, srv, "CONFIG", "SET", "maxmemory", 0)
	}
}

// The overrides of a rule set that an older version deleted are deleted before it is put again: that
// version leaves them. Those of a rule set whose head is lost stay.
func TestOverrides_DeletedByOlderVersion(t *testing.T) {
	srv := testenv.SharedStandalone(t)
	s := newSource(t, dial(t, toServer(t, srv)), Config{})
	mustPut(t, s, ruleSet(t, "limits", "a"), 0)
	mustOverride(t, s, override("a", 2_000), override("b", 2_000))
	do(t, srv, "HSET", s.key("heads"), "limits", "1 deleted") // all that it does to overrides is nothing
	do(t, srv, "ZREM", s.key("names"), "limits")
	if page, err := s.ListOverrides(t.Context(), "limits", "", 0); err != nil || len(page.Overrides) != 2 {
		t.Fatalf("%+v (%v)", page, err)
	}
	mustPut(t, s, ruleSet(t, "limits", "a"), 0)
	if page, err := s.ListOverrides(t.Context(), "limits", "", 0); err != nil || len(page.Overrides) != 0 {
		t.Errorf("after it was put again: %+v (%v)", page, err)
	}
	if _, err := s.OverrideChanges(t.Context(), "limits", 2, 0); !errors.Is(err, rules.ErrOverridesLost) {
		t.Errorf("the changes since before: %v", err)
	}
	mustOverride(t, s, override("c", 2_000))
	do(t, srv, "HDEL", s.key("heads"), "limits")
	mustPut(t, s, ruleSet(t, "limits", "a"), 0)
	if page, err := s.ListOverrides(t.Context(), "limits", "", 0); err != nil || len(page.Overrides) != 1 {
		t.Errorf("after the head was lost: %+v (%v)", page, err)
	}
}

// A deletion that is refused in the middle, for want of a permission, changes nothing.
func TestOverrides_DeletionRefused(t *testing.T) {
	all := documentedUser(t)
	srv := testenv.StartStandalone(t, aclConfig(all))
	s := newSource(t, dial(t, toServer(t, srv)), Config{Prefix: "fluxgate"})
	mustPut(t, s, ruleSet(t, "limits", "a"), 0)
	mustOverride(t, s, override("a", 2_000))
	without(t, []*testenv.Server{srv}, all, "+unlink")
	if _, err := s.Delete(t.Context(), "limits", by(1, "")); err == nil || !strings.Contains(err.Error(), "+unlink") {
		t.Errorf("without the permission: %v", err)
	}
	page, err := s.ListOverrides(t.Context(), "limits", "", 0)
	if err != nil || len(page.Overrides) != 1 {
		t.Errorf("the overrides are %+v (%v)", page, err)
	}
	if v, err := s.Load(t.Context(), "limits"); err != nil || v.Revision != 1 {
		t.Errorf("the rule set: %v", err)
	}
	without(t, []*testenv.Server{srv}, all)
	if revision, err := s.Delete(t.Context(), "limits", by(1, "")); err != nil || revision != 2 {
		t.Errorf("with it: revision %d (%v)", revision, err)
	}
}

// An override that a former build has stored with a secret in the clear is applied and shown with its
// digest, and can be deleted.
func TestOverrides_SecretInTheClear(t *testing.T) {
	srv := testenv.SharedStandalone(t)
	s := newSource(t, dial(t, toServer(t, srv)), Config{})
	stored := rules.Override{RuleSetID: "limits", RuleID: "key", Identity: map[string]string{"header:Authorization": "Bearer open-sesame"}, Times: 2_000}
	text, err := json.Marshal(stored)
	if err != nil || !strings.Contains(string(text), "sesame") {
		t.Fatalf("%s, %v", text, err)
	}
	revision := mustOverride(t, s, override("other", 2_000))
	do(t, srv, "HSET", s.key("overrides:limits"), stored.ID(), fmt.Sprintf("%d 7fffffffffffffff 1767225600000000\n%s", revision+1, text))
	do(t, srv, "ZADD", s.key("override-list:limits"), 0, stored.Position())
	do(t, srv, "ZADD", s.key("override-changes:limits"), 0, fmt.Sprintf("%016x", revision+1)+stored.ID())
	list, err := s.ListOverrides(t.Context(), "limits", "", 0)
	if err != nil || len(list.Overrides) != 2 || len(list.Damaged) > 0 {
		t.Fatalf("the list is %+v, %v", list, err)
	}
	found, err := s.Override(t.Context(), "limits", stored.ID())
	if err != nil || found.ID() != stored.ID() || found.Identity["header:Authorization"] != rules.DigestAPIKey("Bearer open-sesame") {
		t.Fatalf("the override is %+v, %v", found, err)
	}
	mustOverride(t, s, found.Deletion("ann"))
	list, err = s.ListOverrides(t.Context(), "limits", "", 0)
	if err != nil || len(list.Overrides) != 1 {
		t.Errorf("after the deletion the list is %+v, %v", list, err)
	}
	changes, err := s.OverrideChanges(t.Context(), "limits", revision, 0)
	if err != nil || len(changes.Damaged) > 0 || len(changes.Overrides) != 1 || !changes.Overrides[0].Deleted || changes.Overrides[0].ID() != stored.ID() {
		t.Errorf("after the deletion the changes are %+v, %v", changes, err)
	}
	if strings.Contains(fmt.Sprint(do(t, srv, "HGETALL", s.key("overrides:limits"))), "sesame") {
		t.Error("the secret is still stored")
	}
}
