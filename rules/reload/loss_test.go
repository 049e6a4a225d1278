package reload_test

import (
	"context"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/redisrules"
	"github.com/fluxgate/fluxgate/rules/reload"
	"github.com/fluxgate/fluxgate/rules/rulestest/memrules"
)

// Redis loses its data and gets other rules and overrides with the same revisions before anyone
// looks: they take effect.
func TestReload_DataLost(t *testing.T) {
	server := testenv.StartStandalone(t, testenv.Config{})
	source, err := redisrules.New(newClient(t, server.Addr()), redisrules.Config{})
	if err != nil {
		t.Fatal(err)
	}
	engine := newStore(t)
	table := fluxgate.NewOverrides(engine, 0)
	fill := func(capacity int64, times rules.Times, users ...string) {
		t.Helper()
		perUser := rules.Rule{ID: "rule", Scope: rules.ScopeUser, Bands: []rules.Band{rules.PerHour(capacity)}}
		set := fluxgate.Must(rules.NewSet("set", perUser))
		if _, err := source.Put(t.Context(), set, rules.Change{Author: "tester"}); err != nil {
			t.Fatal(err)
		}
		for _, user := range users {
			o := rules.Override{
				RuleSetID: "set", RuleID: "rule", Identity: map[string]string{"userId": user}, Times: times, Author: "tester",
			}
			if _, err := source.PutOverrides(t.Context(), "set", []rules.Override{o}); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill(1_000, 5_000, "ada", "bob")
	r := start(t, source, reload.Config{RuleSets: []string{"set"}, Interval: never, Overrides: table})
	limiter := fluxgate.Must(fluxgate.New(engine, r, fluxgate.WithRuleSet("set"), fluxgate.WithOverrides(table)))
	want := func(limits map[string]int64) {
		t.Helper()
		for user, want := range limits {
			d, err := limiter.Check(t.Context(), &fluxgate.Request{UserID: user, Peek: true})
			if err != nil || d.Limit != want {
				t.Errorf("the limit of %s is %d (%v), the source has %d", user, d.Limit, err, want)
			}
		}
	}
	want(map[string]int64{"ada": 5_000, "bob": 5_000, "eve": 1_000})
	for _, users := range [][]string{{"bob", "eve"}, {"bob", "eve", "max"}, {"bob"}} {
		if _, err := server.Do(t.Context(), "FLUSHALL"); err != nil {
			t.Fatal(err)
		}
		fill(2, 3_000, users...)
		if err := r.Reload(t.Context()); err != nil {
			t.Error(err)
		}
		if s := status(t, r, "set"); s.Revision != 1 || s.Err != nil || s.OverridesErr != nil {
			t.Errorf("%+v", s)
		}
		limits := map[string]int64{"ada": 2, "eve": 2, "max": 2}
		for _, user := range users {
			limits[user] = 6
		}
		want(limits)
	}
	loads := r.Stats().Loads
	if err := r.Reload(t.Context()); err != nil || r.Stats().Loads != loads {
		t.Errorf("unchanged rules were loaded again: %v", err)
	}
}

// plainSource is a source without commits, such as one of another author.
type plainSource struct{ *stubSource }

func (p plainSource) Revisions(ctx context.Context, ids []string) (map[string]rules.Head, error) {
	heads, err := p.stubSource.Revisions(ctx, ids)
	for id, head := range heads {
		head.Commit = ""
		heads[id] = head
	}
	return heads, err
}

// The revision decides for a source whose heads have no commit: its rules are loaded once.
func TestReload_NoCommit(t *testing.T) {
	source := newStubSource()
	put(t, source, "set", 7)
	r := start(t, plainSource{source}, reload.Config{RuleSets: []string{"set"}, Interval: never})
	for range 3 {
		if err := r.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	put(t, source, "set", 8)
	for range 3 {
		if err := r.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if loads := source.loads.Load(); loads != 2 || capacity(t, r, "set") != 8 {
		t.Errorf("two versions were loaded %d times; in effect is a capacity of %d", loads, capacity(t, r, "set"))
	}
}

// A source that numbers other content alike is loaded again, and it is a change of the rules.
func TestReload_SameRevision(t *testing.T) {
	source, store := newStubSource(), newStore(t)
	put(t, source, "set", 7)
	r := start(t, source, reload.Config{RuleSets: []string{"set"}, Interval: never, ResetBuckets: store})
	source.Source = memrules.New(memrules.Config{})
	put(t, source, "set", 9)
	if err := r.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := r.Stats(); capacity(t, r, "set") != 9 || s.Swaps != 1 || s.Loads != 2 || s.Resets != 1 {
		t.Errorf("capacity %d, %+v", capacity(t, r, "set"), s)
	}
}

// laggingSource loads from a copy that is behind the one that it reads heads from.
type laggingSource struct {
	*stubSource
	behind rules.Source
}

func (l *laggingSource) Load(ctx context.Context, id string) (*rules.Version, error) {
	if l.behind != nil {
		return l.behind.Load(ctx, id)
	}
	return l.stubSource.Load(ctx, id)
}

// Other content of the same revision than the head says is not taken for that of the head.
func TestReload_LoadedIsOlder(t *testing.T) {
	before := memrules.New(memrules.Config{})
	source := &laggingSource{stubSource: newStubSource()}
	source.Source = before
	put(t, source.stubSource, "set", 7)
	source.Source, source.behind = memrules.New(memrules.Config{}), before
	put(t, source.stubSource, "set", 9)
	r := start(t, source, reload.Config{RuleSets: []string{"set"}, Interval: never})
	if got := capacity(t, r, "set"); got != 7 {
		t.Fatalf("the copy has 7, in effect is %d", got)
	}
	source.behind = nil
	if err := r.Reload(t.Context()); err != nil || capacity(t, r, "set") != 9 {
		t.Errorf("in effect is a capacity of %d, the source has 9 (%v)", capacity(t, r, "set"), err)
	}
}

// lateEditor makes a change, and fails as a client does whose answer is lost.
type lateEditor struct{ *stubSource }

func (l lateEditor) Put(ctx context.Context, set *rules.Set, change rules.Change) (int64, error) {
	if _, err := l.stubSource.Put(ctx, set, change); err != nil {
		return 0, err
	}
	return 0, context.DeadlineExceeded
}

// A change whose answer is lost is announced, and a conflict is not.
func TestAnnouncer_LostAnswer(t *testing.T) {
	server := testenv.SharedStandalone(t)
	client, channel := newClient(t, server.Addr()), prefix(t)
	source := newStubSource()
	put(t, source, "set", 7)
	r := start(t, source, reload.Config{RuleSets: []string{"set"}, Strategy: reload.PubSub, Redis: client, Channel: channel, Interval: never})
	until(t, "it has subscribed", func() bool { return r.Stats().Subscribed > 0 })
	editor := reload.Announcing(lateEditor{source}, client, reload.AnnounceConfig{Channel: channel})
	if _, err := editor.Put(t.Context(), ruleSet(t, "set", 9), rules.Change{Author: "tester", Base: 1}); err == nil {
		t.Fatal("the answer was not lost")
	}
	until(t, "the change is in effect", func() bool { return capacity(t, r, "set") == 9 })
	if _, err := editor.Put(t.Context(), ruleSet(t, "set", 10), rules.Change{Author: "tester", Base: 1}); err == nil {
		t.Fatal("a conflict was not refused")
	}
	if err := client.Publish(t.Context(), channel, "other").Err(); err != nil {
		t.Fatal(err)
	}
	until(t, "a later message arrives", func() bool { return r.Stats().Messages.Unneeded == 1 })
	if heard := r.Stats().Messages.Heard; heard != 1 {
		t.Errorf("%d announcements of one change and a conflict", heard)
	}
}

// A change that is not announced is found all the same, later.
func TestPubSub_PollsRarely(t *testing.T) {
	server := testenv.SharedStandalone(t)
	source := newStubSource()
	put(t, source, "set", 7)
	r := start(t, source, reload.Config{
		RuleSets: []string{"set"}, Strategy: reload.PubSub, Redis: newClient(t, server.Addr()), Channel: prefix(t), Interval: 20 * time.Millisecond,
	})
	until(t, "it has subscribed", func() bool { return r.Stats().Subscribed > 0 })
	put(t, source, "set", 9)
	until(t, "the change is in effect", func() bool { return capacity(t, r, "set") == 9 })
	if heard := r.Stats().Messages.Heard; heard != 0 {
		t.Errorf("%d announcements", heard)
	}
}
