// Package deadline has contexts whose deadline is earlier than their end.
package deadline

import (
	"context"
	"time"
)

// Earlier returns ctx with an earlier deadline, at which it does not end. The engine
// holds no request beyond the deadline of its context: one whose tokens come later is
// rejected at once, while its caller still waits. If the context ended at the deadline, a
// request held until then would get neither tokens nor an answer.
func Earlier(ctx context.Context, until time.Time) context.Context { return earlier{ctx, until} }

type earlier struct {
	context.Context
	until time.Time
}

// Deadline implements [context.Context].
func (e earlier) Deadline() (time.Time, bool) { return e.until, true }

// maxReturn is the longest time that is kept for an answer.
const maxReturn = 100 * time.Millisecond

// BeforeAnswer returns ctx with a deadline at which an answer can still arrive in time.
// Where many calls compete for tokens the first that can wait long enough gets one: it is
// held until its very deadline, and would be too late.
func BeforeAnswer(ctx context.Context) context.Context {
	until, ok := ctx.Deadline()
	if !ok {
		return ctx
	}
	return Earlier(ctx, until.Add(-min(max(0, time.Until(until))/10, maxReturn)))
}
