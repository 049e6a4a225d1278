package httplimit

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate"
)

// releaseTimeout bounds renewing and releasing slots.
const releaseTimeout = 2 * time.Second

// hold renews the slots of a request under way, three times in each hold, until the
// returned function is called: it releases them. A handler that settles the request
// itself has released them already.
func (g *gate) hold(r *http.Request, d *fluxgate.Decision, cost int64, hold time.Duration) (end func()) {
	receipt, limiter := d.Receipt(), g.limiter
	ctx, stop := context.WithCancel(context.WithoutCancel(r.Context()))
	var renewing sync.WaitGroup
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
			if errors.Is(err, fluxgate.ErrNotHeld) {
				return // settled, or lost
			}
			if err != nil && ctx.Err() == nil {
				g.report(r, err)
			}
		}
	})
	return func() {
		stop()
		renewing.Wait()
		err := within(context.WithoutCancel(r.Context()), func(ctx context.Context) error {
			_, err := limiter.Settle(ctx, receipt, cost)
			return err
		})
		if err != nil && !errors.Is(err, fluxgate.ErrSettled) {
			g.report(r, err)
		}
	}
}

func within(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	return do(ctx)
}
