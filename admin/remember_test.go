package admin_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/rulestest/memrules"
)

// counting is an editor that counts calls.
type counting struct {
	rules.Editor
	mu    sync.Mutex
	asked map[string]int
}

func (c *counting) count(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked == nil {
		c.asked = map[string]int{}
	}
	c.asked[what]++
}

func (c *counting) Revisions(ctx context.Context, ids []string) (map[string]rules.Head, error) {
	c.count("revisions")
	return c.Editor.Revisions(ctx, ids)
}

func (c *counting) Load(ctx context.Context, id string) (*rules.Version, error) {
	c.count("loads")
	return c.Editor.Load(ctx, id)
}

func (c *counting) Version(ctx context.Context, id string, revision int64) (*rules.Version, error) {
	c.count("versions")
	return c.Editor.Version(ctx, id, revision)
}

// wantAsked checks how often the source was called since the last check.
func (c *counting) wantAsked(t *testing.T, when string, want map[string]int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if got := fmt.Sprint(c.asked); got != fmt.Sprint(want) {
		t.Errorf("%s the source is called %s, want %v", when, got, want)
	}
	c.asked = map[string]int{}
}

type asked = map[string]int

// Versions are kept for some seconds.
func TestRemembering_Expiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, source := t.Context(), memrules.New(memrules.Config{})
		counted := &counting{Editor: source}
		reader := admin.Remembering(counted)
		load := func(want string) {
			t.Helper()
			v, err := reader.Load(ctx, "mine")
			do(t, err)
			if capacities(v.RuleSet) != want {
				t.Errorf("loaded %s, want %s", capacities(v.RuleSet), want)
			}
		}
		if _, err := reader.Load(ctx, "mine"); err == nil {
			t.Error("an unknown rule set is loaded")
		}
		counted.wantAsked(t, "for an unknown rule set", asked{"revisions": 1, "loads": 1})
		_, err := reader.Put(ctx, setOf(t, "mine", 1), by(0, ""))
		do(t, err)

		load("[1]")
		counted.wantAsked(t, "at first", asked{"revisions": 1, "loads": 1})
		load("[1]")
		_, err = reader.Version(ctx, "mine", 1)
		do(t, err)
		counted.wantAsked(t, "again", asked{"revisions": 1})

		_, err = source.Put(ctx, setOf(t, "mine", 2), by(1, ""))
		do(t, err)
		load("[2]")
		counted.wantAsked(t, "for another revision", asked{"revisions": 1, "loads": 1})
		if v, err := reader.Version(ctx, "mine", 1); err != nil || capacities(v.RuleSet) != "[1]" {
			t.Errorf("the former revision is %+v (%v)", v, err)
		}
		counted.wantAsked(t, "for the former", asked{})

		time.Sleep(11 * time.Second)
		load("[2]")
		_, err = reader.Version(ctx, "mine", 1)
		do(t, err)
		counted.wantAsked(t, "after a while", asked{"revisions": 1, "loads": 1, "versions": 1})

		_, err = source.Delete(ctx, "mine", by(2, ""))
		do(t, err)
		if _, err := reader.Load(ctx, "mine"); err == nil {
			t.Error("a deleted rule set is loaded")
		}
		if v, err := reader.Version(ctx, "mine", 3); err != nil || !v.Deleted {
			t.Errorf("the deletion is %+v (%v)", v, err)
		}
	})
}

// same is a source with the same rules at every revision.
type same struct {
	rules.Editor
	set *rules.Set
}

func (s *same) Version(_ context.Context, id string, revision int64) (*rules.Version, error) {
	return &rules.Version{Entry: rules.Entry{RuleSetID: id, Head: rules.Head{Revision: revision}}, RuleSet: s.set}, nil
}

// The two versions that were read last are kept.
func TestRemembering_Two(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counted := &counting{Editor: &same{set: setOf(t, "mine", 1)}}
		reader := admin.Remembering(counted)
		for _, revision := range []int64{1, 2, 2, 1, 3, 3, 2, 1} {
			_, err := reader.Version(t.Context(), "mine", revision)
			do(t, err)
		}
		counted.wantAsked(t, "for three", asked{"versions": 4})
	})
}
