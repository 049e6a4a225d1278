package fluxgate

import (
	"context"
	"math"
	"slices"
	"time"
)

// standIn decides the demands that the store could not, each as its rule
// says. It returns the rule that fails closed, if one does, and whether there
// was anything that the store could not decide.
func (e *Engine) standIn(ctx context.Context, m *making, plan *plan) (failed *compiledRule, degraded bool) {
	if !m.outcome.Admitted {
		return nil, slices.ContainsFunc(m.outcome.Results, func(r Result) bool { return r.Status == Unavailable })
	}
	var local []int
	for i := range m.demands {
		if m.outcome.Results[i].Status != Unavailable {
			continue
		}
		degraded = true
		r := m.rules[i]
		switch mode := e.onFailureOf(r); {
		case r.shadow || mode == FailOpen || mode == FailLocal && e.fallback == nil:
		case mode == FailClosed:
			failed = r
		default:
			local = append(local, i)
		}
	}
	if failed == nil && len(local) > 0 {
		failed = e.takeLocally(ctx, m, plan, local)
	}
	if failed != nil || !m.outcome.Admitted {
		e.withdraw(ctx, m)
	}
	return failed, degraded
}

// takeLocally asks the fallback for the demands at these indices and puts its
// answers in their place.
func (e *Engine) takeLocally(ctx context.Context, m *making, plan *plan, indices []int) (failed *compiledRule) {
	demands := make([]Demand, len(indices))
	for k, i := range indices {
		m.demands[i].Bands = plan.rules[m.rules[i].index].local
		demands[k] = m.demands[i]
	}
	ask := e.fallback.Take
	if m.peek {
		ask = e.fallback.Peek
	}
	var out Outcome
	if err := ask(ctx, demands, &out); err != nil {
		if ctx.Err() == nil {
			e.storeFailed(ctx, err)
		}
		return m.rules[indices[0]]
	}
	for k, i := range indices {
		m.outcome.Results[i] = out.Results[k]
		m.outcome.Results[i].Source = FromFallback
	}
	m.outcome.Admitted = out.Admitted
	return nil
}

// withdraw gives back what the store has taken for a request that does not
// pass after all. The fallback was asked last and took nothing then.
func (e *Engine) withdraw(ctx context.Context, m *making) {
	if m.peek {
		return
	}
	taken := m.outcome
	taken.Admitted = true
	r := NewReceipt(m.demands, &taken)
	if r == nil {
		return
	}
	if part := r.from(false); len(part.Takes) > 0 {
		e.giveBack(ctx, part)
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

// shareOf is a band at a share of its capacity and rate, at least one token.
// Where the rate is below a token per period the period grows instead.
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
