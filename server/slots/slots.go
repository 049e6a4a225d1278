// Package slots bounds the concurrent work of a server: in total and for each
// caller, so that one caller cannot take all of it. A slot is taken before
// anything is read or allocated for a request.
package slots

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrFull is returned when no slot became free in time. Nothing was done: the
// same request can be sent again.
var ErrFull = errors.New("no slot is free")

// queue is how many requests may wait for each slot.
const queue = 32

// Pool is a number of slots. It is safe for concurrent use.
type Pool struct {
	slots     chan struct{} // has one element for each slot in use
	perCaller int
	wait      time.Duration

	mu      sync.Mutex
	entered int // requests that have a slot or wait for one
	callers map[string]*caller
}

// caller is what one caller has. It is forgotten when it has nothing.
type caller struct {
	slots   chan struct{}
	entered int
}

// New returns a pool. One caller gets at most perCaller of its slots. Take waits
// for a free slot up to the duration wait.
func New(total, perCaller int, wait time.Duration) *Pool {
	return &Pool{slots: make(chan struct{}, total), perCaller: perCaller, wait: wait, callers: map[string]*caller{}}
}

// Take takes a slot for a caller, in the order of arrival. The slot is free again when release
// is called, which must happen once. The error is [ErrFull], or that of ctx.
func (p *Pool) Take(ctx context.Context, name string) (release func(), err error) {
	c := p.enter(name)
	if c == nil {
		return nil, ErrFull
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.wait, ErrFull)
	defer cancel()
	var taken []chan struct{}
	release = func() {
		for _, slots := range taken {
			<-slots
		}
		p.leave(name, c)
	}
	// The share of the caller first: a request that waits for it has no slot of the pool.
	for _, slots := range []chan struct{}{c.slots, p.slots} {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			select {
			case slots <- struct{}{}: // it became free in the meantime
			default:
				release()
				return nil, context.Cause(ctx)
			}
		}
		taken = append(taken, slots)
	}
	return release, nil
}

// enter lets a caller wait. It returns nil if too many requests do.
func (p *Pool) enter(name string) *caller {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.callers[name]
	if c == nil {
		c = &caller{slots: make(chan struct{}, p.perCaller)}
	}
	if c.entered >= (1+queue)*p.perCaller || p.entered >= (1+queue)*cap(p.slots) {
		return nil
	}
	p.callers[name] = c
	c.entered++
	p.entered++
	return c
}

func (p *Pool) leave(name string, c *caller) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.entered--
	if c.entered--; c.entered == 0 {
		delete(p.callers, name)
	}
}
