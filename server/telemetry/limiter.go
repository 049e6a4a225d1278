package telemetry

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/store"
)

// Limiter measures how long next takes to decide.
func (m *Metrics) Limiter(next fluxgate.Limiter) fluxgate.Limiter {
	return &timed{next: next, seconds: m.seconds}
}

type timed struct {
	next    fluxgate.Limiter
	seconds prometheus.Observer
}

// Check implements [fluxgate.Limiter].
func (t *timed) Check(ctx context.Context, req *fluxgate.Request) (fluxgate.Decision, error) {
	start, peek := time.Now(), req.Peek
	d, err := t.next.Check(ctx, req)
	if err != nil {
		return d, err // its duration is how long the caller waited
	}
	spent := time.Since(start)
	if d.Allowed && !peek {
		spent -= d.Wait // it was held: that is fluxgate_wait_seconds
	}
	t.seconds.Observe(max(0, spent).Seconds())
	return d, nil
}

// Settle implements [fluxgate.Limiter].
func (t *timed) Settle(ctx context.Context, receipt *fluxgate.Receipt, actual int64) (store.Settlement, error) {
	return t.next.Settle(ctx, receipt, actual)
}

// SettleUsage implements [fluxgate.Limiter].
func (t *timed) SettleUsage(ctx context.Context, receipt *fluxgate.Receipt, usage *fluxgate.Usage) (map[string]store.Settlement, error) {
	return t.next.SettleUsage(ctx, receipt, usage)
}

// Extend implements [fluxgate.Limiter].
func (t *timed) Extend(ctx context.Context, receipt *fluxgate.Receipt) error {
	return t.next.Extend(ctx, receipt)
}
