package fluxgate

import (
	"time"

	"github.com/fluxgate/fluxgate/store"
)

// decision returns the decision for the outcome, after failure modes were
// applied. failed is a rule that fails closed because the store could not
// decide it, or nil. Other undecided rules fail open.
func (v *evaluation) decision(failed *keyedRule) Decision {
	d := Decision{evaluation: v}
	switch {
	case failed != nil:
		d.Reason, d.RuleID = ReasonStoreFailure, failed.ID
	case v.outcome.Admission == store.NotAdmitted:
		v.bindRejected(&d)
	default:
		d.Allowed, d.Reason = true, ReasonOK
		v.bindAllowed(&d)
	}
	return d
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
	if d.RuleID == "" {
		d.Reason = ReasonStoreFailure
	}
}

// bindRejected names the band with the longest wait. A band that the cost can
// never fit comes before all others.
func (v *evaluation) bindRejected(d *Decision) {
	d.Reason = ReasonLimited
	longest := time.Duration(-1)
	for i := range v.demands {
		demand, result := &v.demands[i], &v.outcome.Results[i]
		if demand.Shadow || result.Status != store.Rejected && result.Status != store.TooCostly {
			continue
		}
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
}

func (v *evaluation) bind(d *Decision, i, j int) {
	rule, result := v.rules[i], &v.outcome.Results[i]
	d.RuleID, d.Band, d.Source = rule.ID, rule.names[j], result.Source
	d.Limit = v.demands[i].Bands[j].Capacity
	d.Remaining, d.Owed = result.Bands[j].Remaining, result.Bands[j].Owed
	d.ResetAfter = result.Bands[j].FullAfter
	d.Time = time.UnixMicro(result.Now)
}
