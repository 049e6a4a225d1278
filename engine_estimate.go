package fluxgate

// compilePrices returns how a rule counts, by model, or nil for a rule that counts
// requests.
func compilePrices(r *Rule, tables CostTables) map[string]*Price {
	if r.countsRequests() {
		return nil
	}
	prices := map[string]*Price{anyModel: {Measure: r.Cost}}
	if r.Cost == MeasureTokens {
		prices[anyModel].Weights = &Weights{Input: weightUnit, CachedInput: weightUnit, Output: weightUnit, Reasoning: weightUnit}
	}
	for model, w := range tables[r.Cost] {
		prices[model] = &Price{r.Cost, &w}
	}
	return prices
}

func (r *Rule) countsRequests() bool { return r.Cost == "" || r.Cost == MeasureRequests }

// estimate is what a request takes from a rule that does not count requests, and how
// it is counted. It is at least 1, so that a request of unknown cost needs something
// to be left, and at most what the smallest band holds, so that an estimate alone
// never refuses a request for good.
func (r *compiledRule) estimate(req *Request, bands []ExactBand) (int64, *Price) {
	price := r.prices[anyModel]
	cost, given := req.Costs[r.Cost]
	if e := req.Estimate; e != nil {
		if known := r.prices[e.Model]; known != nil {
			price = known
		}
		if !given && price.Weights != nil {
			cost, given = price.Weights.most(e), true
		}
	}
	if !given && req.Peek && req.Cost == 0 {
		return 0, price // only the state is asked for
	}
	return clampCost(cost, bands), price
}

// clampCost is a cost of at least 1 and at most what the smallest band holds. Bands of
// requests at the same time do not count costs.
func clampCost(cost int64, bands []ExactBand) int64 {
	for i := range bands {
		if !isConcurrency(bands[i]) {
			cost = min(cost, bands[i].Capacity)
		}
	}
	return max(1, cost)
}
