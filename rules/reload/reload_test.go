package reload_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/reload"
	"github.com/fluxgate/fluxgate/rules/rulestest/memrules"
)

// A change takes effect by polling.
func TestPolling_Change(t *testing.T) {
	source := newStubSource()
	put(t, source, "set", 1)
	r := start(t, source, reload.Config{RuleSets: []string{"set"}, Interval: 10 * time.Millisecond, Jitter: -1})
	if got := capacity(t, r, "set"); got != 1 {
		t.Fatalf("the version of capacity %d decides after the start", got)
	}
	revision := put(t, source, "set", 2)
	until(t, "the change is in effect", func() bool { return capacity(t, r, "set") == 2 })
	if s := status(t, r, "set"); s.Revision != revision || s.Source != reload.FromSource || s.Err != nil || s.Rules != 1 || s.LoadedAt.IsZero() {
		t.Errorf("status %+v", s)
	}
}

// A poll without a change reads revisions only.
func TestPolling_Unchanged(t *testing.T) {
	source := newStubSource()
	for _, id := range []string{"a", "b", "c"} {
		put(t, source, id, 1)
	}
	r := start(t, source, reload.Config{RuleSets: []string{"a", "b", "c"}, Interval: 10 * time.Millisecond, Jitter: -1})
	looks, loads := source.revisions.Load(), source.loads.Load()
	before := r.Stats().Looks
	until(t, "there were ten polls", func() bool { return r.Stats().Looks >= before+10 })
	if extra := source.loads.Load() - loads; extra != 0 {
		t.Errorf("unchanged rule sets were read %d times", extra)
	}
	if asked, looked := source.revisions.Load()-looks, r.Stats().Looks-before; asked > int64(looked)+1 {
		t.Errorf("%d reads in %d polls of three rule sets", asked, looked)
	}
}

// A source that watches gives hints, without polling.
func TestWatch_Change(t *testing.T) {
	source := memrules.New(memrules.Config{})
	put(t, source, "set", 1)
	r := start(t, source, reload.Config{RuleSets: []string{"set"}, Interval: never})
	for c := int64(2); c < 20; c++ {
		put(t, source, "set", c)
		until(t, "the change is in effect", func() bool { return capacity(t, r, "set") == c })
	}
}

