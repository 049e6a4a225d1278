package check

import (
	"context"
	"time"
)

// grace is how long a decision may take beyond the caller's timeout, so that the
// store can finish.
const grace = time.Second

// patience is a context whose deadline is earlier than its end. The engine holds
// no request beyond the deadline of its context: one whose tokens come later is
// rejected at once, while its caller still waits. If the context ended at the
// deadline, a request held until then would get neither tokens nor an answer.
type patience struct {
	context.Context
	until time.Time
}

// Deadline returns when the caller stops waiting.
func (p patience) Deadline() (time.Time, bool) { return p.until, true }

// patient returns ctx with the timeout of a caller.
func patient(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	until := time.Now().Add(timeout)
	if sooner, ok := ctx.Deadline(); ok && sooner.Before(until) {
		return ctx, func() {}
	}
	bounded, cancel := context.WithDeadline(ctx, until.Add(grace))
	return patience{bounded, until}, cancel
}
