package fluxgate

import (
	"context"

	"github.com/fluxgate/fluxgate/store"
)

// Limiter decides requests: an [*Engine] in this process, or the client of
// package client, which calls a server.
type Limiter interface {
	// Check decides a request, and holds it if a rule says so. An error means
	// that there is no decision. The caller may reuse the request when Check
	// returns no error.
	Check(ctx context.Context, req *Request) (Decision, error)
	// Settle corrects the tokens taken for a request to its actual cost, under rules
	// that count requests. A cost of 0 withdraws the request.
	Settle(ctx context.Context, receipt *Receipt, actual int64) (store.Settlement, error)
	// SettleUsage corrects the tokens taken for a request to its actual usage, under
	// all rules, and returns the settlements by measure.
	SettleUsage(ctx context.Context, receipt *Receipt, usage *Usage) (map[string]store.Settlement, error)
	// Extend renews the slots that a receipt holds under limits on concurrent requests.
	// It returns ErrNotHeld or ErrPartlyHeld if slots are lost.
	Extend(ctx context.Context, receipt *Receipt) error
}

var _ Limiter = (*Engine)(nil)
