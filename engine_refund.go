package fluxgate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/store"
)

// Refund gives back the cost of a request under all rules that apply to it, without a
// receipt. No bucket gets more than its capacity. Tokens given back this way may exceed
// the limit: without a receipt nothing proves that they were taken before. A sliding
// window gets back only what was used in its last sixteenth, and slots of limits on
// concurrent requests are not released.
//
// The decision has the bands after the refund. While the store is unavailable, Refund
// returns an error and gives nothing back.
func (e *Engine) Refund(ctx context.Context, req *Request) (Decision, error) {
	set, err := e.ruleSetOf(ctx, req)
	if err != nil {
		return Decision{}, err
	}
	if set.Compiled == nil {
		return e.noRuleSetDecision(), nil
	}
	t := together{v: newEvaluation(1)}
	p := part{}
	if err := e.addPart(ctx, req, set, &t, &p); err != nil || p.decided {
		return p.decision, err
	}
	v := t.v
	costs := make([]int64, len(v.demands))
	for i := range v.demands {
		v.demands[i].Overdraft, v.demands[i].MaxWait = false, 0
		costs[i] = min(v.demands[i].Cost, mostUsed(&v.demands[i]))
		v.demands[i].Cost = 0
	}
	v.peek = true
	look := func() error {
		if err := e.store.Peek(ctx, v.demands, &v.outcome); err != nil {
			return err
		}
		if slices.ContainsFunc(v.outcome.Results, func(r store.Result) bool { return r.Status == store.Unavailable }) {
			return errors.New("a part of the store is unavailable")
		}
		return nil
	}
	if err := look(); err != nil {
		return Decision{}, fmt.Errorf("giving back: %w", err)
	}
	takes, actual := v.refund(costs)
	settled, err := e.store.Settle(ctx, takes, actual)
	err = store.SettleError(settled, err) // it is not sent later: what is used then is not known
	if e.observer != nil {
		e.observer.Settled(ctx, store.MergeSettlements(settled), err)
	}
	if err == nil {
		err = look()
	}
	if err != nil {
		return Decision{}, fmt.Errorf("giving back: %w", err)
	}
	return e.decisionOf(&t, &p, &Decision{Allowed: true}), nil
}

// refund returns takes as if these costs and the capacity had been taken now, and the costs to
// settle them at: the capacity, so that the costs come back. What refills until then reduces
// only what was added.
func (v *evaluation) refund(costs []int64) (store.Takes, []int64) {
	takes, actual := make(store.Takes, len(costs)), make([]int64, len(costs))
	for i := range v.demands {
		d, result := &v.demands[i], &v.outcome.Results[i]
		rest := capacityOf(d.Bands)
		taken := store.Taken{
			Key: d.Key, Bands: d.Bands, Cost: costs[i] + rest, Asked: costs[i] + rest,
			Source: store.FromStore, At: result.Now, Due: make([]int64, len(d.Bands)),
		}
		for j := range d.Bands {
			taken.Due[j] = d.Due(j, result)
		}
		takes[i], actual[i] = taken, rest
	}
	return takes, actual
}

// mostUsed is the most that a demand may have to get back. A quota that counts refused
// requests counts more than its capacity.
func mostUsed(d *store.Demand) int64 {
	if d.CountsRefused() {
		return d.Bands[0].Max
	}
	return capacityOf(d.Bands)
}

// capacityOf is the most that any of the bands holds, except slots.
func capacityOf(bands []store.ExactBand) (most int64) {
	for i := range bands {
		if !bucket.IsConcurrency(bands[i]) {
			most = max(most, bands[i].Capacity)
		}
	}
	return most
}
