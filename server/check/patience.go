package check

import (
	"context"
	"time"
)

// grace is how long a decision may take beyond what its caller waits for the
// answer. It is for stores, not for callers: those have gone by then.
const grace = time.Second

// patience is a context that says of itself that it ends a little before it
// does. The engine holds no request beyond the deadline of its context: one
// whose tokens come later is rejected at once, and its caller is still there
// to hear it. If the deadline were also the end, a request held until just
// then would have neither its tokens nor an answer.
type patience struct {
	context.Context
	until time.Time
}

// Deadline is how long the caller waits.
func (p patience) Deadline() (time.Time, bool) { return p.until, true }

// patient is ctx for a caller that waits so long.
func patient(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	until := time.Now().Add(timeout)
	if sooner, ok := ctx.Deadline(); ok && sooner.Before(until) {
		return ctx, func() {}
	}
	bounded, cancel := context.WithDeadline(ctx, until.Add(grace))
	return patience{bounded, until}, cancel
}
