package fluxgate

import (
	"context"
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/store"
)

// evaluation is the rules that limit a request, what it demands of them, and
// what the store answered. The bands and the receipt of a decision are computed
// from it on demand.
type evaluation struct {
	rules   []appliedRule
	demands []store.Demand
	outcome store.Outcome
	peek    bool
	warns   bool // one of the rules does
	// unended means that the end of a request will not be reported.
	unended bool
	// reqs are the requests of the demands, if there are several: see [Engine.CheckAll].
	reqs []*Request

	taken atomic.Pointer[Receipt]
}

// appliedRule is a rule that limits a request, and how it counts the request: nil is a number of
// requests.
type appliedRule struct {
	*keyedRule
	price *Price
}

// newEvaluation returns an evaluation with room for one rule or for three. It is one
// allocation for the usual number of rules and bands, and as small as possible:
// it is most of the garbage of a request.
func newEvaluation(rules int) *evaluation {
	if rules == 1 {
		v := new(struct {
			evaluation
			rules   [1]appliedRule
			demands [1]store.Demand
			results [1]store.Result
			bands   [2]store.BandResult
		})
		return v.use(v.rules[:0], v.demands[:0], v.results[:0], v.bands[:0])
	}
	v := new(struct {
		evaluation
		rules   [3]appliedRule
		demands [3]store.Demand
		results [3]store.Result
		bands   [6]store.BandResult
	})
	return v.use(v.rules[:0], v.demands[:0], v.results[:0], v.bands[:0])
}

func (v *evaluation) use(rules []appliedRule, demands []store.Demand, results []store.Result, bands []store.BandResult) *evaluation {
	v.rules, v.demands = rules, demands
	v.outcome.Reuse(results, bands)
	return v
}

// decideIn calls a store with the demands of the evaluation.
func (v *evaluation) decideIn(ctx context.Context, buckets store.Store) error {
	if v.peek {
		return buckets.Peek(ctx, v.demands, &v.outcome)
	}
	return buckets.Take(ctx, v.demands, &v.outcome)
}

// degraded reports whether the store did not decide a demand.
func (v *evaluation) degraded() bool {
	return slices.ContainsFunc(v.outcome.Results, func(r store.Result) bool {
		return r.Status == store.Unavailable || r.Source == store.FromFallback
	})
}

// undecided returns the rule that refuses the request because the store could not decide it, or
// nil. A rejection comes before it.
func (v *evaluation) undecided() (failed *keyedRule) {
	for range v.rejecting() {
		return nil
	}
	for i := range v.demands {
		d := &v.demands[i]
		if v.outcome.Results[i].Status == store.Unavailable && !d.Shadow && d.OnFailure != store.FailOpen &&
			(failed == nil || d.OnFailure == store.FailClosed) {
			failed = v.rules[i].keyedRule
		}
	}
	return failed
}

// band is one band of one demand.
func (v *evaluation) band(i, j int) BandStatus {
	rule, result := v.rules[i], &v.outcome.Results[i]
	return BandStatus{
		Rule: rule.Rule, Band: &rule.shown[j], Status: result.Status, Source: result.Source, Cost: v.demands[i].Cost,
		Limit: v.demands[i].Bands[j].Capacity, BandResult: result.Bands[j],
	}
}

// receipt returns the same receipt on every call, so that it is settled once.
func (v *evaluation) receipt() *Receipt {
	if v.peek {
		return nil
	}
	if v.taken.Load() == nil {
		if takes := store.NewTakes(v.demands, &v.outcome); len(takes) > 0 {
			v.taken.CompareAndSwap(nil, &Receipt{Takes: takes, Prices: v.prices(len(takes))})
		}
	}
	return v.taken.Load()
}

// prices are those of n takes, or nil if all are numbers of requests.
func (v *evaluation) prices(n int) []*Price {
	if !slices.ContainsFunc(v.rules, func(r appliedRule) bool { return r.price != nil }) {
		return nil
	}
	prices := make([]*Price, 0, n)
	for i := range v.rules {
		if v.outcome.Results[i].Granted != 0 {
			prices = append(prices, v.rules[i].price)
		}
	}
	return prices
}

// decision returns the decision for the outcome.
func (v *evaluation) decision() Decision {
	d := Decision{evaluation: v}
	if v.outcome.Admission != store.NotAdmitted {
		d.Allowed, d.Reason = true, ReasonOK
		v.clearDebtWaits()
		v.bindAllowed(&d)
	} else if failed := v.undecided(); failed != nil {
		d.Reason, d.RuleID = ReasonStoreFailure, failed.ID
	} else {
		v.bindRejected(&d)
	}
	return d
}

