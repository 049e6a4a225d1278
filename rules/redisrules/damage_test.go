package redisrules

import (
	"errors"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/rulestest"
)

func asInvalid(t testing.TB, err error) *rules.ValidationError {
	t.Helper()
	var invalid *rules.ValidationError
	if !errors.As(err, &invalid) {
		t.Fatalf("%v, want a ValidationError", err)
	}
	return invalid
}

// Damaged data in Redis is an error that names it. Any client may have written it.
func TestDamage_NamedByErrors(t *testing.T) {
	srv := testenv.SharedStandalone(t)
	ctx := t.Context()
	const good = "2 put 1767225600000000 TOKEN\nalice\n"
	for _, c := range []struct {
		name   string
		damage func(s *Source) []any
		hurts  string // which of h(ead), c(urrent line), l(ine), d(ocument)
	}{
		{"a head that is not a number", func(s *Source) []any { return []any{"HSET", s.key("heads"), "limits", "x"} }, "h"},
		{"a head with a sign", func(s *Source) []any { return []any{"HSET", s.key("heads"), "limits", "+2"} }, "h"},
		{"a head with a leading zero", func(s *Source) []any { return []any{"HSET", s.key("heads"), "limits", "02"} }, "h"},
		{"an empty head", func(s *Source) []any { return []any{"HSET", s.key("heads"), "limits", ""} }, "h"},
		{"a head that is negative", func(s *Source) []any { return []any{"HSET", s.key("heads"), "limits", "-2"} }, "h"},
		{"a head of zero", func(s *Source) []any { return []any{"HSET", s.key("heads"), "limits", "0"} }, "h"},
		{"a head that is too large", func(s *Source) []any { return []any{"HSET", s.key("heads"), "limits", "9007199254740993"} }, "h"},
		{"a head with unknown text", func(s *Source) []any { return []any{"HSET", s.key("heads"), "limits", "2 removed"} }, "h"},
		{"no line of history", func(s *Source) []any { return []any{"HDEL", s.key("history:limits"), 2} }, "l-"},
		{"an empty line", func(s *Source) []any { return []any{"HSET", s.key("history:limits"), 2, ""} }, "l"},
		{"a line of another revision", func(s *Source) []any {
			return []any{"HSET", s.key("history:limits"), 2, strings.Replace(good, "2", "1", 1)}
		}, "l"},
		{"a line without a comment line", func(s *Source) []any {
			return []any{"HSET", s.key("history:limits"), 2, strings.TrimSuffix(good, "\n")}
		}, "l"},
		{"a line without an author", func(s *Source) []any {
			return []any{"HSET", s.key("history:limits"), 2, strings.Replace(good, "alice", "", 1)}
		}, "l"},
		{"a line with control characters in the comment", func(s *Source) []any { return []any{"HSET", s.key("history:limits"), 2, good + "\x1b[2J"} }, "l"},
		{"a line with a comment that is too long", func(s *Source) []any {
			return []any{"HSET", s.key("history:limits"), 2, good + strings.Repeat("x", 1<<20)}
		}, "l"},
		{"a line of another kind", func(s *Source) []any {
			return []any{"HSET", s.key("history:limits"), 2, strings.Replace(good, "put", "got", 1)}
		}, "l"},
		{"a line without a time", func(s *Source) []any {
			return []any{"HSET", s.key("history:limits"), 2, strings.Replace(good, "1767225600000000", "now", 1)}
		}, "l"},
		{"a line that says it is a deletion", func(s *Source) []any {
			return []any{"HSET", s.key("history:limits"), 2, strings.Replace(good, "put", "deleted", 1)}
		}, "L"},
		{"no newest line", func(s *Source) []any { return []any{"HDEL", s.key("current"), "limits"} }, "c"},
		{"an empty newest line", func(s *Source) []any { return []any{"HSET", s.key("current"), "limits", ""} }, "c"},
		{"a name without a rule set", func(s *Source) []any { return []any{"ZADD", s.key("names"), 0, "limitt"} }, "c"},
		{"no document", func(s *Source) []any { return []any{"HDEL", s.key("documents:limits"), 2} }, "d"},
		{"an empty document", func(s *Source) []any { return []any{"HSET", s.key("documents:limits"), 2, ""} }, "d"},
		{"a document that is not JSON", func(s *Source) []any { return []any{"HSET", s.key("documents:limits"), 2, "{"} }, "d"},
		{"a document of another rule set", func(s *Source) []any {
			return []any{"HSET", s.key("documents:limits"), 2, `{"id":"others","rules":[]}`}
		}, "d"},
		{"a document with an unknown field", func(s *Source) []any {
			return []any{"HSET", s.key("documents:limits"), 2, `{"id":"limits","rules":[],"more":1}`}
		}, "dv"},
		{"a document that is not valid", func(s *Source) []any {
			return []any{"HSET", s.key("documents:limits"), 2, `{"id":"limits","rules":[{"id":"a","limitScope":"IP"}]}`}
		}, "dv"},
		{"a document that is too long", func(s *Source) []any {
			return []any{"HSET", s.key("documents:limits"), 2, `{"id":"limits","rules":[]}` + strings.Repeat(" ", rules.MaxDocument)}
		}, "d"},
		{"heads of another type", func(s *Source) []any { return []any{"EVAL", retype, 1, s.key("heads")} }, "hlt"},
		{"documents of another type", func(s *Source) []any { return []any{"EVAL", retype, 1, s.key("documents:limits")} }, "d"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSource(t, dial(t, toServer(t, srv)), Config{})
			mustPut(t, s, ruleSet(t, "limits", "a"), 0)
			mustPut(t, s, ruleSet(t, "limits", "b"), 1)
			mustPut(t, s, ruleSet(t, "whole", "c"), 0)
			do(t, srv, c.damage(s)...)

			heads, revisions := s.Revisions(ctx, []string{"limits", "whole"})
			_, load := s.Load(ctx, "limits")
			_, version := s.Version(ctx, "limits", 2)
			_, list := s.List(ctx, "", 0)
			_, history := s.History(ctx, "limits", 0, 0)
			wants := func(letters string) bool { return strings.ContainsAny(c.hurts, letters) }
			for _, got := range []struct {
				what string
				err  error
				want bool
			}{
				{"Revisions", revisions, wants("t")}, {"Load", load, wants("hldL")}, {"Version", version, wants("hldL")},
				{"List", list, wants("c")}, {"History", history, wants("hl")},
			} {
				if got.what == "History" && c.hurts == "l-" || got.what == "Version" && c.hurts == "l-" {
					continue // a deleted revision looks the same
				}
				if (got.err != nil) != got.want {
					t.Errorf("%s: %v", got.what, got.err)
				}
				if got.err == nil {
					continue
				}
				if errors.Is(got.err, rules.ErrNotFound) {
					t.Errorf("%s returns ErrNotFound: %v", got.what, got.err)
				}
				if len(got.err.Error()) > 1_000 {
					t.Errorf("%s: an error of %d bytes", got.what, len(got.err.Error()))
				}
			}
			// The others are unaffected, and a caller that compares revisions loads it.
			if revisions == nil && (heads["whole"].Revision != 1 || (heads["limits"].Revision == 2) == wants("h")) {
				t.Errorf("the heads are %v", heads)
			}
			if _, err := s.Load(ctx, "whole"); err != nil && !wants("t") {
				t.Errorf("another rule set cannot be loaded: %v", err)
			}
			if load != nil && !strings.Contains(load.Error(), `"limits"`) {
				t.Errorf("the error does not name the rule set: %v", load)
			}
			if wants("dlL") && !wants("h") && !strings.Contains(load.Error(), "revision 2") && !strings.Contains(load.Error(), "WRONGTYPE") {
				t.Errorf("the error does not name the revision: %v", load)
			}
			if wants("v") {
				asInvalid(t, load)
			}
			// A former revision can still be read, and restored.
			if !wants("h") && !strings.Contains(c.name, "type") {
				if v, err := s.Version(ctx, "limits", 1); err != nil || v.Revision != 1 {
					t.Errorf("the former revision: %v", err)
				}
				if _, err := rulestest.Restore(ctx, s, "limits", 1, by(2, "")); err != nil {
					t.Errorf("restoring the former revision: %v", err)
				}
			}
		})
	}
}

