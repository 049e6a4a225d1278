package fluxgate

import (
	"context"
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// Decision is the answer to a [Request].
type Decision struct {
	// Allowed is whether the request may pass, after Wait.
	Allowed bool
	// Reason says why.
	Reason Reason
	// RuleID and Band name what binds: when allowed the band with the smallest
	// share of its capacity left, else the one with the longest wait. They are
	// empty if no band was evaluated.
	RuleID, Band string
	// Limit, Remaining and ResetAfter are the binding band's capacity, whole
	// tokens left and time until it is full; in the fallback, of its share.
	Limit, Remaining int64
	ResetAfter       time.Duration
	// Owed is how many tokens the binding band is in debt, as in [store.BandResult].
	Owed int64
	// RetryAfter is how long until a rejected request would fit; 0 if it
	// never will or it is not known.
	RetryAfter time.Duration
	// Wait is how long the request was held, or must be.
	Wait time.Duration
	// Time is the store's clock when it decided, or zero if it did not.
	Time time.Time
	// Source is which store gave the binding answer.
	Source store.Source
	// Degraded is set if the store could not decide every rule.
	Degraded bool

	// One of these has the bands and the receipt: evaluation if an engine of
	// this process decided, remote if a server did.
	evaluation *evaluation
	remote     *remote
}

// remote is what a server returned with the decision.
type remote struct {
	bands   []BandStatus
	receipt *Receipt
}

// NewDecision returns a decision that a server made, with its bands and its
// receipt. It is for clients.
func NewDecision(d Decision, bands []BandStatus, receipt *Receipt) Decision {
	d.evaluation, d.remote = nil, &remote{bands: bands, receipt: receipt}
	return d
}

// Reason is why a request was allowed or not.
type Reason string

// The reasons.
const (
	// ReasonOK means that every band that could be evaluated admitted it.
	ReasonOK Reason = "ok"
	// ReasonExempt means that a rule allows it without limit.
	ReasonExempt Reason = "exempt"
	// ReasonNoRule means that no rule applies, or shadow rules only.
	ReasonNoRule Reason = "no-rule"
	// ReasonNoRuleSet means that the rule set does not exist.
	ReasonNoRuleSet Reason = "no-rule-set"
	// ReasonLimited means that a band is empty.
	ReasonLimited Reason = "limited"
	// ReasonCostTooHigh means that the cost is above a band's capacity.
	ReasonCostTooHigh Reason = "cost-too-high"
	// ReasonDenied means that a rule denies it.
	ReasonDenied Reason = "denied"
	// ReasonBadPath means that the path cannot be matched: it has a "#" or a
	// "\\" that is not escaped, is an absolute URL, has more than 8,192 bytes or
	// 256 segments, or is ambiguous where [WithAmbiguousPaths] refuses that.
	ReasonBadPath Reason = "bad-path"
	// ReasonTooManyRules means that more than MaxMatches rules apply. It is a
	// refusal, not an error, because callers can cause it.
	ReasonTooManyRules Reason = "too-many-rules"
	// ReasonMissingIdentity means that a rule refuses requests without the
	// identity it counts by.
	ReasonMissingIdentity Reason = "missing-identity"
	// ReasonStoreFailure means that the store could not decide: the request
	// is refused if a rule fails closed, and otherwise allowed with no band
	// evaluated.
	ReasonStoreFailure Reason = "store-failure"
)

// BandStatus is one band of one rule that applied.
type BandStatus struct {
	Rule   *rules.Rule
	Band   *rules.Band
	Status store.Status
	Source store.Source
	// Cost is what the request asked of the rule, in its measure.
	Cost int64
	// Limit is the band's capacity.
	Limit int64
	// Remaining, Owed, Wait and FullAfter are as in [store.BandResult].
	store.BandResult
}

// Shadow reports whether the rule is only measured.
func (b *BandStatus) Shadow() bool { return b.Rule.Mode == rules.ModeShadow }

// Hold returns for how long the request holds slots of bands that limit how many
// requests there are at the same time, unless it is renewed, and whether it does.
// Such a decision must be settled when the request ends.
func (d *Decision) Hold() (hold time.Duration, ok bool) {
	if !d.Allowed || d.evaluation != nil && !slices.ContainsFunc(d.evaluation.rules, func(r appliedRule) bool { return r.slots }) {
		return 0, false
	}
	for b := range d.Bands() {
		if b.Band.Kind == rules.Concurrency && b.Status == store.OK && (!ok || b.Band.Hold < hold) {
			hold, ok = b.Band.Hold, true
		}
	}
	return hold, ok
}

// Bands are all bands that were evaluated, in the order of their rules. The
// rules and bands must not be changed.
func (d *Decision) Bands() iter.Seq[BandStatus] {
	return func(yield func(BandStatus) bool) {
		if d.remote != nil {
			for i := range d.remote.bands {
				if !yield(d.remote.bands[i]) {
					return
				}
			}
			return
		}
		if d.evaluation == nil {
			return
		}
		for i := range d.evaluation.rules {
			for j := range d.evaluation.outcome.Results[i].Bands {
				if !yield(d.evaluation.band(i, j)) {
					return
				}
			}
		}
	}
}

// Receipt is what [Engine.Settle] needs, or nil if nothing was taken.
func (d *Decision) Receipt() *Receipt {
	if d.remote != nil {
		return d.remote.receipt
	}
	if d.evaluation == nil || !d.Allowed {
		return nil
	}
	return d.evaluation.receipt()
}

// evaluation is the rules that limit a request, what it demands of them, and
// what the store answered. The bands and the receipt of a decision are computed
// from it on demand.
type evaluation struct {
	rules   []appliedRule
	demands []store.Demand
	outcome store.Outcome
	peek    bool
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

// newEvaluation returns an evaluation with room for so many rules. It is one
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

// decideIn calls a store with demands of the evaluation.
func (v *evaluation) decideIn(ctx context.Context, buckets store.Store, demands []store.Demand, out *store.Outcome) error {
	if v.peek {
		return buckets.Peek(ctx, demands, out)
	}
	return buckets.Take(ctx, demands, out)
}

// band is one band of one demand.
func (v *evaluation) band(i, j int) BandStatus {
	rule, result := v.rules[i], &v.outcome.Results[i]
	return BandStatus{
		Rule: rule.Rule, Band: &rule.Bands[j], Status: result.Status, Source: result.Source, Cost: v.demands[i].Cost,
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
