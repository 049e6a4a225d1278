package meter

import (
	"context"
	"time"

	"github.com/fluxgate/fluxgate"
)

// Limiter decides requests: a [*fluxgate.Engine], or a wrapper of one.
type Limiter interface {
	fluxgate.Limiter
	CheckAll(ctx context.Context, reqs []fluxgate.Request) (fluxgate.Decision, []fluxgate.Decision, error)
	Refund(ctx context.Context, req *fluxgate.Request) (fluxgate.Decision, error)
}

// Limiter measures how long next takes to decide.
func (m *Meter) Limiter(next Limiter) Limiter { return &timedLimiter{next, m} }

type timedLimiter struct {
	Limiter
	meter *Meter
}

// Check implements [fluxgate.Limiter].
func (t *timedLimiter) Check(ctx context.Context, req *fluxgate.Request) (fluxgate.Decision, error) {
	start, peek := time.Now(), req.Peek
	d, err := t.Limiter.Check(ctx, req)
	t.observe(start, &d, d.Allowed && !peek, err)
	return d, err
}

// CheckAll implements [Limiter].
func (t *timedLimiter) CheckAll(
	ctx context.Context, reqs []fluxgate.Request,
) (fluxgate.Decision, []fluxgate.Decision, error) {
	start := time.Now()
	d, each, err := t.Limiter.CheckAll(ctx, reqs)
	t.observe(start, &d, true, err)
	return d, each, err
}

// observe notes the time to decide, without what fluxgate_wait_seconds has if the request was
// held. That of an error is how long the caller waited.
func (t *timedLimiter) observe(start time.Time, d *fluxgate.Decision, held bool, err error) {
	spent := time.Since(start)
	if held {
		spent -= d.Wait
	}
	if err == nil {
		t.meter.seconds.Observe(max(0, spent).Seconds())
	}
}
