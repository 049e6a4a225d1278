package fluxgate

import (
	"cmp"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

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
		return max(1, cost), price // it has been used already
	}
	return clampCost(cost, bands), price
}

// clampCost is a cost of at least 1 and at most what the smallest band holds. Bands of
// requests at the same time do not count costs.
func clampCost(cost int64, bands []store.ExactBand) int64 {
	for i := range bands {
		if !bucket.IsConcurrency(bands[i]) {
			cost = min(cost, bands[i].Capacity)
		}
	}
	return max(1, cost)
}
