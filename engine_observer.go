package fluxgate

import (
	"context"

	"github.com/fluxgate/fluxgate/store"
)

// Observer receives the engine's events, for metrics, traces and logs. Its
// methods are called while a request is decided and must be fast. They must not
// change their arguments or use them after they return.
type Observer interface {
	// Decided is called once for every request, with the error if there is no
	// decision.
	Decided(ctx context.Context, req *Request, d *Decision, err error)
	// Waiting is called with +1 when a request begins to wait for its tokens
	// and with -1 when it no longer does.
	Waiting(ctx context.Context, change int)
	// Settled is called for every receipt that was settled, or could not be, with
	// what was settled under rules that count requests.
	Settled(ctx context.Context, s store.Settlement, err error)
	// StoreFailed is called when a call to the store or the fallback failed.
	StoreFailed(ctx context.Context, err error)
}
