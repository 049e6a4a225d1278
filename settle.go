package fluxgate

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrSettled is returned for a receipt that was settled before: settling it
// again would hand out tokens twice.
var ErrSettled = errors.New("the receipt is already settled")

// giveBackTimeout bounds giving back for a caller that is gone.
const giveBackTimeout = time.Second

// Settle corrects what was taken for a request to the cost that is known now,
// such as bytes sent or model tokens used. A cost of 0 withdraws it. A nil
// receipt, which is that of a decision for which nothing was taken, settles
// nothing. A receipt that this engine cannot settle is an error that wraps
// ErrReceipt. A receipt can be settled once, and one that failed is not settled
// again: it may have been.
func (e *Engine) Settle(ctx context.Context, receipt *Receipt, actual int64) (Settlement, error) {
	if receipt == nil {
		return Settlement{}, nil
	}
	if actual < 0 {
		return Settlement{}, ErrCost
	}
	if err := e.checkReceipt(receipt, actual); err != nil {
		return Settlement{}, err
	}
	if !receipt.Spend() {
		return Settlement{}, ErrSettled
	}
	s, err := e.settle(ctx, receipt, actual)
	if e.observer != nil {
		e.observer.Settled(ctx, s, err)
	}
	return s, err
}

// checkReceipt refuses a receipt of which this engine could not settle a part.
func (e *Engine) checkReceipt(receipt *Receipt, actual int64) error {
	if err := CheckReceipt(receipt, actual); err != nil {
		return err
	}
	if e.fallback == nil && len(receipt.from(true).Takes) > 0 {
		return fmt.Errorf("%w: a fallback store made the decision, and this engine has none", ErrReceipt)
	}
	return nil
}

func (e *Engine) settle(ctx context.Context, receipt *Receipt, actual int64) (Settlement, error) {
	var parts []Settlement
	var failures []error
	for _, fallback := range []bool{false, true} {
		store := e.store
		if fallback {
			store = e.fallback
		}
		part := receipt.from(fallback)
		if len(part.Takes) == 0 {
			continue
		}
		s, err := store.Settle(ctx, part, actual)
		if err != nil {
			failures = append(failures, err)
		}
		parts = append(parts, s)
	}
	return Least(parts...), errors.Join(failures...)
}

// Least is the settlement of the part that moved least.
func Least(parts ...Settlement) Settlement {
	if len(parts) == 0 {
		return Settlement{}
	}
	least := parts[0]
	for _, s := range parts[1:] {
		least.Returned = min(least.Returned, s.Returned)
		least.Charged = min(least.Charged, s.Charged)
	}
	return least
}

// giveBack settles a receipt at 0 for a request that does not pass after all,
// also when its caller is gone. The observer hears of failures.
func (e *Engine) giveBack(ctx context.Context, receipt *Receipt) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTimeout)
	defer cancel()
	_, _ = e.Settle(ctx, receipt, 0)
}
