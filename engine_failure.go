package fluxgate

import (
	"context"
	"time"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// FallbackStats counts the tokens of the fallback since the engine was created.
type FallbackStats struct {
	// Admitted is how many tokens the fallback has granted.
	Admitted int64
	// Pending is how many of these tokens are not yet debited from the store. Tokens that
	// refill until then are not debited.
	Pending int64
	// Charged is how many of these tokens were debited from the store.
	Charged int64
	// Uncharged is how many of these tokens were not debited from the store, because the
	// bucket was empty, the reply was lost, the bands changed, too many buckets were in
	// use, or the store was closed.
	Uncharged int64
	// PendingSettlements is how many settlements wait until the store is available.
	PendingSettlements int64
	// LostSettlements is how many settlements were lost: too many waited, or for too long, the reply was lost,
	// the original charge is unknown, or the store was closed.
	LostSettlements int64
}

// FallbackStats returns the token counts of the fallback.
func (e *Engine) FallbackStats() FallbackStats {
	c := &e.carryover
	waiting, lost := e.unsent.Waiting(), e.unsent.Lost()
	if s, ok := e.store.(interface{ Unsent() (waiting, lost int64) }); ok { // what it gives back by itself
		more, moreLost := s.Unsent()
		waiting, lost = waiting+more, lost+moreLost
	}
	return FallbackStats{
		c.admitted.Load(), c.pending.Load(), c.charged.Load() / million, c.uncharged.Load() / million,
		waiting, c.unsettled.Load() + lost,
	}
}

// applyFailureModes decides the demands that the store could not, by the
// failure modes of their rules. It returns the rule that rejects the request, if one
// does, and whether any demand was undecided. Those in held stayed in the fallback.
func (e *Engine) applyFailureModes(ctx context.Context, v *evaluation, held uint64) (failed *keyedRule, degraded bool) {
	var local []int
	for i := range v.demands {
		if v.outcome.Results[i].Status != store.Unavailable {
			continue
		}
		degraded = true
		r := v.rules[i].keyedRule
		switch mode := e.onFailureOf(r); {
		case r.shadow || mode == rules.FailOpen || mode == rules.FailLocal && e.fallback == nil:
			// It stays Unavailable, which admits.
		case mode == rules.FailClosed:
			failed = r
		default:
			local = append(local, i)
		}
	}
	if v.outcome.Admission != store.Undecided {
		return nil, degraded
	}
	rejected := false
	if failed == nil && len(local) > 0 {
		failed, rejected = e.takeFromFallback(ctx, v, local, held)
	}
	if failed != nil || rejected {
		e.withdraw(ctx, v)
	}
	v.outcome.Decide(v.demands)
	return failed, degraded
}

// takeFromFallback decides the demands at these indices in the fallback,
// replaces their results, and reports whether it rejects the request. If it
// fails, failed is a rule that it could not decide.
func (e *Engine) takeFromFallback(ctx context.Context, v *evaluation, indices []int, held uint64) (failed *keyedRule, rejected bool) {
	demands := make([]store.Demand, len(indices))
	share := e.fallbackShare()
	fits := false // an alternative, in the store: the others cannot reject any more
	for i := range v.demands {
		fits = fits || v.demands[i].Alternative && v.outcome.Results[i].Status == store.OK
	}
	for k, i := range indices {
		v.demands[i].Bands = v.rules[i].localBands(share, e.store)
		if r := v.rules[i]; r.prices != nil && v.demands[i].Cost > 0 && !r.Overdraft && !r.CountRefused {
			v.demands[i].Cost = clampCost(v.demands[i].Cost, v.demands[i].Bands)
		}
		demands[k] = v.demands[i]
		demands[k].Shadow = demands[k].Shadow || demands[k].Alternative && fits
	}
	var out store.Outcome
	if err := v.decideIn(ctx, e.fallback, demands, &out); err != nil {
		if ctx.Err() == nil {
			e.storeFailed(ctx, err)
		}
		return v.rules[indices[0]].keyedRule, false
	}
	for k, i := range indices {
		v.outcome.Results[i] = out.Results[k]
		v.outcome.Results[i].Source = store.FromFallback
		if (out.Results[k].Granted > 0 || demands[k].Overdraft) && !v.peek {
			if e.carryover.took(&demands[k], v.rules[i].bands, &out.Results[k], held&(1<<i) != 0) {
				time.AfterFunc(chargeEvery, e.chargeStore)
			}
		}
	}
	return nil, out.Admission == store.NotAdmitted
}

// withdraw gives back what the store has taken for a request that is refused.
// The fallback is called last and has taken nothing.
func (e *Engine) withdraw(ctx context.Context, v *evaluation) {
	if v.peek {
		return
	}
	if takes := store.Withdrawal(v.demands, &v.outcome); len(takes) > 0 {
		e.giveBack(ctx, &Receipt{Takes: takes})
	}
}

func (e *Engine) onFailureOf(r *keyedRule) rules.OnFailure {
	if r.OnFailure == "" || r.OnFailure == rules.FailLocal && e.fallback == nil {
		return e.onFailure
	}
	return r.OnFailure
}

func (e *Engine) storeFailed(ctx context.Context, err error) {
	if e.observer != nil {
		e.observer.StoreFailed(ctx, err)
	}
}

// fallbackShare is the share of each band that the fallback applies.
func (e *Engine) fallbackShare() bucket.Share {
	if e.share != (bucket.Share{}) {
		return e.share
	}
	return bucket.OneOf(e.store.Gateways())
}
