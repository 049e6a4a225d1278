package fluxgate

import (
	"iter"
	"sync"
	"time"
)

// Decision is the answer to a [Request].
type Decision struct {
	// Allowed is whether the request may pass, after Wait.
	Allowed bool
	// Reason says why.
	Reason Reason
	// RuleID and Band name what binds: when allowed the band with the
	// smallest share of its capacity left, else the one with the longest
	// wait. They are empty where no band was asked.
	RuleID, Band string
	// Limit, Remaining and ResetAfter are the binding band's capacity, whole
	// tokens left and time until it is full; in the fallback, of its share.
	Limit, Remaining int64
	ResetAfter       time.Duration
	// Owed is how many tokens the binding band is in debt, as in [BandResult].
	Owed int64
	// RetryAfter is how long until a rejected request would fit; 0 if it
	// never will or nobody knows.
	RetryAfter time.Duration
	// Wait is how long the request was held, or must be.
	Wait time.Duration
	// Time is the store's clock when it decided, where it did.
	Time time.Time
	// Source is where the binding answer came from.
	Source Source
	// Degraded is set where the store could not be asked for every rule.
	Degraded bool

	made *making
	told *told
}

// told is what a decision that was made elsewhere is made of.
type told struct {
	bands   []BandStatus
	receipt *Receipt
}

// Told is a decision that was made elsewhere, with its bands and the receipt
// to settle it with: what a client of a server gives its caller.
func Told(d Decision, bands []BandStatus, receipt *Receipt) Decision {
	d.made, d.told = nil, &told{bands: bands, receipt: receipt}
	return d
}

// Reason is why a request was allowed or not.
type Reason string

// The reasons.
const (
	// ReasonOK means that every band that could be asked admitted it.
	ReasonOK Reason = "ok"
	// ReasonExempt means that a rule allows it without limit.
	ReasonExempt Reason = "exempt"
	// ReasonNoRule means that no rule applies.
	ReasonNoRule Reason = "no-rule"
	// ReasonNoRuleSet means that there is no such rule set.
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
	// refusal and no error: a caller may cause it by what it sends.
	ReasonTooManyRules Reason = "too-many-rules"
	// ReasonMissingIdentity means that a rule refuses requests without the
	// identity it counts by.
	ReasonMissingIdentity Reason = "missing-identity"
	// ReasonStoreFailure means that the store could not decide: the request
	// is refused if a rule fails closed, and else allowed with no band asked.
	ReasonStoreFailure Reason = "store-failure"
)

// BandStatus is one band of one rule that applied.
type BandStatus struct {
	Rule   *Rule
	Band   *Band
	Status Status
	Source Source
	// Limit is the band's capacity.
	Limit int64
	// Remaining, Owed, Wait and FullAfter are as in [BandResult].
	BandResult
}

// Shadow reports whether the rule is only measured.
func (b *BandStatus) Shadow() bool { return b.Rule.Mode == ModeShadow }

// Bands are all bands that were asked, in the order of their rules. The rules
// and bands it points to are not to be changed.
func (d *Decision) Bands() iter.Seq[BandStatus] {
	return func(yield func(BandStatus) bool) {
		if d.told != nil {
			for i := range d.told.bands {
				if !yield(d.told.bands[i]) {
					return
				}
			}
			return
		}
		if d.made == nil {
			return
		}
		for i := range d.made.rules {
			for j := range d.made.outcome.Results[i].Bands {
				if !yield(d.made.band(i, j)) {
					return
				}
			}
		}
	}
}

// Receipt is what [Engine.Settle] needs, or nil if nothing was taken.
func (d *Decision) Receipt() *Receipt {
	if d.told != nil {
		return d.told.receipt
	}
	if d.made == nil || !d.Allowed {
		return nil
	}
	return d.made.receipt()
}

// making is what a decision is made of. The decision's details and receipt
// are read from it when somebody asks.
type making struct {
	rules   []*compiledRule
	demands []Demand
	outcome Outcome
	peek    bool

	once  sync.Once
	taken *Receipt
}

// newMaking makes a making for so many rules. It is one allocation for the
// usual number of rules and bands, and no larger than it has to be: it is most
// of what a request leaves to the garbage collector.
func newMaking(rules int) *making {
	if rules == 1 {
		m := new(struct {
			making
			rules   [1]*compiledRule
			demands [1]Demand
			results [1]Result
			bands   [2]BandResult
		})
		return m.use(m.rules[:0], m.demands[:0], m.results[:0], m.bands[:0])
	}
	m := new(struct {
		making
		rules   [3]*compiledRule
		demands [3]Demand
		results [3]Result
		bands   [6]BandResult
	})
	return m.use(m.rules[:0], m.demands[:0], m.results[:0], m.bands[:0])
}

func (m *making) use(rules []*compiledRule, demands []Demand, results []Result, bands []BandResult) *making {
	m.rules, m.demands = rules, demands
	m.outcome.Results, m.outcome.bands = results, bands
	return m
}

// band is one band of one demand.
func (m *making) band(i, j int) BandStatus {
	rule, result := m.rules[i], &m.outcome.Results[i]
	return BandStatus{
		Rule: rule.Rule, Band: &rule.Bands[j], Status: result.Status, Source: result.Source,
		Limit: m.demands[i].Bands[j].Capacity, BandResult: result.Bands[j],
	}
}

func (m *making) receipt() *Receipt {
	m.once.Do(func() {
		if !m.peek {
			m.taken = NewReceipt(m.demands, &m.outcome)
		}
	})
	return m.taken
}
