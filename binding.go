package fluxgate

import "time"

// decide reads the decision off the outcome. failed is a rule that fails
// closed because the store could not decide, or nil.
func (m *making) decide(failed *compiledRule) Decision {
	d := Decision{made: m}
	switch {
	case failed != nil:
		d.Reason, d.RuleID = ReasonStoreFailure, failed.ID
	case m.outcome.Admitted:
		d.Allowed, d.Reason = true, ReasonOK
		m.bindAllowed(&d)
	default:
		m.bindRejected(&d)
	}
	return d
}

// bindAllowed names the band with the smallest share left, and the longest
// wait until all tokens are due. Where nothing was taken it names the band
// that would have the smallest share left, so that a peek and a take agree.
func (m *making) bindAllowed(d *Decision) {
	smallest := 2.0
	for i := range m.demands {
		result := &m.outcome.Results[i]
		if m.demands[i].Shadow || result.Status != OK {
			continue
		}
		d.Wait = max(d.Wait, result.Wait)
		for j := range result.Bands {
			left := result.Bands[j].Remaining
			if m.peek {
				left = max(0, left-m.demands[i].Cost)
			}
			share := float64(left) / float64(m.demands[i].Bands[j].Capacity)
			if share < smallest {
				smallest = share
				m.bind(d, i, j)
			}
		}
	}
	if d.RuleID == "" {
		d.Reason = ReasonStoreFailure
	}
}

// bindRejected names the band with the longest wait. A band that the cost can
// never fit comes before all others.
func (m *making) bindRejected(d *Decision) {
	d.Reason = ReasonLimited
	longest := time.Duration(-1)
	for i := range m.demands {
		demand, result := &m.demands[i], &m.outcome.Results[i]
		if demand.Shadow || result.Status == OK || result.Status == Unavailable {
			continue
		}
		for j := range result.Bands {
			if demand.Cost > demand.Bands[j].Capacity {
				d.Reason, d.RetryAfter = ReasonCostTooHigh, 0
				m.bind(d, i, j)
				return
			}
			if wait := result.Bands[j].Wait; result.Status == Rejected && wait > longest {
				longest = wait
				m.bind(d, i, j)
				d.RetryAfter = wait
			}
		}
	}
}

func (m *making) bind(d *Decision, i, j int) {
	rule, result := m.rules[i], &m.outcome.Results[i]
	d.RuleID, d.Band, d.Source = rule.ID, rule.names[j], result.Source
	d.Limit = m.demands[i].Bands[j].Capacity
	d.Remaining, d.Owed = result.Bands[j].Remaining, result.Bands[j].Owed
	d.ResetAfter = result.Bands[j].FullAfter
	d.Time = time.UnixMicro(result.Now)
}
