package plane

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/server/warnings"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/lease"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

// Redis returns the store in Redis. It is nil until Redis answers, and if Redis is disabled.
func (p *Plane) Redis() *redisstore.Store {
	if s := p.shared.Load(); s != nil {
		return s.redis
	}
	return nil
}

// Failure returns why there is no store in Redis yet.
func (p *Plane) Failure() error {
	if err := p.failure.Load(); err != nil {
		return *err
	}
	return ErrNotConnected
}

// Began returns when the plane was created.
func (p *Plane) Began() time.Time { return p.began }

// Attrs returns the log attributes of Redis.
func (p *Plane) Attrs() []any {
	redis := p.Redis()
	if redis == nil {
		return nil
	}
	mode, nodes := redis.Servers()
	return []any{"redisMode", string(mode), "redisNodes", strings.Join(nodes, ",")}
}

// Health returns the health of Redis. It is empty until Redis answers.
func (p *Plane) Health(ctx context.Context) redisstore.Health {
	if redis := p.Redis(); redis != nil {
		return redis.Health(ctx)
	}
	return redisstore.Health{}
}

// LeaseStats counts the decisions without Redis. It is zero until Redis answers.
func (p *Plane) LeaseStats() lease.Stats {
	if s := p.shared.Load(); s != nil && s.leases != nil {
		return s.leases.Stats()
	}
	return lease.Stats{}
}

// counted returns how many servers Redis has counted, 0 if it has not yet.
func (p *Plane) counted() int {
	if redis := p.Redis(); redis != nil {
		return redis.Counted()
	}
	return 0
}

// Servers returns how many servers share Redis, 0 if unknown.
func (p *Plane) Servers() int { return cmp.Or(p.counted(), p.assumed) }

// FallbackStats returns the token counts of the engine. It is zero without an engine.
func (p *Plane) FallbackStats() fluxgate.FallbackStats {
	engine := p.Engine()
	if engine == nil {
		return fluxgate.FallbackStats{}
	}
	stats := engine.FallbackStats()
	if first := p.first.Load(); first != nil && first != engine {
		before := first.FallbackStats()
		stats.PendingSettlements += before.PendingSettlements
		stats.LostSettlements += before.LostSettlements
	}
	return stats
}

// Warnings returns the current store of warnings. It is nil until Redis has answered.
func (p *Plane) Warnings() warnings.Store {
	switch redis := p.Redis(); {
	case redis != nil:
		return redis
	case !p.config.Redis.Enabled:
		return p.local
	}
	return nil
}

// RecentWarnings returns the last warnings, newest first.
func (p *Plane) RecentWarnings(ctx context.Context, most int) ([]store.Warning, error) {
	if s := p.Warnings(); s != nil {
		return s.RecentWarnings(ctx, most)
	}
	return nil, ErrNotConnected
}

// Reset resets buckets in the current store. It is an error until Redis has answered.
func (p *Plane) Reset(ctx context.Context, what store.Reset) (did bool, err error) {
	switch s := p.shared.Load(); {
	case s != nil:
		return s.Reset(ctx, what)
	case !p.config.Redis.Enabled:
		return p.local.Reset(ctx, what)
	}
	return false, ErrNotConnected
}
