package rls

import (
	"context"
	"time"

	"github.com/fluxgate/fluxgate/internal/deadline"
)

// maxReturn is the longest time that is kept for the answer.
const maxReturn = 100 * time.Millisecond

// answerable returns the context of a call with a deadline at which the answer can still
// arrive in time. Where many calls compete for tokens the first that can wait long enough
// gets one: it is held until its very deadline, and would be too late.
func answerable(ctx context.Context) context.Context {
	until, ok := ctx.Deadline()
	if !ok {
		return ctx
	}
	return deadline.Earlier(ctx, until.Add(-min(time.Until(until)/10, maxReturn)))
}
