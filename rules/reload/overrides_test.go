package reload_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/reload"
	"github.com/fluxgate/fluxgate/rules/rulestest/memrules"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// failingOverrides is a source whose overrides can be made to fail.
type failingOverrides struct {
	*memrules.Source
	fails atomic.Bool
}

func (f *failingOverrides) OverrideChanges(ctx context.Context, ruleSet string, after int64, limit int) (rules.OverridePage, error) {
	if f.fails.Load() {
		return rules.OverridePage{}, errors.New("not now")
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

// sourceOfOverrides is a source whose overrides can be replaced, and damaged.
type sourceOfOverrides struct {
	*memrules.Source
	now     atomic.Pointer[memrules.Source]
	damaged atomic.Pointer[string] // the id of an override
}

func (s *sourceOfOverrides) OverrideRevisions(ctx context.Context, sets []string) (map[string]int64, error) {
	return s.now.Load().OverrideRevisions(ctx, sets)
}

func (s *sourceOfOverrides) ListOverrides(ctx context.Context, set, after string, limit int) (rules.OverridePage, error) {
	page, err := s.now.Load().ListOverrides(ctx, set, after, limit)
	return s.damage(page), err
}

func (s *sourceOfOverrides) OverrideChanges(ctx context.Context, set string, after int64, limit int) (rules.OverridePage, error) {
	page, err := s.now.Load().OverrideChanges(ctx, set, after, limit)
	return s.damage(page), err
}

func (s *sourceOfOverrides) damage(page rules.OverridePage) rules.OverridePage {
	id := s.damaged.Load()
	for i, o := range page.Overrides {
		if id != nil && o.ID() == *id {
			page.Overrides = slices.Delete(page.Overrides, i, i+1)
			page.Damaged = map[string]error{*id: errors.New("cannot read " + *id)}
			break
		}
	}
	return page
}

// All overrides of a source are in effect though it has forgotten deletions and one of them is
// damaged, which the status says until it is repaired. Those of a source that has lost its
// data stay in effect.
func TestOverrides_DamagedAndLost(t *testing.T) {
	source := &sourceOfOverrides{Source: memrules.New(memrules.Config{})}
	source.now.Store(source.Source)
	set := fluxgate.Must(rules.NewSet("api", rules.Rule{ID: "standard", Scope: rules.ScopeUser, Bands: []rules.Band{rules.PerHour(10)}}))
	if _, err := source.Put(t.Context(), set, rules.Change{Author: "test"}); err != nil {
		t.Fatal(err)
	}
	users := func(name string, times rules.Times) (list []rules.Override) {
		for i := range rules.MaxPage {
			list = append(list, rules.Override{
				RuleID: "standard", Identity: map[string]string{"userId": fmt.Sprint(name, i)}, Times: times, Deleted: times == 0,
			})
		}
		return list
	}
	put := func(in *memrules.Source, list []rules.Override) {
		t.Helper()
		if _, err := in.PutOverrides(t.Context(), "api", list); err != nil {
			t.Fatal(err)
		}
	}
	put(source.Source, users("a", 2_000))
	put(source.Source, users("b", 2_000))
	for i := range 5 {
		put(source.Source, users(fmt.Sprint("gone-", i, "-"), 2_000))
		put(source.Source, users(fmt.Sprint("gone-", i, "-"), 0))
	}
	hurt := users("a", 2_000)[7]
	id := hurt.ID()
	source.damaged.Store(&id)
	table := fluxgate.NewOverrides(fluxgate.Must(memstore.New(memstore.Config{})), 0)
	r, err := reload.Start(t.Context(), source, reload.Config{RuleSets: []string{"api"}, Overrides: table, Jitter: -1, Interval: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	const all = 2 * rules.MaxPage
	status := func() error { return r.Status()[0].OverridesErr }
	for range 3 { // also while nothing changes
		if table.Len() != all-1 || status() == nil || !strings.Contains(status().Error(), id) {
			t.Fatalf("%d overrides are in effect, and the status is %v", table.Len(), status())
		}
		if err := r.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	put(source.Source, users("more", 2_000)[:1])
	for table.Len() != all {
		time.Sleep(time.Millisecond)
	}
	if err := r.Reload(t.Context()); err != nil || status() == nil {
		t.Errorf("after another change: %v, %v", err, status())
	}
	source.damaged.Store(nil)
	put(source.Source, []rules.Override{hurt})
	for table.Len() != all+1 || status() != nil {
		time.Sleep(time.Millisecond)
	}

	source.now.Store(memrules.New(memrules.Config{})) // it has lost its data
	for status() == nil {
		time.Sleep(time.Millisecond)
	}
	if table.Len() != all+1 {
		t.Errorf("after the loss of data %d overrides are in effect", table.Len())
	}
	restored := memrules.New(memrules.Config{}) // at a revision before the last one
	put(restored, users("a", 2_000))
	source.now.Store(restored)
	for table.Len() != rules.MaxPage || status() != nil {
		time.Sleep(time.Millisecond)
	}
}

// An override that does not fit the rules is named when it is written, with others that fit, and
// until it is deleted.
func TestOverrides_Unfit(t *testing.T) {
	source := memrules.New(memrules.Config{})
	set := fluxgate.Must(rules.NewSet("api", rules.Rule{ID: "standard", Scope: rules.ScopeUser, Bands: []rules.Band{rules.PerHour(10)}}))
	if _, err := source.Put(t.Context(), set, rules.Change{Author: "test"}); err != nil {
		t.Fatal(err)
	}
	table := fluxgate.NewOverrides(fluxgate.Must(memstore.New(memstore.Config{})), 0)
	r, err := reload.Start(t.Context(), source, reload.Config{RuleSets: []string{"api"}, Overrides: table, Jitter: -1, Strategy: reload.Polling, Interval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	change := func(rule, user string, times rules.Times) error {
		t.Helper()
		o := rules.Override{RuleSetID: "api", RuleID: rule, Identity: map[string]string{"userId": user}, Times: times, Deleted: times == 0}
		if _, err := source.PutOverrides(t.Context(), "api", []rules.Override{o}); err != nil {
			t.Fatal(err)
		}
		if err := r.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		return r.Status()[0].OverridesErr
	}
	if err := change("standard", "ada", 2_000); err != nil {
		t.Errorf("one that fits: %v", err)
	}
	for step, name := range []string{"of a rule that does not exist", "and then one that fits"} {
		rule := []string{"gone", "standard"}[step]
		if err := change(rule, "bob", 3_000); err == nil || !strings.Contains(err.Error(), `of rule "gone"`) {
			t.Errorf("%s: %v, want an error that names it", name, err)
		}
	}
	if err := change("gone", "bob", 0); err != nil {
		t.Errorf("after its deletion: %v", err)
	}
}
