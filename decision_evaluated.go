package fluxgate

import (
	"iter"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

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
