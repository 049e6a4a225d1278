package fluxgate

import (
	"fmt"
	"math"
	"math/bits"
)

// The measures that FluxGate knows. A rule may name any other, whose costs the
// requests carry.
const (
	// MeasureRequests is what a rule counts that names nothing else.
	MeasureRequests = "requests"
	// MeasureTokens are those of a language model. Without a cost table of its own
	// each counts as one.
	MeasureTokens = "tokens"
)

var errNegative = fmt.Errorf("%w: it cannot be negative", ErrCost)

// Estimate is what a request to a language model may use at most.
type Estimate struct {
	// Model is a name of the rule set's cost tables.
	Model string
	// InputTokens are those of the prompt.
	InputTokens int64
	// MaxOutputTokens is the largest maximum that the request declares. 0 means that
	// it declares none.
	MaxOutputTokens int64
}

// Usage is what a request has used, known when it ends. One with Costs and without
// tokens says nothing of tokens. The zero value is a request that has used none.
type Usage struct {
	// InputTokens and OutputTokens are those of a language model: of the prompt and
	// of the answer.
	InputTokens, OutputTokens int64
	// CachedInputTokens are the part of InputTokens that the model had in its cache,
	// and ReasoningTokens the part of OutputTokens that it has used for reasoning.
	CachedInputTokens, ReasoningTokens int64
	// Costs are the costs by measure that do not come from tokens. They replace what
	// the tokens cost.
	Costs map[string]int64
}

// cost is what the usage costs, rounded up once.
func (w *Weights) cost(u *Usage) int64 {
	return weightedSum(
		[...]int64{u.InputTokens - u.CachedInputTokens, u.CachedInputTokens, u.OutputTokens - u.ReasoningTokens, u.ReasoningTokens},
		[...]int64{w.Input, w.CachedInput, w.Output, w.Reasoning})
}

// most is the most that a request can cost: each token counts as the dearer kind.
func (w *Weights) most(e *Estimate) int64 {
	output := e.MaxOutputTokens
	if output == 0 {
		output = w.MaxOutputTokens
	}
	return weightedSum([...]int64{e.InputTokens, output, 0, 0}, [...]int64{max(w.Input, w.CachedInput), max(w.Output, w.Reasoning), 0, 0})
}

// weightedSum is what tokens cost, rounded up and at most the largest integer.
func weightedSum(tokens, weights [4]int64) int64 {
	var high, low, carry uint64
	for i := range tokens {
		h, l := bits.Mul64(uint64(tokens[i]), uint64(weights[i]))
		low, carry = bits.Add64(low, l, 0)
		high += h + carry // four products of 126 bits: no overflow
	}
	low, carry = bits.Add64(low, weightUnit-1, 0)
	high += carry
	if high >= weightUnit {
		return math.MaxInt64
	}
	quotient, _ := bits.Div64(high, low, weightUnit)
	return int64(min(quotient, math.MaxInt64))
}

// Check returns an error that wraps ErrCost if the usage cannot be settled. Limiters
// call it first.
func (u *Usage) Check() error {
	if u == nil {
		return fmt.Errorf("%w: there is no usage", ErrCost)
	}
	if min(u.InputTokens, u.OutputTokens, u.CachedInputTokens, u.ReasoningTokens) < 0 || anyNegative(u.Costs) {
		return errNegative
	}
	if u.CachedInputTokens > u.InputTokens || u.ReasoningTokens > u.OutputTokens {
		return fmt.Errorf("%w: cached and reasoning tokens are a part of those of input and output", ErrCost)
	}
	return nil
}

func anyNegative(costs map[string]int64) bool {
	for _, cost := range costs {
		if cost < 0 {
			return true
		}
	}
	return false
}

// costOf is the actual cost of a take with a price, given the usage of its request. A take in a
// measure of which the usage says nothing stays at its estimate.
func (u *Usage) costOf(t *Taken, price *Price) int64 {
	if cost, ok := u.Costs[price.measure()]; ok {
		return cost
	}
	costsAlone := len(u.Costs) > 0 && u.InputTokens == 0 && u.OutputTokens == 0
	if price == nil || price.Weights == nil || costsAlone {
		return t.Cost
	}
	return price.Weights.cost(u)
}

// measure is what was counted.
func (p *Price) measure() string {
	if p == nil {
		return MeasureRequests
	}
	return p.Measure
}
