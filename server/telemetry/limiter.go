package telemetry

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fluxgate/fluxgate"
)

// Limiter measures how long next takes to decide.
func (m *Metrics) Limiter(next fluxgate.Limiter) fluxgate.Limiter {
	return &timed{Limiter: next, seconds: m.seconds}
}

type timed struct {
	fluxgate.Limiter
	seconds prometheus.Observer
}

// Check implements [fluxgate.Limiter].
func (t *timed) Check(ctx context.Context, req *fluxgate.Request) (fluxgate.Decision, error) {
	start, peek := time.Now(), req.Peek
	d, err := t.Limiter.Check(ctx, req)
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
