package rulestest

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// overriding is a source of overrides with helpers for checks.
type overriding struct {
	testing.TB
	Subject
	set string // a rule set without overrides
}

func newOverriding(t testing.TB, s Subject) *overriding {
	t.Helper()
	if s.Overrides == nil {
		t.Fatal("a Subject needs Overrides")
	}
	s.Writers, s.Changes = cmp.Or(s.Writers, 50), cmp.Or(s.Changes, 1_000)
	s.Patience = cmp.Or(s.Patience, 30*time.Second)
	return &overriding{TB: t, Subject: s, set: "rulestest-" + rand.Text()[:12]}
}

// other returns another handle on the same data, if there is one.
func (f *overriding) other() rules.OverrideEditor {
	f.Helper()
	if f.OpenOverrides == nil {
		return f.Overrides
	}
	return f.OpenOverrides(f)
}

// of returns an override for a user.
func (f *overriding) of(user string, times rules.Times) rules.Override {
	return rules.Override{
		RuleSetID: f.set, RuleID: "standard", Identity: map[string]string{"userId": user}, Times: times, Author: "rulestest",
	}
}

// users returns overrides for users with numbers.
func (f *overriding) users(name string, n int, times rules.Times) []rules.Override {
	list := make([]rules.Override, n)
	for i := range list {
		list[i] = f.of(fmt.Sprintf("%s-%d", name, i), times)
	}
	return list
}

// deletion returns the change that deletes an override.
func deletion(o rules.Override) rules.Override {
	return rules.Override{RuleSetID: o.RuleSetID, RuleID: o.RuleID, Identity: o.Identity, Author: o.Author, Deleted: true}
}

func deletions(list []rules.Override) []rules.Override {
	changes := make([]rules.Override, len(list))
	for i, o := range list {
		changes[i] = deletion(o)
	}
	return changes
}

// based returns a change with a base.
func based(o rules.Override, revision int64) rules.Override {
	o.Revision = revision
	return o
}

func (f *overriding) put(changes ...rules.Override) int64 {
	f.Helper()
	var revision int64
	for part := range slices.Chunk(changes, rules.MaxPage) {
		var err error
		if revision, err = f.Overrides.PutOverrides(f.Context(), f.set, part); err != nil {
			f.Fatalf("PutOverrides of %d changes: %v", len(part), err)
		}
	}
	return revision
}

func (f *overriding) get(id string) rules.Override {
	f.Helper()
	o, err := f.Overrides.Override(f.Context(), f.set, id)
	if err != nil {
		f.Fatalf("Override: %v", err)
	}
	return o
}

func (f *overriding) revision() int64 {
	f.Helper()
	revisions, err := f.Overrides.OverrideRevisions(f.Context(), []string{f.set})
	if err != nil {
		f.Fatalf("OverrideRevisions: %v", err)
	}
	return revisions[f.set]
}

// list reads the list page by page, and calls between pages.
func (f *overriding) list(limit int, between func(last rules.Override)) []rules.Override {
	f.Helper()
	var all []rules.Override
	for after := ""; ; {
		page, err := f.Overrides.ListOverrides(f.Context(), f.set, after, limit)
		switch {
		case err != nil:
			f.Fatalf("ListOverrides: %v", err)
		case len(page.Damaged) > 0:
			f.Fatalf("ListOverrides: damaged entries: %v", page.Damaged)
		case len(page.Overrides) > rules.PageSize(limit):
			f.Fatalf("ListOverrides has %d overrides on a page of %d", len(page.Overrides), limit)
		case page.Next != "" && page.Next <= after:
			f.Fatal("ListOverrides has a next page that is not after this one: paging would never end")
		}
		all = append(all, page.Overrides...)
		if page.Next == "" {
			return all
		}
		after = page.Next
		if between != nil {
			between(all[len(all)-1])
		}
	}
}

// listed is what exists, by id.
func (f *overriding) listed() map[string]string {
	f.Helper()
	state := map[string]string{}
	for _, o := range f.list(0, nil) {
		if _, twice := state[o.ID()]; twice {
			f.Fatalf("the list has override %s twice", o.ID())
		}
		state[o.ID()] = text(o)
	}
	return state
}

// text is an override for comparison and messages.
func text(o rules.Override) string {
	data, err := json.Marshal(o)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// follower is a reader of changes, with what it knows.
type follower struct {
	of       rules.Overrides
	set      string
	limit    int
	revision int64
	state    map[string]string
	lost     int // how often it had to read all of them
}

// follow reads until there are no changes.
func (r *follower) follow(ctx context.Context) error {
	for {
		page, err := r.of.OverrideChanges(ctx, r.set, r.revision, r.limit)
		switch {
		case errors.Is(err, rules.ErrOverridesLost):
			if r.lost++; r.lost > 1_000 {
				return errors.New("the changes are always lost")
			}
			if err := r.readAll(ctx); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		case len(page.Damaged) > 0:
			return fmt.Errorf("damaged entries: %v", page.Damaged)
		case len(page.Overrides) > rules.PageSize(r.limit):
			return fmt.Errorf("%d changes on a page of %d", len(page.Overrides), r.limit)
		}
		if err := r.apply(page); err != nil || page.Revision == r.revision {
			return err
		}
		r.revision = page.Revision
	}
}

func (r *follower) apply(page rules.OverridePage) error {
	last := r.revision
	for _, o := range page.Overrides {
		if o.Revision <= last {
			return fmt.Errorf("a change with revision %d is after one with revision %d", o.Revision, last)
		}
		last = o.Revision
		if o.Deleted {
			delete(r.state, o.ID())
		} else {
			r.state[o.ID()] = text(o)
		}
	}
	if page.Revision < last {
		return fmt.Errorf("a page of changes to revision %d says that it ends at %d", last, page.Revision)
	}
	return nil
}

// readAll reads the revision and then the list. The changes since then follow.
func (r *follower) readAll(ctx context.Context) error {
	revisions, err := r.of.OverrideRevisions(ctx, []string{r.set})
	r.revision, r.state = revisions[r.set], map[string]string{}
	for after, more := "", true; more && err == nil; {
		var page rules.OverridePage
		page, err = r.of.ListOverrides(ctx, r.set, after, r.limit)
		for _, o := range page.Overrides {
			r.state[o.ID()] = text(o)
		}
		after, more = page.Next, page.Next != ""
	}
	return err
}

func (f *overriding) follower(limit int) *follower {
	return &follower{of: f.other(), set: f.set, limit: limit, state: map[string]string{}}
}

// wantState compares what a reader knows with what exists.
func (f *overriding) wantState(r *follower) {
	f.Helper()
	if err := r.follow(f.Context()); err != nil {
		f.Fatalf("reading changes: %v", err)
	}
	want := f.listed()
	if maps.Equal(r.state, want) {
		return
	}
	for id, o := range want {
		if r.state[id] != o {
			f.Fatalf("a reader of changes knows %d overrides of %d; it has %q instead of %s", len(r.state), len(want), r.state[id], o)
		}
	}
	for id, o := range r.state {
		if want[id] == "" {
			f.Fatalf("a reader of changes knows %d overrides of %d; it has %s, which does not exist", len(r.state), len(want), o)
		}
	}
}

func (f *overriding) wantConflict(err error, id string, base, current int64) {
	f.Helper()
	var conflict *rules.OverrideConflictError
	if !errors.As(err, &conflict) {
		f.Fatalf("error %v, want an OverrideConflictError", err)
	}
	if want := (rules.OverrideConflictError{ID: id, Base: base, Current: current}); *conflict != want {
		f.Fatalf("conflict %+v, want %+v", *conflict, want)
	}
}
