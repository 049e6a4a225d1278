package background_test

import (
	"context"
	"testing"

	"github.com/fluxgate/fluxgate/internal/background"
)

type key struct{}

// Close ends the functions and waits for them, and no function starts afterwards. The
// end of the context passed to New ends nothing.
func TestGroup_Close(t *testing.T) {
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
	g := background.New(ctx)
	cancel()
	started, ended := make(chan struct{}), false
	if !g.Go(func(ctx context.Context) {
		if ctx.Err() != nil || ctx.Value(key{}) != "value" {
			t.Error("the context has ended, or has lost its values")
		}
		close(started)
		<-ctx.Done()
		ended = true
	}) {
		t.Error("Go did not start the function")
	}
	<-started
	if !g.Close() || !ended {
		t.Error("Close did not wait, or is not the first")
	}
	if g.Go(func(context.Context) { t.Error("started after Close") }) || g.Close() {
		t.Error("a closed group starts functions")
	}
}
