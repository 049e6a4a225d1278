package plane

import (
	"context"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/store"
)

// Engine returns the current engine. It is nil before [Plane.Open].
func (p *Plane) Engine() *fluxgate.Engine { return p.engine.Load() }

// Check implements [fluxgate.Limiter].
func (p *Plane) Check(ctx context.Context, req *fluxgate.Request) (fluxgate.Decision, error) {
	return p.Engine().Check(ctx, req)
}

// CheckAll implements the limiter of Envoy's service.
func (p *Plane) CheckAll(
	ctx context.Context, reqs []fluxgate.Request,
) (fluxgate.Decision, []fluxgate.Decision, error) {
	return p.Engine().CheckAll(ctx, reqs)
}

// Refund implements the limiter of Envoy's service.
func (p *Plane) Refund(ctx context.Context, req *fluxgate.Request) (fluxgate.Decision, error) {
	return p.Engine().Refund(ctx, req)
}

// Settle implements [fluxgate.Limiter].
func (p *Plane) Settle(ctx context.Context, receipt *fluxgate.Receipt, actual int64) (store.Settlement, error) {
	return p.Engine().Settle(ctx, receipt, actual)
}

// SettleUsage implements [fluxgate.Limiter].
func (p *Plane) SettleUsage(
	ctx context.Context, receipt *fluxgate.Receipt, usage *fluxgate.Usage,
) (map[string]store.Settlement, error) {
	return p.Engine().SettleUsage(ctx, receipt, usage)
}

// Extend implements [fluxgate.Limiter].
func (p *Plane) Extend(ctx context.Context, receipt *fluxgate.Receipt) error {
	return p.Engine().Extend(ctx, receipt)
}
