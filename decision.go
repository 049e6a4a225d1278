package fluxgate

import (
	"iter"
	"slices"
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

// EvaluatedRule is how one rule was evaluated for a request.
type EvaluatedRule struct {
	Rule *rules.Rule
	// Key names the bucket set that the request counts in.
	Key    store.Key
	Status store.Status
	Source store.Source
	// Wait is as in [store.Result].
	Wait time.Duration

	compiled *keyedRule
	req      *Request
}

// Shadow reports whether the rule is only measured.
func (r *EvaluatedRule) Shadow() bool { return r.Rule.Mode == rules.ModeShadow }

// Evaluated are the rules that were evaluated by an engine of this process, in their
// order, with the keys that they count in. It is for observers: req is the request of the
// decision. The rules must not be changed.
func (d *Decision) Evaluated(req *Request) iter.Seq[EvaluatedRule] {
	return func(yield func(EvaluatedRule) bool) {
		v := d.evaluation
		if v == nil {
			return
		}
		for i := range v.outcome.Results {
			result, of := &v.outcome.Results[i], req
			if v.reqs != nil {
				of = v.reqs[i]
			}
			if !yield(EvaluatedRule{
				Rule: v.rules[i].Rule, Key: v.demands[i].Key, Status: result.Status, Source: result.Source, Wait: result.Wait,
				compiled: v.rules[i].keyedRule, req: of,
			}) {
				return
			}
		}
	}
}
