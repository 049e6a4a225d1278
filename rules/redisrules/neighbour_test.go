package redisrules

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
)

// formerCommit is the script of the version before, which does not know commits.
var formerCommit = redis.NewScript(strings.ReplaceAll(commitLua,
	"call('HSET', heads, ':' .. id, revision .. ' ' .. token:sub(1, COMMIT))\n", ""))

// A writer of the version before leaves the commit of a former revision in place. It says nothing
// about the revision of that writer, and the next change by this version has its own.
func TestRevisions_FormerWriter(t *testing.T) {
	srv := testenv.SharedStandalone(t)
	s := newSource(t, dial(t, toServer(t, srv)), Config{})
	ctx, one := t.Context(), ruleSet(t, "limits", "one")
	put := func(base int64) rules.Head {
		t.Helper()
		mustPut(t, s, one, base)
		heads, err := s.Revisions(ctx, []string{"limits"})
		if err != nil || heads["limits"].Revision != base+1 || heads["limits"].Commit == "" {
			t.Fatalf("the head after a change of revision %d is %+v (%v)", base, heads, err)
		}
		return heads["limits"]
	}
	first := put(0)
	var keys []string
	for _, name := range []string{"heads", "names", "current", "history:limits", "documents:limits", "changes:limits", "bytes"} {
		keys = append(keys, s.key(name))
	}
	answer, err := formerCommit.Run(ctx, s.client, keys, "limits", 1, "TOKEN", 100, wasPut, "alice\n", document(t, one), 1<<20).Slice()
	if err != nil || fmt.Sprint(answer) != "[done 2]" {
		t.Fatalf("the former script returns %v (%v)", answer, err)
	}
	heads, err := s.Revisions(ctx, []string{"limits"})
	if want := (rules.Head{Revision: 2}); err != nil || heads["limits"] != want {
		t.Errorf("after a change by the former script the head is %+v (%v), want %+v, not the commit %s", heads, err, want, first.Commit)
	}
	if v, err := s.Load(ctx, "limits"); err != nil || v.Revision != 2 {
		t.Errorf("loaded %+v (%v)", v, err)
	}
	put(2)
	if got := do(t, srv, "HGET", s.key("heads"), "limits"); fmt.Sprint(got) != "3" {
		t.Errorf("the head in Redis is %q: the version before reads a revision only", got)
	}
}

// Overrides that the version before has numbered from 1 go on from there.
func TestOverrides_FormerWriter(t *testing.T) {
	srv := testenv.SharedStandalone(t)
	s := newSource(t, dial(t, toServer(t, srv)), Config{})
	first := override("a", 2_000)
	mustOverride(t, s, first)
	// As that version has left them.
	do(t, srv, "DEL", s.key("override-forgotten"))
	do(t, srv, "HSET", s.key("override-revisions"), "limits", "1")
	do(t, srv, "ZADD", s.key("override-changes:limits"), "1", first.ID())
	do(t, srv, "EVAL", `local e = redis.call('HGET', KEYS[1], ARGV[1])
		redis.call('HSET', KEYS[1], ARGV[1], (e:gsub('^%d+', '1')))`, 1, s.key("overrides:limits"), first.ID())
	if revision := mustOverride(t, s, override("b", 2_000)); revision != 2 {
		t.Fatalf("the change after revision 1 is revision %d", revision)
	}
	page, err := s.OverrideChanges(t.Context(), "limits", 1, 0)
	if err != nil || len(page.Overrides) != 1 || page.Revision != 2 {
		t.Errorf("the changes since revision 1 are %+v (%v)", page, err)
	}
}
