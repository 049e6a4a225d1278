package lease

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// asker decides when the store is asked for the next slice of a bucket:
//
//	state    event                                              next state
//	ready    begin: a request asks for a slice                  calling
//	calling  end: all was granted, or the store was not called  ready
//	calling  rest: the store did not answer                     resting
//	calling  pause: the bucket had less than was asked for      pausing
//	resting  pass: Pause has passed                             ready
//	pausing  pass: at most MaxPause has passed                  ready
type asker struct {
	call  *sliceCall // in flight, or nil
	after time.Time  // no slice is asked for before this time
	// refuseUntil is when a pause ends. Until then, requests that cost refuseCost or more
	// are refused if no slice has enough for them.
	refuseUntil time.Time
	refuseCost  int64
}

type askState uint8

const (
	ready   askState = iota // the store may be asked for a slice
	calling                 // a call is in flight; requests for which no slice has enough wait for it
	resting                 // not asked for a while: the last call may have taken tokens, which are lost
	pausing                 // not asked for a while: the bucket had too little, and requests are refused
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

// refuses reports whether a pause refuses a request for which no slice has enough.
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

// pause refuses requests that cost this much or more. Its length is random, so that gateways
// do not all ask at the same time.
func (a *asker) pause(sent time.Time, cost int64) {
	a.refuseUntil = sent.Add(MaxPause - rand.N(2*(MaxPause-Pause))) //nolint:gosec // no secret
	a.refuseCost, a.after = cost, a.refuseUntil
	a.end(nil)
}

// sliceCall is a call for a slice. Requests for which no slice has enough wait for it.
type sliceCall struct {
	done chan struct{}
	err  error // why the store did not answer; read it after done is closed
}

// wait waits until the call has ended. If the store did not answer, wait returns the error of
// the call: the store would not answer this request either.
func (c *sliceCall) wait(ctx context.Context) error {
	select {
	case <-c.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if errors.Is(c.err, context.Canceled) || errors.Is(c.err, context.DeadlineExceeded) {
		return nil // the request that called has left or had no time; the store may be available
	}
	return c.err
}
