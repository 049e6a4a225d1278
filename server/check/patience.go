package check

import (
	"context"
	"time"

	"github.com/fluxgate/fluxgate/internal/deadline"
)

// grace is how long a decision may take beyond the caller's timeout, so that the
// store can finish.
const grace = time.Second

// patient returns ctx with the timeout of a caller.
func patient(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	until := time.Now().Add(timeout)
	if sooner, ok := ctx.Deadline(); ok && sooner.Before(until) {
		return ctx, func() {}
	}
	bounded, cancel := context.WithDeadline(ctx, until.Add(grace))
	return deadline.Earlier(bounded, until), cancel
}
