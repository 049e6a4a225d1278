package reload_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/reload"
)

// severalSets are the ids of rule sets of a source.
func severalSets(t *testing.T, source rules.Editor) (ids []string) {
	t.Helper()
	for i := range 40 {
		ids = append(ids, fmt.Sprintf("set-%02d", i))
		put(t, source, ids[i], 7)
	}
	return ids
}

// An outage of the source and its end are one line each, with the number of rule sets and the
// first names.
func TestLog_OutageOfManyRuleSets(t *testing.T) {
	source, log := newStubSource(), new(logged)
	ids := severalSets(t, source)
	table := fluxgate.NewOverrides(newStore(t), 0)
	r := start(t, source, reload.Config{RuleSets: ids, Interval: never, Logger: log.logger(), Overrides: table})
	before := log.count("")
	source.failWith(away)
	for range 3 {
		if err := r.Reload(t.Context()); err == nil {
			t.Fatal("the source answers")
		}
	}
	if n := log.count("cannot load rules; the last good revision stays in effect"); n != 1 || log.count("") != before+1 ||
		log.count(`ruleSets=40 first="[set-00 set-01 set-02 set-03 set-04]"`) != 1 {
		t.Errorf("%d lines about the outage:\n%s", log.count("")-before, log.text.String())
	}
	source.failWith(nil)
	if err := r.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := log.count("rules can be loaded again"); n != 1 || log.count("") != before+2 || log.count("ruleSets=40") != 2 {
		t.Errorf("%d lines about its end:\n%s", n, log.text.String())
	}
}

// awayReconciler is a source that other programs can edit, and that does not answer.
type awayReconciler struct{ *stubSource }

func (a awayReconciler) Reconcile(ctx context.Context, _ string) (bool, error) {
	if f := a.fault.Load(); f != nil {
		return false, (*f)(ctx)
	}
	return false, nil
}

func (a awayReconciler) Unimported(_ context.Context, ids []string) ([]string, error) {
	return ids, nil
}

// The calls that import edits share a line too.
func TestLog_OutageOfReconciler(t *testing.T) {
	source, log := awayReconciler{newStubSource()}, new(logged)
	ids := severalSets(t, source)
	start(t, source, reload.Config{RuleSets: ids, Interval: 100 * time.Millisecond, Jitter: -1, Logger: log.logger()})
	for _, failing := range []struct {
		fault func(context.Context) error
		says  string
	}{{away, "cannot import an edit of the rules"}, {nil, "the content of the rule source is valid again"}} {
		source.failWith(failing.fault)
		until(t, failing.says, func() bool { return log.count(failing.says) > 0 })
		time.Sleep(500 * time.Millisecond) // ten more rounds
		if n := log.count(failing.says); n > 2 {
			t.Errorf("%d lines %q:\n%s", n, failing.says, log.text.String())
		}
	}
}
