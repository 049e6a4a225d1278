package lease

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// asker is when the store is asked for a slice of a bucket. Its state changes so:
//
//	state    event                                        next state
//	ready    begin: a request asks for a slice            calling
//	calling  end: all was granted, or nothing was asked   ready
//	calling  rest: there is no answer                     resting
//	calling  pause: the bucket had too little             pausing
//	resting  pass: Pause has passed                       ready
//	pausing  pass: at most MaxPause has passed            ready
type asker struct {
	call  *sliceCall // under way, or nil
	after time.Time  // no slice is asked for before
	// refuseUntil is when a pause ends. Requests that cost refuseCost or more are
	// refused until then if no slice has enough.
	refuseUntil time.Time
	refuseCost  int64
}

type askState uint8

const (
	ready   askState = iota // the store may be asked
	calling                 // requests for which no slice has enough wait for the call
	resting                 // the call may have taken tokens, which are lost
	pausing                 // as resting, and requests are refused
)

func (a *asker) state(now time.Time) askState {
	switch {
	case a.call != nil:
		return calling
	case now.Before(a.refuseUntil):
		return pausing
	case now.Before(a.after):
		return resting
	}
	return ready
}

// refuses reports whether a pause refuses a cost that no slice has.
func (a *asker) refuses(now time.Time, cost int64) bool {
	return now.Before(a.refuseUntil) && cost >= a.refuseCost
}

func (a *asker) begin() { a.call = &sliceCall{done: make(chan struct{})} }

// end wakes the requests that wait for the call.
func (a *asker) end(err error) {
	a.call.err = err
	close(a.call.done)
	a.call = nil
}

func (a *asker) rest(sent time.Time, err error) {
	a.after = sent.Add(Pause)
	a.end(err)
}

// pause refuses requests that cost at least so much.
func (a *asker) pause(sent time.Time, cost int64) {
	a.refuseUntil = sent.Add(MaxPause - rand.N(2*(MaxPause-Pause))) //nolint:gosec // no secret
	a.refuseCost, a.after = cost, a.refuseUntil
	a.end(nil)
}

// sliceCall is a call for a slice. Requests for which no slice has enough wait for it.
type sliceCall struct {
	done chan struct{}
	err  error // why there is no answer; to be read when done
}

// wait waits until the call has ended. It returns the error of a store that did not
// answer: it would not answer this request either.
func (c *sliceCall) wait(ctx context.Context) error {
	select {
	case <-c.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if errors.Is(c.err, context.Canceled) || errors.Is(c.err, context.DeadlineExceeded) {
		return nil // the caller has left, which says nothing of the store
	}
	return c.err
}
