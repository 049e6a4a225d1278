package model

import (
	"context"
	"errors"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/store"
)

// Gone is how long a caller waits that has gone before its request.
const Gone = time.Nanosecond

// prompt is a link that does not send the calls of contexts that have ended, as no store does.
type prompt struct{ *link }

// Take implements [store.Store].
func (p prompt) Take(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return p.link.Take(ctx, demands, out)
}

// Peek implements [store.Store].
func (p prompt) Peek(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return p.link.Peek(ctx, demands, out)
}

// Settle implements [store.Store].
func (p prompt) Settle(ctx context.Context, takes store.Takes, actual []int64) ([]store.Settlement, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return p.link.Settle(ctx, takes, actual)
}

// Extend implements [store.Store].
func (p prompt) Extend(ctx context.Context, takes store.Takes) (held []bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return p.link.Extend(ctx, takes)
}

// settleGone settles the receipt of a caller that has gone, and if nothing was settled once more.
func (l *limiter) settleGone(ctx context.Context, receipt *fluxgate.Receipt) {
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if err := l.settle(gone, receipt, false); errors.Is(err, context.Canceled) && !l.gateway.dead.Load() {
		_ = l.settle(ctx, receipt, false)
	}
}

// checkGone checks that a settlement reaches a store also if its caller has gone, unless the gateway has
// a fault or ends.
func (s *spec) checkGone() {
	for i := range s.facts {
		f := &s.facts[i]
		if f.Kind != Settled || f.Op < 0 || !s.Ops[f.Op].Gone || f.Again || errors.Is(f.Err, fluxgate.ErrReceipt) {
			continue
		}
		until := f.At + recovery
		if len(s.settling[f.Check]) > 0 || s.faultAt(f.Gateway, f.Began-recovery, until) || s.endedIn(f.Gateway, f.Began, until) || until > s.Ends {
			continue
		}
		s.violateOnce(LineSettlement, "gone", f.At, "request %d, whose caller has gone, was settled at %d and nothing is settled: %v", f.Check, f.Actual, f.Err)
	}
}
