package middleware

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate"
)

// releaseTimeout bounds renewing and releasing slots.
const releaseTimeout = 2 * time.Second

// Hold renews the slots of a request under way, three times in each hold, until the
// returned function is called: it releases them. A handler that settles the request
// itself has released them already. A slot that was lost is reported. If the request
// holds no slots, the function does nothing.
func (g *Gate[R]) Hold(ctx context.Context, r R, d *fluxgate.Decision, cost int64) (end func()) {
	hold, ok := d.Hold()
	if !ok {
		return noSlots
	}
	receipt := d.Receipt()
	if receipt == nil { // a peek takes none
		return noSlots
	}
	return g.renew(ctx, r, receipt, max(1, cost), hold)
}

func noSlots() {}

func (g *Gate[R]) renew(ctx context.Context, r R, receipt *fluxgate.Receipt, cost int64, hold time.Duration) (end func()) {
	limiter, request := g.Limiter, context.WithoutCancel(ctx)
	ctx, stop := context.WithCancel(request)
	var renewing sync.WaitGroup
	var renewed error // why it ended before the request did
	renewing.Go(func() {
		every := time.NewTicker(hold / 3)
		defer every.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-every.C:
			}
			err := within(ctx, func(ctx context.Context) error { return limiter.Extend(ctx, receipt) })
			if errors.Is(err, fluxgate.ErrNotHeld) { // lost, or settled by the handler
				renewed = err
				return
			}
			if err != nil && ctx.Err() == nil {
				g.Report(r, err)
			}
		}
	})
	return func() {
		stop()
		renewing.Wait()
		err := within(request, func(ctx context.Context) error {
			_, err := limiter.Settle(ctx, receipt, cost)
			return err
		})
		if errors.Is(err, fluxgate.ErrSettled) {
			return
		}
		if err = errors.Join(renewed, err); err != nil {
			g.Report(r, err)
		}
	}
}

func within(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	return do(ctx)
}
