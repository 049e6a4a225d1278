// Package background runs goroutines that end together.
package background

import (
	"context"
	"sync"
	"time"
)

// Group runs functions until it is closed. Use [New].
type Group struct {
	ctx     context.Context
	cancel  context.CancelFunc
	mu      sync.Mutex // held while a function starts, or the group is closed
	running sync.WaitGroup
}

// New returns a group whose functions get the values of ctx, but do not end with it.
func New(ctx context.Context) *Group {
	g := &Group{}
	g.ctx, g.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return g
}

// Context returns the context of the functions. It ends when the group is closed.
func (g *Group) Context() context.Context { return g.ctx }

// Go runs a function with a context that ends when the group is closed. In a
// closed group it does nothing and returns false.
func (g *Group) Go(run func(context.Context)) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ctx.Err() != nil {
		return false
	}
	g.running.Go(func() { run(g.ctx) })
	return true
}

// Close ends the functions and waits for them. It reports whether this is the
// first call.
func (g *Group) Close() (first bool) {
	g.mu.Lock()
	first = g.ctx.Err() == nil
	g.cancel()
	g.mu.Unlock()
	g.running.Wait()
	return first
}

// Sleep waits for d, or until ctx ends.
func Sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
