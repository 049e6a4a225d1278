package reload_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/memrules"
	"github.com/fluxgate/fluxgate/rules/reload"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// failingOverrides is a source whose overrides can be made to fail.
type failingOverrides struct {
	*memrules.Source
	fails atomic.Bool
}

func (f *failingOverrides) OverrideChanges(ctx context.Context, ruleSet string, after int64, limit int) ([]rules.Override, error) {
	if f.fails.Load() {
		return nil, errors.New("not now")
	}
	return f.Source.OverrideChanges(ctx, ruleSet, after, limit)
}

// Overrides of the source are in effect soon after they change, also those that were deleted,
// those that changed while they could not be read, and after a change of the rule's key.
func TestOverrides(t *testing.T) {
	source := &failingOverrides{Source: memrules.New(memrules.Config{})}
	buckets := fluxgate.Must(memstore.New(memstore.Config{}))
	table := fluxgate.NewOverrides(buckets, 0)
	perUser := rules.Rule{ID: "standard", Scope: rules.ScopeUser, Bands: []rules.Band{rules.PerHour(10)}}
	put := func(rule rules.Rule, base int64) {
		t.Helper()
		set := fluxgate.Must(rules.NewSet("api", rule))
		if _, err := source.Put(t.Context(), set, rules.Change{Base: base, Author: "test"}); err != nil {
			t.Fatal(err)
		}
	}
	put(perUser, 0)
	change := func(changes ...rules.Override) {
		t.Helper()
		if _, err := source.PutOverrides(t.Context(), "api", changes); err != nil {
			t.Fatal(err)
		}
	}
	of := func(id string, times rules.Times) rules.Override {
		return rules.Override{
			RuleSetID: "api", RuleID: "standard", Identity: map[string]string{"userId": id}, Times: times, Deleted: times == 0,
		}
	}
	change(of("before", 2_000))
	r, err := reload.Start(t.Context(), source, reload.Config{RuleSets: []string{"api"}, Overrides: table, Jitter: -1, Interval: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	engine := fluxgate.Must(fluxgate.New(buckets, r, fluxgate.WithRuleSet("api"), fluxgate.WithOverrides(table)))
	limit := func(id string) int64 {
		t.Helper()
		d, err := engine.Check(t.Context(), &fluxgate.Request{UserID: id, Method: "GET", Peek: true})
		if err != nil {
			t.Fatal(err)
		}
		return d.Limit
	}
	await := func(want int64, id string) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); limit(id) != want; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("the limit of %s is %d, not %d", id, limit(id), want)
			}
		}
	}
	if got := limit("before"); got != 20 {
		t.Errorf("when the rules are loaded, the limit is %d, not 20", got)
	}
	change(of("before", 0), of("acme", 3_000))
	await(10, "before")
	await(30, "acme")

	source.fails.Store(true)
	change(of("acme", 4_000))
	for len(r.Status()) == 0 || r.Status()[0].OverridesErr == nil {
		time.Sleep(time.Millisecond)
	}
	if got := limit("acme"); got != 30 {
		t.Errorf("while they cannot be read, the limit is %d, not 30", got)
	}
	source.fails.Store(false)
	await(40, "acme")
	if err := r.Reload(t.Context()); err != nil || r.Status()[0].OverridesErr != nil {
		t.Error(err, r.Status())
	}

	var many []rules.Override
	for i := range rules.MaxPage {
		many = append(many, of(fmt.Sprint("many-", i), 5_000))
	}
	change(many...)
	change(of("after-many", 6_000))
	await(60, "after-many")

	byMethod := perUser
	byMethod.Scope, byMethod.KeyFields = rules.ScopeComposite, []string{"method"}
	put(byMethod, 1)
	await(10, "acme")
	put(perUser, 2)
	await(40, "acme")
	if _, err := source.Delete(t.Context(), "api", rules.Change{Base: 3, Author: "test"}); err != nil {
		t.Fatal(err)
	}
	await(0, "acme")
	for table.Len() > 0 {
		time.Sleep(time.Millisecond)
	}
}