// The first request waits for its rule set.
func TestRuleSet_FirstRequest(t *testing.T) {
	source := newStubSource()
	put(t, source.Source, "set", 7)
	let := make(chan struct{})
	source.failWith(func(ctx context.Context) error {
		select {
		case <-let:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	r := start(t, source, reload.Config{Interval: never, FirstWait: time.Minute, Timeout: time.Minute, StartWithoutRules: true})
	engine, err := fluxgate.New(newStore(t), r, fluxgate.WithRuleSet("set"))
	if err != nil {
		t.Fatal(err)
	}
	const callers = 100
	var all sync.WaitGroup
	limits := make(chan int64, callers)
	for range callers {
		all.Go(func() {
			d, err := engine.Check(t.Context(), &fluxgate.Request{})
			if err != nil {
				t.Error(err)
			}
			limits <- d.Limit
		})
	}
	until(t, "the source is read", func() bool { return source.revisions.Load() > 0 })
	close(let)
	all.Wait()
	close(limits)
	for limit := range limits {
		if limit != 7 {
			t.Fatalf("a first request was decided by a limit of %d", limit)
		}
	}
	if source.revisions.Load() != 1 || source.loads.Load() != 1 {
		t.Errorf("%d callers caused %d reads of revisions and %d loads", callers, source.revisions.Load(), source.loads.Load())
	}
}

// A source that hangs delays a request by FirstWait at most.
func TestRuleSet_HangingSource(t *testing.T) {
	source := newStubSource()
	put(t, source, "set", 7)
	source.failWith(hang)
	r := start(t, source, reload.Config{Interval: never, FirstWait: 20 * time.Millisecond, Timeout: 30 * time.Second})
	start := time.Now()
	if capacity(t, r, "set") != 0 {
		t.Error("a hanging source returned a rule set")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if r.RuleSet(ctx, "another") != nil {
		t.Error("a hanging source returned a rule set")
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("requests were held for %v", took)
	}
}

// An unknown id is read once, not on every request.
func TestRuleSet_Unknown(t *testing.T) {
	source := newStubSource()
	r := start(t, source, reload.Config{Interval: 20 * time.Millisecond, Jitter: -1})
	until(t, "the source was read", func() bool { capacity(t, r, "later"); return source.revisions.Load() > 0 })
	for range 1_000 {
		if capacity(t, r, "later") != 0 {
			t.Fatal("a rule set was returned")
		}
	}
	if source.loads.Load() != 0 {
		t.Errorf("a rule set that does not exist was read %d times", source.loads.Load())
	}
	if s := status(t, r, "later"); s.Source != reload.FromNowhere || s.Err != nil {
		t.Errorf("status %+v", s)
	}
	put(t, source, "later", 3)
	until(t, "it is found once it exists", func() bool { return capacity(t, r, "later") == 3 })
	for _, id := range []string{"", "no spaces", "../etc", strings.Repeat("x", 65)} {
		if r.RuleSet(t.Context(), id) != nil || len(r.Status()) != 1 {
			t.Errorf("%q is kept", id)
		}
	}
}

// A flood of unknown ids drops no rule set.
func TestRuleSet_UnknownFlood(t *testing.T) {
	source := newStubSource()
	const most = 100
	for i := range most {
		put(t, source, fmt.Sprint("real-", i), 1)
	}
	r := start(t, source, reload.Config{Interval: never, MaxRuleSets: most})
	for i := range most {
		if capacity(t, r, fmt.Sprint("real-", i)) != 1 {
			t.Fatal("a rule set is missing")
		}
	}
	var all sync.WaitGroup
	for caller := range 8 {
		all.Go(func() {
			for i := range 1_000 {
				r.RuleSet(t.Context(), fmt.Sprintf("forged-%d-%d", caller, i))
			}
		})
	}
	all.Wait()
	loads := source.loads.Load()
	if kept := len(r.Status()); kept > most+most/4 {
		t.Errorf("%d ids are kept", kept)
	}
	for i := range most {
		if capacity(t, r, fmt.Sprint("real-", i)) != 1 {
			t.Fatal("a rule set is missing")
		}
	}
	if source.loads.Load() != loads {
		t.Errorf("%d rule sets were read again", source.loads.Load()-loads)
	}
}

// With too many rule sets the least recently used one is dropped.
func TestRuleSet_TooMany(t *testing.T) {
	source := newStubSource()
	for i := range 30 {
		put(t, source, fmt.Sprint("set-", i), int64(i+1))
	}
	r := start(t, source, reload.Config{Interval: never, MaxRuleSets: 10, RuleSets: []string{"set-0"}})
	for i := range 30 {
		if got := capacity(t, r, fmt.Sprint("set-", i)); got != int64(i+1) {
			t.Fatalf("rule set %d is one of capacity %d", i, got)
		}
	}
	held := 0
	for _, s := range r.Status() {
		if s.Revision != 0 {
			held++
		}
	}
	if held > 10 {
		t.Errorf("%d rule sets are kept", held)
	}
	loads := source.loads.Load()
	if capacity(t, r, "set-0") != 1 || source.loads.Load() != loads {
		t.Error("a rule set that the config names was dropped")
	}
}

// A deleted rule set is no longer applied, a lost one is.
func TestRuleSet_DeletedOrLost(t *testing.T) {
	source := newStubSource()
	revision := put(t, source, "deleted", 1)
	put(t, source, "lost", 2)
	folder := t.TempDir()
	r := start(t, source, reload.Config{RuleSets: []string{"deleted", "lost"}, Interval: never, Copies: folder})
	if _, err := source.Delete(t.Context(), "deleted", rules.Change{Author: "tester", Base: revision}); err != nil {
		t.Fatal(err)
	}
	if err := r.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if capacity(t, r, "deleted") != 0 {
		t.Error("a deleted rule set is in effect")
	}
	source.lost.Store(true)
	if err := r.Reload(t.Context()); !errors.Is(err, reload.ErrLost) {
		t.Errorf("reloading from a source that lost its data: %v", err)
	}
	if capacity(t, r, "lost") != 2 || !errors.Is(status(t, r, "lost").Err, reload.ErrLost) {
		t.Errorf("a rule set that the source lost: %+v", status(t, r, "lost"))
	}

	// A gateway that starts now uses its copy.
	again := start(t, source, reload.Config{RuleSets: []string{"deleted", "lost"}, Interval: never, Copies: folder, StartWithoutRules: true})
	if capacity(t, again, "lost") != 2 || capacity(t, again, "deleted") != 0 {
		t.Errorf("after a start: %+v", again.Status())
	}
	// What is made anew may have the same revision and other content.
	source.Source = memrules.New(memrules.Config{})
	put(t, source, "lost", 7)
	source.lost.Store(false)
	if err := r.Reload(t.Context()); err != nil || capacity(t, r, "lost") != 7 {
		t.Errorf("made anew: %v, %+v with a capacity of %d", err, status(t, r, "lost"), capacity(t, r, "lost"))
	}
	if err := again.Reload(t.Context()); err != nil || status(t, again, "lost").Source != reload.FromSource {
		t.Errorf("once the data is back: %v, %+v", err, status(t, again, "lost"))
	}
	put(t, source, "deleted", 5)
	if err := again.Reload(t.Context()); err != nil || capacity(t, again, "deleted") != 5 {
		t.Errorf("made again after its deletion: %v", err)
	}
}

// A failing source changes nothing.
func TestLoad_FailingSource(t *testing.T) {
	for name, mood := range map[string]func(context.Context) error{
		"away":  away,
		"hangs": hang,
		"panics": func(context.Context) error {
			panic("a bug")
		},
	} {
		t.Run(name, func(t *testing.T) {
			source := newStubSource()
			put(t, source, "set", 1)
			r := start(t, source, reload.Config{RuleSets: []string{"set"}, Interval: 20 * time.Millisecond, Jitter: -1, Timeout: 20 * time.Millisecond})
			source.failWith(mood)
			put(t, source.Source, "set", 2)
			until(t, "the status has the error", func() bool { return status(t, r, "set").Err != nil })
			if capacity(t, r, "set") != 1 {
				t.Error("the last good version is not in effect")
			}
			source.failWith(nil)
			until(t, "the change is in effect", func() bool { return capacity(t, r, "set") == 2 && status(t, r, "set").Err == nil })
			if r.Stats().Failures == 0 {
				t.Error("failures are not counted")
			}
		})
	}
}

// A revision that failed to load is not loaded again on every hint.
func TestHints_RefusedRevision(t *testing.T) {
	source := memrulesThatWatch{newStubSource()}
	put(t, source, "set", 1)
	r := start(t, source, reload.Config{RuleSets: []string{"set"}, Interval: never, Jitter: -1})
	refuse := func() (*rules.Set, error) { return rules.NewSet("set", rules.Rule{ID: "r"}) }
	source.parse.Store(&refuse)
	put(t, source, "set", 2)
	until(t, "it is rejected", func() bool { return status(t, r, "set").Err != nil })
	loads, looks := source.loads.Load(), r.Stats().Looks
	for range 5 {
		put(t, source, "other", 1) // its rule set is not in use, but the source hints
		until(t, "revisions were read", func() bool { return r.Stats().Looks > looks })
		looks = r.Stats().Looks
	}
	if extra := source.loads.Load() - loads; extra != 0 {
		t.Errorf("a rejected revision was loaded %d more times", extra)
	}
	if err := r.Reload(t.Context()); err == nil || source.loads.Load() == loads {
		t.Errorf("Reload does not try again: %v", err)
	}
	source.parse.Store(nil)
	if err := r.Reload(t.Context()); err != nil || capacity(t, r, "set") != 2 {
		t.Errorf("a repaired revision is not loaded: %v", err)
	}
}

// memrulesThatWatch hints that anything may have changed.
type memrulesThatWatch struct{ *stubSource }

func (m memrulesThatWatch) Watch(ctx context.Context, changed func(string)) error {
	return m.Source.Watch(ctx, func(string) { changed("") })
}

// Close ends the background work, and the loaded rules stay in effect.
func TestClose_RulesStay(t *testing.T) {
	source := newStubSource()
	put(t, source, "set", 1)
	r := start(t, source, reload.Config{RuleSets: []string{"set"}, Interval: 10 * time.Millisecond})
	for range 2 {
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if capacity(t, r, "set") != 1 || capacity(t, r, "unknown") != 0 {
		t.Error("RuleSet returns nothing after Close")
	}
}

// Start fails with an invalid config.
func TestStart_InvalidConfig(t *testing.T) {
	source := newStubSource()
	for name, config := range map[string]reload.Config{
		"unknown strategy": {Strategy: "TELEPATHY"},
		"pub/sub without":  {Strategy: reload.PubSub},
		"auto without":     {Strategy: reload.Auto},
		"an invalid id":    {RuleSets: []string{"a b"}},
		"too often":        {Interval: time.Millisecond},
		"too many":         {RuleSets: []string{"a", "b"}, MaxRuleSets: 1},
		"negative":         {Timeout: -1},
	} {
		t.Run(name, func(t *testing.T) {
			if r, err := reload.Start(t.Context(), source, config); err == nil {
				_ = r.Close()
				t.Error("it started")
			}
		})
	}
	if _, err := reload.Start(t.Context(), nil, reload.Config{}); err == nil {
		t.Error("it started without a source")
	}
}

// A late answer of the source deletes nothing: it reports a deletion after the
// rule set was created again and loaded.
func TestRefresh_LateAnswer(t *testing.T) {
	source := newStubSource()
	revision := put(t, source.Source, "set", 1)
	r := start(t, source, reload.Config{RuleSets: []string{"set"}, Interval: never, Timeout: time.Minute})
	if _, err := source.Delete(t.Context(), "set", rules.Change{Author: "tester", Base: revision}); err != nil {
		t.Fatal(err)
	}
	heads, err := source.Source.Revisions(t.Context(), []string{"set"})
	if err != nil {
		t.Fatal(err)
	}
	late, answer := make(chan struct{}), make(chan struct{})
	source.stale.Store(&staleAnswer{heads: heads, asked: late, answer: answer})
	ended := make(chan error, 1)
	go func() { ended <- r.Reload(t.Context()) }()
	<-late
	put(t, source.Source, "set", 2)
	if err := r.Reload(t.Context()); err != nil || capacity(t, r, "set") != 2 {
		t.Fatalf("created again: %v, capacity %d", err, capacity(t, r, "set"))
	}
	close(answer)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if got := capacity(t, r, "set"); got != 2 {
		t.Errorf("a late answer made it one of capacity %d", got)
	}
}
