package reload_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

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
