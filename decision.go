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
	// Allowed is whether the request is allowed, after Wait.
	Allowed bool
	// Reason is why the request is allowed or rejected.
	Reason Reason
	// RuleID and Band name the binding limit: of an allowed request the one with the
	// smallest share of its capacity left, of a rejected request the one with the
	// longest wait, where alternatives wait for the first of them. They are empty if no limit
	// was evaluated.
	RuleID, Band string
	// Limit, Remaining and ResetAfter are the capacity of the binding limit, its whole
	// remaining tokens, and the time until it is full. In the fallback they are of its share.
	Limit, Remaining int64
	ResetAfter       time.Duration
	// Owed is the debt of the binding limit in tokens, as in [store.BandResult].
	Owed int64
	// RetryAfter is the time until a rejected request would be allowed. It is 0 if that
	// is never or unknown.
	RetryAfter time.Duration
	// Wait is how long the request was held, or must be held.
	Wait time.Duration
	// Time is the store's clock at the decision. It is zero if the store did not decide.
	Time time.Time
	// Source is the store that decided the binding limit.
	Source store.Source
	// Degraded is set if the store did not decide at least one rule.
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

// Reason is why a request was allowed or rejected.
type Reason string

// The reasons.
const (
	// ReasonOK means that every limit that could be evaluated allows the request.
	ReasonOK Reason = "ok"
	// ReasonExempt means that a rule with the action allow allows the request without limit.
	ReasonExempt Reason = "exempt"
	// ReasonNoRule means that no rule applies, or only shadow rules apply.
	ReasonNoRule Reason = "no-rule"
	// ReasonNoRuleSet means that the rule set does not exist.
	ReasonNoRuleSet Reason = "no-rule-set"
	// ReasonLimited means that a limit has too few tokens left.
	ReasonLimited Reason = "limited"
	// ReasonCostTooHigh means that the cost is above the capacity of a limit.
	ReasonCostTooHigh Reason = "cost-too-high"
	// ReasonDenied means that a rule with the action deny rejects the request.
	ReasonDenied Reason = "denied"
	// ReasonBadPath means that the path cannot be matched: it has a "#" or a
	// "\\" that is not escaped, is an absolute URL, has more than 8,192 bytes or
	// 256 segments, or is ambiguous and [WithAmbiguousPaths] rejects that.
	ReasonBadPath Reason = "bad-path"
	// ReasonTooManyRules means that more than MaxMatches rules apply. It is a
	// rejection, not an error, because callers can cause it.
	ReasonTooManyRules Reason = "too-many-rules"
	// ReasonMissingIdentity means that a rule rejects requests without the
	// identity that it counts by.
	ReasonMissingIdentity Reason = "missing-identity"
	// ReasonStoreFailure means that the store could not decide. The request is
	// rejected if the failure mode of a rule is closed, or local and the fallback failed.
	// Otherwise it is allowed, and no limit was evaluated.
	ReasonStoreFailure Reason = "store-failure"
)

// BandStatus is the state of one limit (band) of a rule that applied.
type BandStatus struct {
	Rule   *rules.Rule
	Band   *rules.Band
	Status store.Status
	Source store.Source
	// Cost is the cost of the request under the rule, in the measure of the rule.
	Cost int64
	// Limit is the capacity of the band.
	Limit int64
	// Remaining, Owed, Wait, MoreAfter and FullAfter are as in [store.BandResult].
	store.BandResult
}

// Shadow reports whether the rule is only measured.
func (b *BandStatus) Shadow() bool { return b.Rule.Mode == rules.ModeShadow }

// Hold reports whether the request holds slots of limits on concurrent requests, and for
// how long unless they are renewed. Such a decision must be settled when the request
// ends. Hold returns false for a request with EndUnknown: its slots come back by themselves.
func (d *Decision) Hold() (hold time.Duration, ok bool) {
	holds := func(r appliedRule) bool { return r.slots }
	if v := d.evaluation; !d.Allowed || v != nil && (v.unended || !slices.ContainsFunc(v.rules, holds)) {
		return 0, false
	}
	for b := range d.Bands() {
		if b.Band.Kind == rules.Concurrency && b.Status == store.OK && (!ok || b.Band.Hold < hold) {
			hold, ok = b.Band.Hold, true
		}
	}
	return hold, ok
}

// Bands returns all limits that were evaluated, in the order of their rules. The
// caller must not change the rules and bands.
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
				if d.evaluation.asked(i, j) && !yield(d.evaluation.band(i, j)) {
					return
				}
			}
		}
	}
}

// Receipt returns the receipt for [Engine.Settle]. It is nil if nothing was taken.
func (d *Decision) Receipt() *Receipt {
	if d.remote != nil {
		return d.remote.receipt
	}
	if d.evaluation == nil || !d.Allowed {
		return nil
	}
	return d.evaluation.receipt()
}

// EvaluatedRule is the evaluation of one rule for a request.
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

// Evaluated returns the rules that an engine of this process evaluated, in their order,
// with the keys that they count in. It is for observers. req is the request of the
// decision. The caller must not change the rules.
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
