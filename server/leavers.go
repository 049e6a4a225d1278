package server

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/meter"
	"github.com/fluxgate/fluxgate/store"
)

// withdrawTimeout bounds giving back what was taken for a caller that has left.
const withdrawTimeout = time.Second

// leavers gives back what next takes for callers that leave before they get a decision. It
// does so in the goroutine of the request, which no caller waits for: at most as many as there
// are connections and calls.
type leavers struct {
	meter.Limiter
	count func() // of decisions that are withdrawn
}

// limiter is the limiter of requests of services and proxies.
func (a *App) limiter() *leavers {
	return &leavers{a.watch.metrics.Limiter(a.plane), a.watch.metrics.Withdrawn}
}

// Check implements [fluxgate.Limiter].
func (l *leavers) Check(ctx context.Context, req *fluxgate.Request) (fluxgate.Decision, error) {
	d, err := l.Limiter.Check(ctx, req)
	if err != nil || ctx.Err() == nil {
		return d, err
	}
	l.withdraw(ctx, &d)
	return fluxgate.Decision{}, ctx.Err()
}

// CheckAll implements the limiter of Envoy's service.
func (l *leavers) CheckAll(ctx context.Context, reqs []fluxgate.Request) (fluxgate.Decision, []fluxgate.Decision, error) {
	d, each, err := l.Limiter.CheckAll(ctx, reqs)
	if err != nil || ctx.Err() == nil {
		return d, each, err
	}
	l.withdraw(ctx, &d)
	return fluxgate.Decision{}, nil, ctx.Err()
}

// withdraw gives back what decisions have taken that their caller does not get. The observer
// of the engine is called with failures.
func (l *leavers) withdraw(ctx context.Context, decisions ...*fluxgate.Decision) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTimeout)
	defer cancel()
	var all sync.WaitGroup // they share calls of the store
	for _, d := range decisions {
		if receipt := withdrawal(d); receipt != nil {
			l.count()
			all.Go(func() { _, _ = l.Settle(ctx, receipt, 0) })
		}
	}
	all.Wait()
}

// withdrawal is the receipt of a decision without what stays taken, nil if nothing is left. Rules
// with overdraft, and those that count refused requests, count what has happened already: a
// proxy that reports it does not wait for the answer.
func withdrawal(d *fluxgate.Decision) *fluxgate.Receipt {
	receipt := d.Receipt()
	if receipt == nil {
		return nil
	}
	var stays []store.Key
	for r := range d.Evaluated(nil) {
		if r.Rule.Overdraft || r.Rule.CountRefused {
			stays = append(stays, r.Key)
		}
	}
	if stays == nil {
		return receipt
	}
	rest := new(fluxgate.Receipt)
	for i := range receipt.Takes {
		if t := &receipt.Takes[i]; !slices.Contains(stays, t.Key) {
			rest.Takes, rest.Prices = append(rest.Takes, *t), append(rest.Prices, receipt.Price(i))
		}
	}
	if len(rest.Takes) == 0 {
		return nil
	}
	return rest
}
