package reload_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/reload"
	"github.com/fluxgate/fluxgate/rules/rulestest/memrules"
	"github.com/fluxgate/fluxgate/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.Suite{M: m}) }

// stubSource is a source that fails on demand. It does not watch for changes.
type stubSource struct {
	*memrules.Source
	revisions, loads atomic.Int64
	// fault is called before each read. It may fail, hang or panic.
	fault atomic.Pointer[func(context.Context) error]
	// lost is set while the source has lost its data.
	lost atomic.Bool
	// stale is the next answer, returned late.
	stale atomic.Pointer[staleAnswer]
	// parse replaces the rule set that Load returns.
	parse atomic.Pointer[func() (*rules.Set, error)]
}

// staleAnswer is an answer that was true when the call began.
type staleAnswer struct {
	heads         map[string]rules.Head
	asked, answer chan struct{}
}

func newStubSource() *stubSource { return &stubSource{Source: memrules.New(memrules.Config{})} }

// Watch hides that memrules watches.
func (m *stubSource) Watch() {}

func (m *stubSource) failWith(f func(context.Context) error) {
	if f == nil {
		m.fault.Store(nil)
		return
	}
	m.fault.Store(&f)
}

func (m *stubSource) Revisions(ctx context.Context, ids []string) (map[string]rules.Head, error) {
	m.revisions.Add(1)
	if f := m.fault.Load(); f != nil {
		if err := (*f)(ctx); err != nil {
			return nil, err
		}
	}
	if s := m.stale.Swap(nil); s != nil {
		close(s.asked)
		<-s.answer
		return s.heads, nil
	}
	if m.lost.Load() {
		return map[string]rules.Head{}, nil
	}
	return m.Source.Revisions(ctx, ids)
}

func (m *stubSource) Load(ctx context.Context, id string) (*rules.Version, error) {
	m.loads.Add(1)
	if f := m.fault.Load(); f != nil {
		if err := (*f)(ctx); err != nil {
			return nil, err
		}
	}
	version, err := m.Source.Load(ctx, id)
	if f := m.parse.Load(); f != nil && err == nil {
		version.RuleSet, err = (*f)()
	}
	return version, err
}

// ruleSet returns a rule set with one rule; versions differ in its capacity.
func ruleSet(t testing.TB, id string, capacity int64) *rules.Set {
	t.Helper()
	set, err := rules.NewSet(id, rules.Rule{
		ID: id + "-rule", Bands: []rules.Band{{Capacity: capacity, Refill: time.Hour}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// put makes a version current and returns its revision.
func put(t testing.TB, editor rules.Editor, id string, capacity int64) int64 {
	t.Helper()
	heads, err := editor.Revisions(t.Context(), []string{id})
	if err != nil {
		t.Fatal(err)
	}
	change := rules.Change{Author: "tester", Base: heads[id].Revision}
	if heads[id].Deleted {
		change.Base = 0
	}
	revision, err := editor.Put(t.Context(), ruleSet(t, id, capacity), change)
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

func start(t testing.TB, source rules.Source, config reload.Config) *reload.Reloader {
	t.Helper()
	r, err := reload.Start(t.Context(), source, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func newStore(t testing.TB) *memstore.Store {
	t.Helper()
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// capacity returns that of the version in effect, 0 if there is none.
func capacity(t testing.TB, r *reload.Reloader, id string) int64 {
	t.Helper()
	set := r.RuleSet(t.Context(), id)
	if set == nil {
		return 0
	}
	for rule := range set.Rules() {
		return rule.Bands[0].Capacity
	}
	return 0
}

func status(t testing.TB, r *reload.Reloader, id string) reload.Status {
	t.Helper()
	for _, s := range r.Status() {
		if s.RuleSet == id {
			return s
		}
	}
	t.Fatalf("there is no status of %s", id)
	return reload.Status{}
}

// until waits for a condition.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited 30s until %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// never is an interval longer than any test.
const never = time.Hour

var errAway = fmt.Errorf("the source is unavailable")

func away(context.Context) error { return errAway }

func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}
