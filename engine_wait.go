package fluxgate

import (
	"context"
	"time"
)

// hold keeps a request until its tokens are due. They are booked already, so no
// later request can get them.
func (e *Engine) hold(ctx context.Context, d Decision) (Decision, error) {
	if e.observer != nil {
		e.observer.Waiting(ctx, +1)
		defer e.observer.Waiting(ctx, -1)
	}
	select {
	case <-time.After(d.Wait):
		return d, nil
	case <-ctx.Done():
		e.giveBack(ctx, d.Receipt())
		return Decision{}, ctx.Err()
	}
}
