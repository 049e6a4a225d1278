// Package slots bounds the concurrent work of a server: in total and for each
// caller, so that one caller cannot take all of it. A slot is taken before
// anything is read or allocated for a request.
package slots

import (
	"context"
	"errors"
	"slices"
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
	total, perCaller int
	wait             time.Duration

	mu      sync.Mutex
	used    int
	callers map[string]*caller
	waiters []*waiter // in the order of their arrival
}

// caller is what one caller has. It is forgotten when it has nothing.
type caller struct{ used, waiting int }

type waiter struct {
	caller string
	ready  chan struct{} // closed when the waiter has a slot
}

// New returns a pool. One caller gets at most perCaller of its slots. Take waits
// for a free slot up to the duration wait.
func New(total, perCaller int, wait time.Duration) *Pool {
	return &Pool{total: total, perCaller: perCaller, wait: wait, callers: map[string]*caller{}}
}

// Take takes a slot for a caller. The slot is free again when release is
// called, which must happen once. The error is [ErrFull], or that of ctx.
func (p *Pool) Take(ctx context.Context, name string) (release func(), err error) {
	release = func() { p.release(name) }
	w := p.enter(name)
	if w == nil {
		return nil, ErrFull
	}
	timer := time.NewTimer(p.wait)
	defer timer.Stop()
	err = ErrFull
	select {
	case <-w.ready:
		return release, nil
	case <-timer.C:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if !p.leave(w) {
		return release, nil // a slot became free in the meantime
	}
	return nil, err
}

// enter gives a caller a slot, or a place in the queue. It returns nil if
// neither is left.
func (p *Pool) enter(name string) *waiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &waiter{name, make(chan struct{})}
	c := p.callers[name]
	if c == nil {
		c = new(caller)
		p.callers[name] = c
	}
	switch {
	case p.used < p.total && c.used < p.perCaller:
		p.give(w, c)
	case c.waiting < queue*p.perCaller && len(p.waiters) < queue*p.total:
		c.waiting++
		p.waiters = append(p.waiters, w)
	default:
		p.forget(name, c)
		return nil
	}
	return w
}

func (p *Pool) give(w *waiter, c *caller) {
	p.used++
	c.used++
	close(w.ready)
}

func (p *Pool) forget(name string, c *caller) {
	if c.used == 0 && c.waiting == 0 {
		delete(p.callers, name)
	}
}

// leave takes a waiter out of the queue. It reports whether it was there.
func (p *Pool) leave(w *waiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.waiters, w)
	if i < 0 {
		return false
	}
	p.waiters = slices.Delete(p.waiters, i, i+1)
	c := p.callers[w.caller]
	c.waiting--
	p.forget(w.caller, c)
	return true
}

// release frees a slot, and gives it to the first waiter below its share.
func (p *Pool) release(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used--
	c := p.callers[name]
	c.used--
	p.forget(name, c)
	for i, w := range p.waiters {
		if c := p.callers[w.caller]; c.used < p.perCaller {
			p.waiters = slices.Delete(p.waiters, i, i+1)
			c.waiting--
			p.give(w, c)
			return
		}
	}
}
