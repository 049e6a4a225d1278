package fluxgate

import (
	"cmp"
	"fmt"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// checkCost returns an error that wraps ErrCost if no store can count one of these numbers.
func checkCost(numbers ...int64) error {
	for _, n := range numbers {
		if n < 0 {
			return fmt.Errorf("%w: it cannot be negative", ErrCost)
		}
		if n > store.MaxCost {
			return fmt.Errorf("%w: at most %d is possible", ErrCost, int64(store.MaxCost))
		}
	}
	return nil
}

func checkCosts(costs map[string]int64) error {
	for _, cost := range costs {
		if err := checkCost(cost); err != nil {
			return err
		}
	}
	return nil
}

// Estimate is the maximum usage of a request to a language model.
type Estimate struct {
	// Model is a name in the cost tables of the rule set.
	Model string
	// InputTokens are the tokens of the prompt.
	InputTokens int64
	// MaxOutputTokens is the largest maximum of output tokens that the request declares.
	// 0 means that it declares no maximum.
	MaxOutputTokens int64
}

// Usage is the actual usage of a request, known when it ends. If only Costs is set, token
// counts are ignored. The zero value is a request that has used no tokens.
type Usage struct {
	// InputTokens and OutputTokens are the tokens of the prompt and of the answer of a
	// language model.
	InputTokens, OutputTokens int64
	// CachedInputTokens is the part of InputTokens that was in the cache of the model.
	// ReasoningTokens is the part of OutputTokens that was used for reasoning.
	CachedInputTokens, ReasoningTokens int64
	// Costs are costs by measure that do not come from tokens. They replace the cost of
	// the tokens.
	Costs map[string]int64
}

// Check returns an error that wraps ErrCost if the usage is invalid: if a number is negative or
// above [store.MaxCost]. Limiters call it first.
func (u *Usage) Check() error {
	if u == nil {
		return fmt.Errorf("%w: there is no usage", ErrCost)
	}
	if err := checkCost(u.InputTokens, u.OutputTokens, u.CachedInputTokens, u.ReasoningTokens); err != nil {
		return err
	}
	if err := checkCosts(u.Costs); err != nil {
		return err
	}
	if u.CachedInputTokens > u.InputTokens || u.ReasoningTokens > u.OutputTokens {
		return fmt.Errorf("%w: cached and reasoning tokens are a part of those of input and output", ErrCost)
	}
	return nil
}

// costOf is the actual cost of a take with a price, given the usage of its request. A take in a
// measure of which the usage says nothing stays at its estimate.
func (u *Usage) costOf(t *store.Taken, price *Price) int64 {
	if cost, ok := u.Costs[price.measure()]; ok {
		return cost
	}
	costsAlone := len(u.Costs) > 0 && u.InputTokens == 0 && u.OutputTokens == 0
	if price == nil || price.Weights == nil || costsAlone {
		return t.Cost
	}
	return min(store.MaxCost, price.Weights.Cost(u.InputTokens, u.CachedInputTokens, u.OutputTokens, u.ReasoningTokens))
}

// measure is what was counted.
func (p *Price) measure() string {
	if p == nil {
		return rules.MeasureRequests
	}
	return p.Measure
}

// compilePrices sets how the active rules count, by model. Rules of a measure share
// the table.
func (c *Compiled) compilePrices() {
	byMeasure := map[string]map[string]*Price{}
	for i := range c.active {
		r := &c.active[i]
		if r.Measure() == rules.MeasureRequests {
			continue
		}
		if byMeasure[r.Cost] == nil {
			byMeasure[r.Cost] = c.pricesOf(r.Cost)
		}
		r.prices = byMeasure[r.Cost]
	}
}

func (c *Compiled) pricesOf(measure string) map[string]*Price {
	prices := map[string]*Price{rules.AnyModel: {Measure: measure}}
	tables := c.CostTables()
	table := tables[measure]
	if table == nil && measure == rules.MeasureTokens {
		table = tables.PlainTokens()
	}
	for model, w := range table {
		w.MaxOutputTokens = cmp.Or(w.MaxOutputTokens, table[rules.AnyModel].MaxOutputTokens)
		prices[model] = &Price{measure, &w}
	}
	return prices
}

// costOf is what a request takes from a rule, and how it is counted. An estimate is at
// least 1, so that a request of unknown cost needs something to be left, and at most
// what the smallest band holds, so that an estimate alone never refuses a request for
// good.
func (r *compiledRule) costOf(req *Request, bands []store.ExactBand) (int64, *Price) {
	if r.prices == nil {
		return req.cost(), nil
	}
	price := r.prices[rules.AnyModel]
	cost, given := req.Costs[r.Cost]
	if e := req.Estimate; e != nil {
		if known := r.prices[e.Model]; known != nil {
			price = known
		}
		if !given && price.Weights != nil {
			cost, given = price.Weights.Most(e.InputTokens, e.MaxOutputTokens), true
		}
	}
	if !given && req.Peek && req.Cost == 0 {
		return 0, price // only the state is asked for
	}
	if r.Overdraft || r.CountRefused {
		return max(1, min(cost, store.MaxCost)), price // it has been used already
	}
	return bucket.Cut(cost, bands), price
}
