package fluxgate

import (
	"context"
	"math"
	"time"
)

// LevelSetter is a fallback [Store] whose buckets can be set to levels of the
// shared store.
type LevelSetter interface {
	// SetLevel sets a bucket set to the levels that the shared store reported
	// for a demand: it is full after the same time. Levels that are older than
	// those it has from the shared store change nothing. It is called after
	// every decision of the shared store, and must be fast.
	SetLevel(d *Demand, r *Result)
}

// GatewayCounter is a shared [Store] that counts the gateways that use it.
type GatewayCounter interface {
	// Gateways returns how many there were when the store was last available, or 0 if
	// gateways do not share it.
	Gateways() int
}

// Charger is a shared [Store] that may be charged before it decides again: after
// an outage it refuses calls with [ErrNotSent] for a while, until all gateways that
// use it can have charged what they granted without it.
type Charger interface {
	// Charge is Take, for tokens that were granted.
	Charge(ctx context.Context, demands []Demand, out *Outcome) error
}

// FallbackStats counts the tokens of the fallback since the engine was created.
type FallbackStats struct {
	// Admitted is how many tokens the fallback has granted.
	Admitted int64
	// Pending is how many of them are in buckets that the store was not charged
	// for yet. What refills until then is not charged.
	Pending int64
	// Charged is how many tokens the store was charged.
	Charged int64
	// Uncharged is how many tokens the store should have been charged and was
	// not, because the bucket was empty, the reply was lost, the bands have
	// changed, or too many buckets were in use.
	Uncharged int64
	// PendingSettlements is how many settlements wait until the store is available.
	PendingSettlements int64
	// LostSettlements is how many were lost: too many waited, their reply was lost, or it is
	// not known any more what was charged.
	LostSettlements int64
}

// FallbackStats returns the token counts of the fallback.
func (e *Engine) FallbackStats() FallbackStats {
	c := &e.carryover
	return FallbackStats{
		c.admitted.Load(), c.pending.Load(), c.charged.Load() / million, c.uncharged.Load() / million,
		c.waiting.Load(), c.unsettled.Load(),
	}
}

// applyFailureModes decides the demands that the store could not, by the
// failure modes of their rules. It returns the rule that fails closed, if one
// does, and whether any demand was undecided. Those in held stayed in the fallback.
func (e *Engine) applyFailureModes(ctx context.Context, v *evaluation, plan plan, held uint64) (failed *compiledRule, degraded bool) {
	var local []int
	for i := range v.demands {
		if v.outcome.Results[i].Status != Unavailable {
			continue
		}
		degraded = true
		r := v.rules[i]
		switch mode := e.onFailureOf(r); {
		case r.shadow || mode == FailOpen || mode == FailLocal && e.fallback == nil:
		case mode == FailClosed:
			failed = r
		default:
			local = append(local, i)
		}
	}
	if v.outcome.Admission != Undecided {
		return nil, degraded
	}
	rejected := false
	if failed == nil && len(local) > 0 {
		failed, rejected = e.takeFromFallback(ctx, v, plan, local, held)
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
func (e *Engine) takeFromFallback(ctx context.Context, v *evaluation, plan plan, indices []int, held uint64) (failed *compiledRule, rejected bool) {
	demands := make([]Demand, len(indices))
	share := e.fallbackShare()
	fits := false // an alternative, in the store: the others cannot reject any more
	for i := range v.demands {
		fits = fits || v.demands[i].Alternative && v.outcome.Results[i].Status == OK
	}
	for k, i := range indices {
		v.demands[i].Bands = plan.of(v.rules[i]).localBands(v.rules[i], share)
		if r := v.rules[i]; r.prices != nil && v.demands[i].Cost > 0 && !r.Overdraft && !r.CountRefused {
			v.demands[i].Cost = clampCost(v.demands[i].Cost, v.demands[i].Bands)
		}
		demands[k] = v.demands[i]
		demands[k].Shadow = demands[k].Shadow || demands[k].Alternative && fits
	}
	var out Outcome
	if err := v.decideIn(ctx, e.fallback, demands, &out); err != nil {
		if ctx.Err() == nil {
			e.storeFailed(ctx, err)
		}
		return v.rules[indices[0]], false
	}
	for k, i := range indices {
		v.outcome.Results[i] = out.Results[k]
		v.outcome.Results[i].Source = FromFallback
		if (out.Results[k].Granted > 0 || demands[k].Overdraft) && !v.peek {
			if e.carryover.took(&demands[k], v.rules[i].bands, &out.Results[k], held&(1<<i) != 0) {
				time.AfterFunc(chargeEvery, e.chargeStore)
			}
		}
	}
	return nil, out.Admission == NotAdmitted
}

// withdraw gives back what the store has taken for a request that is refused.
// The fallback is called last and has taken nothing.
func (e *Engine) withdraw(ctx context.Context, v *evaluation) {
	if v.peek {
		return
	}
	if r := Withdrawal(v.demands, &v.outcome); r != nil {
		e.giveBack(ctx, r)
	}
}

func (e *Engine) onFailureOf(r *compiledRule) OnFailure {
	if r.OnFailure == "" || r.OnFailure == FailLocal && e.fallback == nil {
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
func (e *Engine) fallbackShare() float64 {
	if e.share > 0 {
		return e.share
	}
	if counter, ok := e.store.(GatewayCounter); ok {
		return 1 / float64(max(1, counter.Gateways()))
	}
	return 1
}

// useFallback sets the fallback and its share, 0 for one that follows the number
// of gateways.
func (e *Engine) useFallback(s Store, share float64) {
	e.fallback, e.share = s, share
	e.levels, _ = s.(LevelSetter)
}

// shareOf is a band at a share of its capacity and rate, at least one token. If
// the rate is below a token per period the period grows instead.
func shareOf(b Band, share float64) Band {
	tokens := float64(b.Tokens()) * share
	b.Capacity = max(1, int64(float64(b.Capacity)*share))
	if b.Kind != "" && b.Kind != TokenBucket {
		return b
	}
	if tokens >= 1 {
		b.RefillTokens = int64(tokens)
		return b
	}
	period := math.Min(float64(b.Refill)/tokens, float64(366*24*time.Hour))
	b.RefillTokens, b.Refill = 1, time.Duration(period).Truncate(time.Microsecond)
	return b
}