// retype replaces a key by a string.
const retype = "redis.call('DEL', KEYS[1]) return redis.call('SET', KEYS[1], 'x')"

// A rule set whose head is damaged cannot be changed, and the head stays.
func TestDamage_Head(t *testing.T) {
	srv := testenv.SharedStandalone(t)
	s := newSource(t, dial(t, toServer(t, srv)), Config{})
	mustPut(t, s, ruleSet(t, "limits", "a"), 0)
	for head, base := range map[string]int64{
		"x": 0, "": 0, "0": 0, "01": 1, "1 gone": 1, "1 ": 1, "9007199254740993": 9007199254740993,
	} {
		do(t, srv, "HSET", s.key("heads"), "limits", head)
		_, put := s.Put(t.Context(), ruleSet(t, "limits", "b"), by(base, ""))
		_, deleted := s.Delete(t.Context(), "limits", by(base, ""))
		for _, err := range []error{put, deleted} {
			var conflict *rules.ConflictError
			if err == nil || errors.As(err, &conflict) || !strings.Contains(err.Error(), "damaged") {
				t.Errorf("a change on the head %q: %v", head, err)
			}
		}
		if now := do(t, srv, "HGET", s.key("heads"), "limits"); now != head {
			t.Errorf("the head %q became %q", head, now)
		}
	}
	do(t, srv, "HSET", s.key("heads"), "limits", "1")
	consistent(t, srv, s)
}

// Long lines that others wrote are not sent over the network.
func TestDamage_LongLines(t *testing.T) {
	srv := testenv.SharedStandalone(t)
	s := newSource(t, dial(t, toServer(t, srv)), Config{})
	mustPut(t, s, ruleSet(t, "limits", "a"), 0)
	long := "1 put 1767225600000000 TOKEN\nalice\n" + strings.Repeat("x", 1<<20)
	do(t, srv, "HSET", s.key("current"), "limits", long)
	do(t, srv, "HSET", s.key("history:limits"), 1, long)
	list, err := s.run(t.Context(), listScript, []string{s.key("names"), s.key("current")}, "-", 10)
	if err != nil {
		t.Fatal(err)
	}
	history, err := s.run(t.Context(), historyScript, []string{s.key("heads"), s.key("history:limits")}, "limits", 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	load, err := s.run(t.Context(), loadScript, []string{s.key("heads"), s.key("history:limits"), s.key("documents:limits")}, "limits", "", rules.MaxDocument)
	if err != nil {
		t.Fatal(err)
	}
	for what, found := range map[string]reply{"list": list, "history": history, "load": load} {
		if line, ok := found.text(1); !ok || len(line) > 2_048 {
			t.Errorf("%s returns a line of %d bytes", what, len(line))
		}
	}
}
