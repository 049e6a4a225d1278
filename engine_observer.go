package fluxgate

import "context"

// Observer is told what the engine does, for metrics, traces and logs. Its
// methods are called on the path of a request and must be quick. What they
// are given is theirs to read until they return.
type Observer interface {
	// Decided is called once for every request, with the error if there is no
	// decision.
	Decided(ctx context.Context, req *Request, d *Decision, err error)
	// Waiting is called with +1 when a request begins to wait for its tokens
	// and with -1 when it no longer does.
	Waiting(ctx context.Context, change int)
	// Settled is called for every receipt that was settled, or could not be.
	Settled(ctx context.Context, s Settlement, err error)
	// StoreFailed is called when the store, or the fallback, could not be
	// asked at all.
	StoreFailed(ctx context.Context, err error)
}
