package reload_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules/reload"
)

// endsInTime calls Reload with a short deadline and expects its error.
func endsInTime(t *testing.T, r *reload.Reloader) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- r.Reload(ctx) }()
	select {
	case err := <-done:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Reload returned %v, want its deadline", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("Reload did not end with its context")
	}
}

// Reload ends with its context while another call reads the same rule set.
func TestReload_ContextWhileReading(t *testing.T) {
	source := newStubSource()
	put(t, source, "set", 1)
	r := start(t, source, reload.Config{RuleSets: []string{"set"}, Interval: never, Timeout: time.Hour})
	put(t, source, "set", 2)
	const second = 2 // after the read of revisions
	var calls atomic.Int64
	source.failWith(func(ctx context.Context) error {
		if calls.Add(1) == second {
			return hang(ctx)
		}
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = r.Reload(ctx) }()
	until(t, "a read hangs", func() bool { return calls.Load() == second })
	endsInTime(t, r)
	cancel()
	<-ended
}

// Reload ends with its context while the source imports an edit.
func TestReload_ContextWhileImporting(t *testing.T) {
	source := &edited{stubSource: newStubSource(), reconcile: func(ctx context.Context, call int64) error {
		if call == 1 {
			return errEdit
		}
		return hang(ctx)
	}}
	put(t, source, "set", 1)
	r := start(t, source, reload.Config{RuleSets: []string{"set"}, Interval: 20 * time.Millisecond, Timeout: time.Hour})
	until(t, "an import hangs", func() bool { return source.calls.Load() == 2 })
	endsInTime(t, r)
}