// clearDebtWaits removes the waits that overdrafts of an allowed request leave to the next one.
func (v *evaluation) clearDebtWaits() {
	for i := range v.demands {
		if v.demands[i].Overdraft && v.outcome.Results[i].Status == store.OK {
			for j := range v.outcome.Results[i].Bands {
				v.outcome.Results[i].Bands[j].Wait = 0
			}
		}
	}
}

// bindAllowed names the band with the smallest share left, and the longest wait
// until all tokens are due. If nothing was taken it names the band that would
// have the smallest share left, so that a peek and a take agree.
func (v *evaluation) bindAllowed(d *Decision) {
	smallest := 2.0
	for i := range v.demands {
		result := &v.outcome.Results[i]
		if v.demands[i].Shadow || result.Status != store.OK {
			continue
		}
		d.Wait = max(d.Wait, result.Wait)
		for j := range result.Bands {
			if !v.asked(i, j) {
				continue
			}
			left := result.Bands[j].Remaining
			if v.peek {
				left = max(0, left-result.Granted)
			}
			share := float64(left) / float64(v.demands[i].Bands[j].Capacity)
			if share < smallest {
				smallest = share
				v.bind(d, i, j)
			}
		}
	}
	if d.RuleID == "" && !v.decidedAny() {
		d.Reason = ReasonStoreFailure
	}
}

// asked reports whether demand i asks for a token of band j: one without a holder asks for no
// slot.
func (v *evaluation) asked(i, j int) bool {
	return v.demands[i].Holder != store.HolderID{} || v.demands[i].Bands[j].Kind != bucket.Concurrency
}

// decidedAny reports whether a store has decided an enforced rule.
func (v *evaluation) decidedAny() bool {
	for i := range v.demands {
		if !v.demands[i].Shadow && v.outcome.Results[i].Status == store.OK {
			return true
		}
	}
	return false
}

// rejecting returns the demands that reject the request. Of alternatives it is one: the
// request fits again when the first of them does.
func (v *evaluation) rejecting() iter.Seq[int] {
	return func(yield func(i int) bool) {
		alternative := v.overAlternative()
		for i := range v.demands {
			over := !v.demands[i].Shadow && isOver(v.outcome.Results[i].Status)
			if over && (!v.demands[i].Alternative || i == alternative) && !yield(i) {
				return
			}
		}
	}
}

// overAlternative returns the alternative that fits first, or -1 if not all of them are over.
func (v *evaluation) overAlternative() int {
	first := -1
	for i := range v.demands {
		if !v.demands[i].Alternative || v.demands[i].Shadow {
			continue
		}
		result := &v.outcome.Results[i]
		if !isOver(result.Status) {
			return -1
		}
		if first < 0 || result.Status == store.Rejected &&
			(v.outcome.Results[first].Status == store.TooCostly || result.Wait < v.outcome.Results[first].Wait) {
			first = i
		}
	}
	return first
}

func isOver(s store.Status) bool { return s == store.Rejected || s == store.TooCostly }

// bindRejected names the band with the longest wait. A band that the cost can
// never fit comes before all others.
func (v *evaluation) bindRejected(d *Decision) {
	d.Reason = ReasonLimited
	longest := time.Duration(-1)
	for i := range v.rejecting() {
		demand, result := &v.demands[i], &v.outcome.Results[i]
		for j := range result.Bands {
			if result.Status == store.TooCostly && demand.Minimum() > demand.Bands[j].Capacity {
				d.Reason, d.RetryAfter = ReasonCostTooHigh, 0
				v.bind(d, i, j)
				return
			}
			if wait := result.Bands[j].Wait; result.Status == store.Rejected && wait > longest {
				longest = wait
				v.bind(d, i, j)
				d.RetryAfter = wait
			}
		}
	}
	d.RetryAfter = max(d.RetryAfter, v.debitedFor())
}

// debitedFor returns how long overdrafts that fitted refuse the next request: they are debited
// although others have rejected this one.
func (v *evaluation) debitedFor() (longest time.Duration) {
	for i := range v.demands {
		if result := &v.outcome.Results[i]; v.demands[i].Overdraft && !v.demands[i].Shadow && result.Status == store.OK {
			for j := range result.Bands {
				longest = max(longest, result.Bands[j].Wait)
			}
		}
	}
	return longest
}

func (v *evaluation) bind(d *Decision, i, j int) {
	rule, result := v.rules[i], &v.outcome.Results[i]
	d.RuleID, d.Band, d.Source = rule.ID, rule.names[j], result.Source
	d.Limit = v.demands[i].Bands[j].Capacity
	d.Remaining, d.Owed = result.Bands[j].Remaining, result.Bands[j].Owed
	d.ResetAfter = result.Bands[j].FullAfter
	d.Time = time.UnixMicro(result.Now)
}
