package rulestest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

var overrideBatchChecks = []Check{
	{"a change of an override at another revision is a conflict and changes nothing", overrideConflicts},
	{"changes of overrides are made all or none", overrideBatches},
	{"a rule set has at most MaxOverrides", mostOverrides},
	{"concurrent changes of an override lose none", concurrentOverrides},
}

// refused checks that changes are refused and nothing is changed.
func (f *overriding) refused(what string, changes ...rules.Override) error {
	f.Helper()
	before, state := f.revision(), f.listed()
	_, err := f.Overrides.PutOverrides(f.Context(), f.set, changes)
	if err == nil {
		f.Fatalf("%s: no error", what)
	}
	if f.revision() != before {
		f.Fatalf("%s: refused (%v), and the revision is %d instead of %d", what, err, f.revision(), before)
	}
	after := f.listed()
	for id, o := range state {
		if after[id] != o {
			f.Fatalf("%s: refused (%v), and %s became %q", what, err, o, after[id])
		}
	}
	if len(after) != len(state) {
		f.Fatalf("%s: refused (%v), and there are %d overrides instead of %d", what, err, len(after), len(state))
	}
	return err
}

func overrideConflicts(t testing.TB, s Subject) {
	f := newOverriding(t, s)
	a, b, fresh := f.of("a", 2_000), f.of("b", 2_000), f.of("fresh", 2_000)
	first := f.put(based(a, -1))
	f.put(b, f.of("c", 2_000))
	second := f.put(based(a, first))
	if second <= first {
		t.Errorf("the second change has revision %d, the first %d", second, first)
	}
	for _, c := range []struct {
		what          string
		change        rules.Override
		base, current int64
	}{
		{"a former revision", based(a, first), first, second},
		{"a revision that is not there yet", based(a, second+1), second + 1, second},
		{"no override, of one that exists", based(a, -1), 0, second},
		{"a revision, of one that does not exist", based(fresh, 1), 1, 0},
		{"a deletion of a former revision", based(deletion(a), first), first, second},
		{"a deletion of an unknown override at a revision", based(deletion(fresh), 1), 1, 0},
	} {
		f.wantConflict(f.refused(c.what, c.change), c.change.ID(), c.base, c.current)
		f.wantConflict(f.refused(c.what+", in a batch", f.of("b", 3_000), f.of("new", 2_000), c.change, deletion(f.of("c", 0))), c.change.ID(), c.base, c.current)
	}
	f.put(based(deletion(a), second))
	f.wantConflict(f.refused("a revision of a deleted override", based(a, second)), a.ID(), second, 0)
	f.put(based(a, -1))
	f.put(f.of("a", 5_000))
	if got := f.get(a.ID()); got.Times != 5_000 {
		t.Errorf("a change without a base has written %s", text(got))
	}
}

func overrideBatches(t testing.TB, s Subject) {
	f := newOverriding(t, s)
	f.put(f.of("there", 2_000))
	valid := f.users("user", rules.MaxPage, 2_000)
	last := func(o rules.Override) []rules.Override { return append(valid[:rules.MaxPage-1:rules.MaxPage-1], o) }
	elsewhere, invalid, unnamed := f.of("x", 2_000), f.of("x", 0), f.of("x", 2_000)
	elsewhere.RuleSetID = f.set + "-2"
	unnamed.Identity = map[string]string{"userId": ""}
	_ = f.refused("more than MaxPage changes", append(valid, f.of("one-more", 2_000))...)
	_ = f.refused("an override without numbers", last(invalid)...)
	_ = f.refused("an identity without a value", last(unnamed)...)
	invalid.Bands = []rules.Band{{Label: strings.Repeat("x", 1<<16), Capacity: 1, Refill: time.Second}}
	_ = f.refused("a band that no rule can have", last(invalid)...)
	_ = f.refused("an override of another rule set", last(elsewhere)...)
	_ = f.refused("the same override twice", last(valid[0])...)
	_ = f.refused("a conflict at the end", last(based(f.of("there", 3_000), -1))...)

	before := f.revision()
	if revision := f.put(valid...); revision != before+rules.MaxPage {
		t.Errorf("%d changes after revision %d have made revision %d", rules.MaxPage, before, revision)
	}
	if n := len(f.listed()); n != rules.MaxPage+1 {
		t.Errorf("%d overrides were put and the list has %d", rules.MaxPage+1, n)
	}
	if revision := f.put(); revision != 0 && revision != f.revision() {
		t.Errorf("no change has made revision %d", revision)
	}
	f.put(deletions(valid)...)
	if n := len(f.listed()); n != 1 {
		t.Errorf("all overrides but one were deleted and the list has %d", n)
	}
}

func mostOverrides(t testing.TB, s Subject) {
	f := newOverriding(t, s)
	all := f.users("user", rules.MaxOverrides, 2_000)
	f.put(all...)
	more, another := f.of("one-more", 2_000), f.of("another", 2_000)
	before := f.revision()
	for _, changes := range [][]rules.Override{{more}, {f.of("user-0", 3_000), more}, {deletion(all[0]), more, another}} {
		if _, err := f.Overrides.PutOverrides(f.Context(), f.set, changes); !errors.Is(err, rules.ErrTooManyOverrides) {
			t.Errorf("one override too many: %v", err)
		}
	}
	if f.revision() != before || f.get(all[0].ID()).Times != 2_000 {
		t.Error("changes that were refused have been made")
	}
	f.put(f.of("user-1", 3_000))
	f.put(deletion(all[0]), more)
	r := f.follower(0)
	if err := r.readAll(f.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.follow(f.Context()); err != nil || len(r.state) != rules.MaxOverrides || r.state[more.ID()] == "" {
		t.Errorf("a reader has found %d overrides (%v)", len(r.state), err)
	}
}

func concurrentOverrides(t testing.TB, s Subject) {
	f := newOverriding(t, s)
	editors := []rules.OverrideEditor{f.Overrides, f.other()}
	o := f.of("user", 1)
	first := f.put(o)
	var all sync.WaitGroup
	for writer := range f.Writers {
		all.Go(func() {
			for i := writer; i < f.Changes; i += f.Writers {
				if err := f.increment(editors[writer%2], o); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if got := f.get(o.ID()); !t.Failed() && (int(got.Times) != 1+f.Changes || got.Revision != first+int64(f.Changes)) {
		t.Errorf("%d changes have made %d of them, from revision %d to %d", f.Changes, got.Times-1, first, got.Revision)
	}
}

// increment makes one compare-and-set change.
func (f *overriding) increment(e rules.OverrideEditor, o rules.Override) error {
	const attempts = 20_000
	for range attempts {
		now, err := e.Override(f.Context(), f.set, o.ID())
		if err != nil {
			return fmt.Errorf("reading: %w", err)
		}
		now.Times++
		var conflict *rules.OverrideConflictError
		if _, err = e.PutOverrides(f.Context(), f.set, []rules.Override{now}); err == nil {
			return nil
		} else if !errors.As(err, &conflict) {
			return fmt.Errorf("writing: %w", err)
		}
	}
	return fmt.Errorf("%d attempts at one change were conflicts", attempts)
}
