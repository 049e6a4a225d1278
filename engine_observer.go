package fluxgate

import (
	"context"
	"fmt"

	"github.com/fluxgate/fluxgate/store"
)

// Observer receives the engine's events, for metrics, traces and logs. Its
// methods are called while a request is decided and must be fast. They must not
// change their arguments or use them after they return. A panic in a method changes no decision
// and no settlement: it is passed to StoreFailed, as an error that wraps [ErrHook].
type Observer interface {
	// Decided is called once for each Check or CheckAll, with the error if there is no
	// decision.
	Decided(ctx context.Context, req *Request, d *Decision, err error)
	// Waiting is called with +1 when a request begins to wait for its tokens
	// and with -1 when it no longer does.
	Waiting(ctx context.Context, change int)
	// Settled is called for each settlement and refund, with the result under rules that
	// count requests, or the error. It is not called if the receipt is not valid or settled.
	Settled(ctx context.Context, s store.Settlement, err error)
	// StoreFailed is called when a call to the store or the fallback failed, or a method of the
	// observer has panicked.
	StoreFailed(ctx context.Context, err error)
}

// guarded is an observer whose panics end no request: it may hold tokens and slots.
type guarded struct{ Observer }

func (g guarded) Decided(ctx context.Context, req *Request, d *Decision, err error) {
	defer g.report(ctx)
	g.Observer.Decided(ctx, req, d, err)
}

func (g guarded) Waiting(ctx context.Context, change int) {
	defer g.report(ctx)
	g.Observer.Waiting(ctx, change)
}

func (g guarded) Settled(ctx context.Context, s store.Settlement, err error) {
	defer g.report(ctx)
	g.Observer.Settled(ctx, s, err)
}

func (g guarded) StoreFailed(ctx context.Context, err error) {
	defer g.report(ctx)
	g.Observer.StoreFailed(ctx, err)
}

// report passes a panic to StoreFailed. A panic of that is dropped.
func (g guarded) report(ctx context.Context) {
	p := recover()
	if p == nil {
		return
	}
	defer func() { _ = recover() }()
	g.Observer.StoreFailed(ctx, fmt.Errorf("%w: panic of an observer: %v", ErrHook, p))
}
