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

// Hold renews the slots of a running request, three times in each hold time, until all are
// lost or the returned function is called, which releases them. A request that waited took
// its slots before the wait. A handler that settles the request itself has released them
// already. Lost slots are reported once, at the end. If the request holds no slots, the
// function does nothing.
func (g *Gate[R]) Hold(ctx context.Context, r R, d *fluxgate.Decision, cost int64) (end func()) {
	hold, ok := d.Hold()
	if !ok {
		return noSlots
	}
	receipt := d.Receipt()
	if receipt == nil { // a peek takes none
		return noSlots
	}
	return g.renew(ctx, r, receipt, max(1, cost), hold, d.Wait)
}

func noSlots() {}

func (g *Gate[R]) renew(ctx context.Context, r R, receipt *fluxgate.Receipt, cost int64, hold, waited time.Duration) (end func()) {
	limiter, request := g.Limiter, context.WithoutCancel(ctx)
	ctx, stop := context.WithCancel(request)
	var renewing sync.WaitGroup
	var lost error // an ErrNotHeld
	renewing.Go(func() {
		next := time.NewTimer(max(0, hold/3-waited))
		defer next.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-next.C:
			}
			next.Reset(hold / 3)
			err := within(ctx, func(ctx context.Context) error { return limiter.Extend(ctx, receipt) })
			switch {
			case errors.Is(err, fluxgate.ErrPartlyHeld):
				lost = err
			case errors.Is(err, fluxgate.ErrNotHeld): // lost, or settled by the handler
				lost = err
				return
			case err != nil && ctx.Err() == nil:
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
		if err = errors.Join(lost, err); err != nil {
			g.Report(r, err)
		}
	}
}

func within(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	return do(ctx)
}
