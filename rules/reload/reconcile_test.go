package reload_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/reload"
)

// edited is a source that other programs edit. Its function gets the number of
// the call to Reconcile.
type edited struct {
	*stubSource
	calls     atomic.Int64
	reconcile func(ctx context.Context, call int64) error
}

func (e *edited) Reconcile(ctx context.Context, _ string) (bool, error) {
	return false, e.reconcile(ctx, e.calls.Add(1))
}

func (e *edited) Unimported(_ context.Context, ids []string) ([]string, error) { return ids, nil }

var errEdit = errors.New("the edit is not valid")

// A source that hangs in Reconcile delays no change.
func TestReconcile_Hanging(t *testing.T) {
	source := &edited{stubSource: newStubSource(), reconcile: func(ctx context.Context, call int64) error {
		if call == 1 {
			return errEdit
		}
		return hang(ctx)
	}}
	put(t, source, "set", 1)
	r := start(t, source, reload.Config{RuleSets: []string{"set"}, Interval: 20 * time.Millisecond, Timeout: time.Hour})
	until(t, "the edit is reported", func() bool { return errors.Is(status(t, r, "set").Err, errEdit) })
	for c := int64(2); c < 5; c++ {
		put(t, source, "set", c)
		until(t, "the change is in effect", func() bool { return capacity(t, r, "set") == c })
	}
}

// The late answer of an earlier call does not replace that of a later one.
func TestReconcile_LateAnswer(t *testing.T) {
	late := make(chan struct{})
	source := &edited{stubSource: newStubSource()}
	source.reconcile = func(ctx context.Context, call int64) error {
		switch call {
		case 1:
			return errEdit
		case 2:
			<-late
			return errEdit
		case 3:
			return nil
		}
		return hang(ctx)
	}
	put(t, source, "set", 1)
	r := start(t, source, reload.Config{RuleSets: []string{"set"}, Interval: 20 * time.Millisecond, Timeout: time.Hour})
	until(t, "an answer is late", func() bool { return source.calls.Load() == 2 })
	put(t, source, "set", 2) // calls Reconcile again
	until(t, "the change is in effect", func() bool { return capacity(t, r, "set") == 2 })
	close(late)
	until(t, "Reconcile was called again", func() bool { return source.calls.Load() > 3 })
	if err := status(t, r, "set").Err; err != nil {
		t.Errorf("the status has the late answer: %v", err)
	}
}

// hangingFor is a source that does not answer about the content of one rule set.
type hangingFor struct {
	*stubSource
	hanging        string
	hangs, answers atomic.Int64
}

func (h *hangingFor) Reconcile(ctx context.Context, id string) (bool, error) {
	if id == h.hanging {
		h.hangs.Add(1)
		return false, hang(ctx)
	}
	h.answers.Add(1)
	return false, nil
}

func (h *hangingFor) Unimported(_ context.Context, ids []string) ([]string, error) { return ids, nil }

// An import that hangs does not delay those of other rule sets, and is not
// started twice.
func TestReconcile_HangingForOneRuleSet(t *testing.T) {
	source := &hangingFor{stubSource: newStubSource(), hanging: "hanging"}
	put(t, source, "hanging", 1)
	put(t, source, "set", 1)
	start(t, source, reload.Config{RuleSets: []string{"hanging", "set"}, Interval: 20 * time.Millisecond, Timeout: time.Hour})
	until(t, "the import hangs", func() bool { return source.hangs.Load() == 1 })
	before := source.answers.Load()
	until(t, "the other rule set is reconciled again", func() bool { return source.answers.Load() >= before+3 })
	if n := source.hangs.Load(); n != 1 {
		t.Errorf("%d imports of the rule set that hangs were started, want 1", n)
	}
}

// countingReads counts the reads of a source with overrides that other programs edit.
type countingReads struct {
	*stubSource
	reconciles, unimported, overrides atomic.Int64
	content                           atomic.Pointer[string] // an id with content that is not imported
}

func (c *countingReads) OverrideRevisions(ctx context.Context, ids []string) (map[string]int64, error) {
	c.overrides.Add(1)
	return c.stubSource.OverrideRevisions(ctx, ids)
}

func (c *countingReads) Unimported(_ context.Context, ids []string) ([]string, error) {
	c.unimported.Add(1)
	if id := c.content.Load(); id != nil && slices.Contains(ids, *id) {
		return []string{*id}, nil
	}
	return nil, nil
}

func (c *countingReads) Reconcile(ctx context.Context, id string) (imported bool, err error) {
	c.reconciles.Add(1)
	if content := c.content.Load(); content != nil && *content == id && c.content.CompareAndSwap(content, nil) {
		set, err := rules.NewSet(id, rules.Rule{ID: "imported", Bands: []rules.Band{{Capacity: 7, Refill: time.Hour}}})
		if err == nil {
			_, err = c.Put(ctx, set, rules.Change{Author: "reconciler"})
		}
		return err == nil, err
	}
	return false, nil
}

func (c *countingReads) reads() int64 {
	return c.revisions.Load() + c.loads.Load() + c.reconciles.Load() + c.unimported.Load() + c.overrides.Load()
}

// Ids that callers invent share reads of the source: at their first request, and later. One of which
// content appears is imported.
func TestReconcile_InventedIDs(t *testing.T) {
	source := &countingReads{stubSource: newStubSource()}
	put(t, source, "set", 1)
	r := start(t, source, reload.Config{
		RuleSets: []string{"set"}, Interval: 200 * time.Millisecond, Jitter: -1, Overrides: fluxgate.NewOverrides(newStore(t), 0),
	})
	const ids = 2_000
	before, began := source.reads(), time.Now()
	var all sync.WaitGroup
	for caller := range 50 {
		all.Go(func() {
			for i := range ids / 50 {
				if r.RuleSet(t.Context(), fmt.Sprintf("invented-%d-%d", caller, i)) != nil {
					t.Error("an invented id has rules")
				}
			}
		})
	}
	all.Wait()
	// Two reads at least 10 ms apart, and those of the polls and imports, 100 ms apart.
	if most, got := 2*int64(time.Since(began)/(10*time.Millisecond)+1)+6*int64(time.Since(began)/(100*time.Millisecond)+1), source.reads()-before; got > most {
		t.Errorf("%d ids cost %d reads within %v, want at most %d", ids, got, time.Since(began), most)
	}
	reconciles, unimported := source.reconciles.Load(), source.unimported.Load()
	until(t, "unknown ids were looked for ten times", func() bool { return source.unimported.Load() >= unimported+10 })
	// The known rule set is reconciled each time.
	if got := source.reconciles.Load() - reconciles; got > 12 {
		t.Errorf("%d reconciles in ten half intervals", got)
	}
	id := "invented-7-7"
	source.content.Store(&id)
	until(t, "the content is imported", func() bool { return capacity(t, r, id) == 7 })
	fresh := "new"
	source.content.Store(&fresh)
	if got := capacity(t, r, fresh); got != 7 {
		t.Errorf("content that is there at the first request is not imported: %d", got)
	}
}
