package fluxgate

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// ErrReceipt is wrapped by errors about a receipt that cannot be settled here, such
// as the receipt of another process. Nothing was settled, and the receipt is not
// used up.
var ErrReceipt = errors.New("the receipt cannot be settled here")

// Receipt records the tokens taken for a request. It can be settled once.
type Receipt struct {
	// Takes are the bucket sets that were taken from.
	Takes store.Takes
	// Prices are the prices of the takes, one for each. A nil price means that requests are
	// counted. Prices is empty if all are nil.
	Prices []*Price
	// Token is the receipt of a decision of a server. Only the server can read it: settle
	// it with the client of that server.
	Token string

	settled atomic.Bool
}

// Price is the measure and weights of a take. They are used again when it is settled.
type Price struct {
	Measure string
	// Weights are nil if the measure has no cost table.
	Weights *rules.Weights
}

// Spend marks the receipt as settled. It returns false if it was settled already.
func (r *Receipt) Spend() bool { return r.settled.CompareAndSwap(false, true) }

// Price returns the price of take i. It is nil if requests are counted.
func (r *Receipt) Price(i int) *Price {
	if i < len(r.Prices) {
		return r.Prices[i]
	}
	return nil
}

// costs is one actual cost for each take: what cost returns for it.
func (r *Receipt) costs(cost func(*store.Taken, *Price) int64) []int64 {
	if r == nil {
		return nil
	}
	all := make([]int64, len(r.Takes))
	for i := range r.Takes {
		all[i] = cost(&r.Takes[i], r.Price(i))
	}
	return all
}

// check refuses a receipt that no engine can settle at these costs.
func (r *Receipt) check(actual []int64) error {
	switch {
	case r != nil && len(r.Takes) == 0 && r.Token != "":
		return fmt.Errorf("%w: a server made the decision; settle it with the client of that server", ErrReceipt)
	case r == nil || len(r.Takes) == 0:
		return fmt.Errorf("%w: it names no bucket", ErrReceipt)
	}
	if err := store.CheckTakes(r.Takes, actual); err != nil {
		return fmt.Errorf("%w: %w", ErrReceipt, err)
	}
	return nil
}
