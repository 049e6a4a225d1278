package rulestest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

var behindChecks = []Check{
	{"malformed content is an error of its own rule set only, until it is repaired", malformed},
	{"watching reports its start and changes, until its context ends", watching},
	{"reconciling unchanged content changes nothing", reconciling},
}

func malformed(t testing.TB, s Subject) {
	f := newFixture(t, s)
	if f.Corrupt == nil {
		t.Skip("the subject cannot write invalid content")
	}
	broken, whole := f.id("broken"), f.id("whole")
	f.write(f.set(broken, "a"))
	f.write(f.set(whole, "b"))
	head, _ := f.head(whole)
	for _, c := range []struct {
		document string
		invalid  bool // readable, but not valid
	}{
		{fmt.Sprintf(`{"id": %q, "rules": [`, broken), false},
		{`[1, 2, 3]`, false},
		{fmt.Sprintf(`{"id": %q, "rules": [{"id": %[1]q}]}`, broken), true},
		{fmt.Sprintf(`{"id": %q, "rules": [{"id": %[1]q, "bands": [{"capacity": -1, "refillSeconds": 1}]}]}`, broken), true},
	} {
		f.Corrupt(f, broken, c.document)
		v, err := f.Source.Load(t.Context(), broken)
		if err == nil {
			t.Fatalf("Load of %s gives %s", c.document, f.document(v.RuleSet))
		}
		if errors.Is(err, rules.ErrNotFound) {
			t.Errorf("Load of %s: %v, want another error than ErrNotFound", c.document, err)
		}
		var invalid *rules.ValidationError
		if c.invalid && !errors.As(err, &invalid) {
			t.Errorf("Load of %s: error %v, want a ValidationError", c.document, err)
		}
		if got := f.revisions(broken, whole)[whole]; got != head {
			t.Errorf("beside %s, Revisions says %+v of a rule set that is at %+v", c.document, got, head)
		}
		if got := markOf(f.load(f.Source, whole).RuleSet); got != "b" {
			t.Errorf("beside %s, a rule set with the mark b has the mark %q", c.document, got)
		}
		f.write(f.set(broken, "right again"))
		if got := markOf(f.load(f.Source, broken).RuleSet); got != "right again" {
			t.Errorf("after the repair the rule set has the mark %q", got)
		}
	}
}

func watching(t testing.TB, s Subject) {
	f := newFixture(t, s)
	source, ok := f.Source.(rules.Watcher)
	if !ok {
		t.Skip("the source is not a rules.Watcher")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reported, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- source.Watch(ctx, func(id string) {
			select {
			case reported <- id:
			case <-ctx.Done():
			}
		})
	}()
	patience := time.After(f.Patience)
	select {
	case got := <-reported:
		if got != "" {
			t.Errorf("Watch begins with %q, want \"\" for earlier changes", got)
		}
	case err := <-ended:
		t.Fatalf("Watch ended before its context: %v", err)
	case <-patience:
		t.Fatalf("Watch made no first call in %v", f.Patience)
	}
	// It may miss a change: make several.
	id := f.id("set")
	change := time.NewTicker(50 * time.Millisecond)
	defer change.Stop()
	for n, seen := 0, false; !seen; {
		select {
		case got := <-reported:
			seen = got == id || got == ""
		case <-change.C:
			n++
			f.write(f.set(id, fmt.Sprint(n)))
		case err := <-ended:
			t.Fatalf("Watch ended before its context: %v", err)
		case <-patience:
			t.Fatalf("Watch has reported none of %d changes in %v", n, f.Patience)
		}
	}
	cancel()
	select {
	case err := <-ended:
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("Watch ended with its context and the error %v", err)
		}
	case <-time.After(f.Patience):
		t.Errorf("Watch goes on %v after its context has ended", f.Patience)
	}
}

func reconciling(t testing.TB, s Subject) {
	f := newFixture(t, s)
	source, ok := f.Source.(rules.Reconciler)
	if !ok {
		t.Skip("the source is not a rules.Reconciler")
	}
	id, gone := f.id("set"), f.id("gone")
	f.write(f.set(id, "a"))
	f.write(f.set(gone, "b"))
	f.remove(gone)
	before := f.state(id) + f.state(gone)
	for _, id := range append([]string{id, gone, f.id("unknown")}, strange...) {
		if imported, err := source.Reconcile(t.Context(), id); imported || err != nil {
			t.Errorf("Reconcile of %.100q: %t, %v", id, imported, err)
		}
	}
	if after := f.state(id) + f.state(gone); after != before {
		t.Errorf("reconciling has changed\n%sto\n%s", before, after)
	}
	if head, known := f.head(f.id("unknown")); known {
		t.Errorf("reconciling an unknown id has made %+v", head)
	}
	if found, err := source.Unimported(t.Context(), append([]string{f.id("unknown")}, strange...)); err != nil || len(found) > 0 {
		t.Errorf("Unimported of unknown ids: %.300q, %v", found, err)
	}
}
