package fluxgate

import (
	"context"
	"math"
	"time"
)

// applyFailureModes decides the demands that the store could not, by the
// failure modes of their rules. It returns the rule that fails closed, if one
// does, and whether any demand was undecided.
func (e *Engine) applyFailureModes(ctx context.Context, v *evaluation, plan plan) (failed *compiledRule, degraded bool) {
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
		failed, rejected = e.takeFromFallback(ctx, v, plan, local)
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
func (e *Engine) takeFromFallback(ctx context.Context, v *evaluation, plan plan, indices []int) (failed *compiledRule, rejected bool) {
	demands := make([]Demand, len(indices))
	share := e.fallbackShare()
	for k, i := range indices {
		v.demands[i].Bands = plan[v.rules[i].index].localBands(v.rules[i], share)
		demands[k] = v.demands[i]
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
		if out.Results[k].Granted > 0 && !v.peek {
			e.carryover.took(&demands[k], v.rules[i].bands, &out.Results[k])
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
	for i := range v.demands {
		if !v.demands[i].Overdraft {
			v.outcome.Results[i].Granted = 0
		}
	}
}

func (e *Engine) onFailureOf(r *compiledRule) OnFailure {
	if r.OnFailure == "" {
		return e.onFailure
	}
	return r.OnFailure
}

func (e *Engine) storeFailed(ctx context.Context, err error) {
	if e.observer != nil {
		e.observer.StoreFailed(ctx, err)
	}
}

// shareOf is a band at a share of its capacity and rate, at least one token. If
// the rate is below a token per period the period grows instead.
func shareOf(b Band, share float64) Band {
	tokens := float64(b.Tokens()) * share
	b.Capacity = max(1, int64(float64(b.Capacity)*share))
	if tokens >= 1 {
		b.RefillTokens = int64(tokens)
		return b
	}
	period := math.Min(float64(b.Refill)/tokens, float64(366*24*time.Hour))
	b.RefillTokens, b.Refill = 1, time.Duration(period).Truncate(time.Microsecond)
	return b
}
