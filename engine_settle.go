package fluxgate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// ErrSettled is returned for a receipt that was settled before. A second settlement
// would give tokens back twice.
var ErrSettled = errors.New("the receipt is already settled")

// detachedTimeout bounds calls to the store that do not end with the request.
const detachedTimeout = time.Second

// outlasting returns a context that ends detachedTimeout after another one: for a receipt that is
// used up, although the client may have disconnected.
func outlasting(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(detachedTimeout, cancel) })
	return longer, func() {
		stop()
		cancel()
	}
}

// Settle corrects the tokens taken for a request to its actual cost, under all rules
// that count requests. Other rules keep their estimates: see [Engine.SettleUsage]. A
// cost of 0 withdraws the request under all rules. A nil receipt, of a decision that
// took nothing, settles nothing. For a receipt that this engine cannot settle the
// error wraps ErrReceipt. A receipt can be settled once, even if that fails: the
// store may have settled it. Settling does not end with ctx, since the client may have
// disconnected: it ends at most a second later.
func (e *Engine) Settle(ctx context.Context, receipt *Receipt, actual int64) (store.Settlement, error) {
	if err := checkCost(actual); err != nil && receipt != nil {
		return store.Settlement{}, err
	}
	settled, err := e.settleEach(ctx, receipt, receipt.costs(func(t *store.Taken, price *Price) int64 {
		if price != nil && actual > 0 {
			return t.Cost
		}
		return actual
	}))
	return mergeMeasure(receipt, settled, rules.MeasureRequests), err
}

// SettleUsage corrects the tokens taken for a request to its actual usage: tokens of a
// language model by the weights of its estimate, and other measures by their costs.
// Measures that are not in the usage keep their estimates. It returns the settlements by
// measure. Otherwise it is [Engine.Settle].
func (e *Engine) SettleUsage(ctx context.Context, receipt *Receipt, usage *Usage) (map[string]store.Settlement, error) {
	if err := usage.Check(); err != nil {
		return nil, err
	}
	each, err := e.settleEach(ctx, receipt, receipt.costs(usage.costOf))
	settled := map[string]store.Settlement{}
	for i := range each {
		measure := receipt.Price(i).measure()
		settled[measure] = mergeMeasure(receipt, each, measure)
	}
	return settled, err
}

// settleEach settles each take at its own cost.
func (e *Engine) settleEach(ctx context.Context, receipt *Receipt, actual []int64) ([]store.Settlement, error) {
	if receipt == nil {
		return nil, nil
	}
	if err := e.checkReceipt(receipt, actual); err != nil {
		return nil, err
	}
	if !receipt.Spend() {
		return nil, ErrSettled
	}
	ctx, cancel := outlasting(ctx)
	defer cancel()
	settled, err := e.decider.Settle(ctx, receipt.Takes, actual)
	if e.observer != nil {
		e.observer.Settled(ctx, mergeMeasure(receipt, settled, rules.MeasureRequests), err)
	}
	return settled, err
}

// checkReceipt refuses a receipt of which this engine could not settle a part.
func (e *Engine) checkReceipt(receipt *Receipt, actual []int64) error {
	if err := receipt.check(actual); err != nil {
		return err
	}
	if e.fallback == nil && slices.ContainsFunc(receipt.Takes, fromFallback) {
		return fmt.Errorf("%w: a fallback made the decision, and this engine has no fallback", ErrReceipt)
	}
	return nil
}

func fromFallback(t store.Taken) bool { return t.Source == store.FromFallback }

// ErrNotHeld is returned for a receipt that holds no slots, or has lost some of them: it
// was settled, or renewed too late. Other requests may hold the lost slots.
var ErrNotHeld = errors.New("the receipt does not hold its slots")

// ErrPartlyHeld wraps ErrNotHeld. The receipt has lost the slots of some rules. The slots
// of other rules are renewed.
var ErrPartlyHeld = fmt.Errorf("%w of some rules; the others are renewed", ErrNotHeld)

// Extend renews the slots that a receipt holds under limits on concurrent requests, each
// for the hold time of its limit from now. Call it before the slots expire while a request
// runs, also after ErrPartlyHeld.
func (e *Engine) Extend(ctx context.Context, receipt *Receipt) error {
	if err := e.checkReceipt(receipt, receipt.costs(func(*store.Taken, *Price) int64 { return 0 })); err != nil {
		return err
	}
	slots := slices.DeleteFunc(slices.Clone(receipt.Takes), func(t store.Taken) bool { return !t.HoldsSlot() })
	if len(slots) == 0 {
		return ErrNotHeld
	}
	each, err := e.decider.Extend(ctx, slots)
	switch lost := slices.Contains(each, false); {
	case err != nil:
		return err
	case !slices.Contains(each, true):
		return ErrNotHeld
	case lost:
		return ErrPartlyHeld
	}
	return nil
}

// mergeMeasure merges the settlements of the takes that were counted in a measure.
func mergeMeasure(receipt *Receipt, each []store.Settlement, measure string) store.Settlement {
	var of []store.Settlement
	for i := range each {
		if receipt.Price(i).measure() == measure {
			of = append(of, each[i])
		}
	}
	return store.MergeSettlements(of)
}

// giveBack settles a receipt at 0 for a request that is refused, also after its
// context ended. The observer is called with failures.
func (e *Engine) giveBack(ctx context.Context, receipt *Receipt) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), detachedTimeout)
	defer cancel()
	_, _ = e.Settle(ctx, receipt, 0)
}
