package rules

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"
)

// The measures that FluxGate knows. A rule may name any other, whose costs the
// requests carry.
const (
	// MeasureRequests is the measure of a rule that names none.
	MeasureRequests = "requests"
	// MeasureTokens counts tokens of a language model. Without a cost table each token
	// counts as one.
	MeasureTokens = "tokens"
)

// CostTables are the cost tables of a rule set, by measure.
type CostTables map[string]CostTable

// CostTable has the weights of models, by name. "*" has the weights of every other model.
// It is required, so that an unknown model has a cost.
type CostTable map[string]Weights

// AnyModel is the entry for models that are not in a table.
const AnyModel = "*"

// weightUnit is how many tokens a weight is the cost of.
const weightUnit = 1_000_000

// Weights are the cost of a million tokens in the measure of the table. Money is in
// millionths of a currency: 2.50 dollars for a million tokens are 2,500,000.
type Weights struct {
	Input       int64 `json:"input" minimum:"0" doc:"A million tokens of the prompt."`
	CachedInput int64 `json:"cachedInput" minimum:"0" required:"false" doc:"A million cached tokens of the prompt. The default is input."`
	Output      int64 `json:"output" minimum:"0" doc:"A million tokens of the answer."`
	Reasoning   int64 `json:"reasoning" minimum:"0" required:"false" doc:"A million tokens of reasoning. The default is output."`
	// MaxOutputTokens is the maximum of output tokens of the model. Estimates use it for
	// requests that declare no maximum. 0 means that of "*".
	MaxOutputTokens int64 `json:"maxOutputTokens,omitempty" minimum:"0" doc:"The most tokens of an answer if requests declare none."`
}

// MarshalJSON leaves out cachedInput and reasoning where they are the default, so that
// a change of input or output is one change.
func (w Weights) MarshalJSON() ([]byte, error) {
	unless := func(weight, fallback int64) *int64 {
		if weight == fallback {
			return nil
		}
		return &weight
	}
	return json.Marshal(struct {
		Input           int64  `json:"input"`
		CachedInput     *int64 `json:"cachedInput,omitempty"`
		Output          int64  `json:"output"`
		Reasoning       *int64 `json:"reasoning,omitempty"`
		MaxOutputTokens int64  `json:"maxOutputTokens,omitempty"`
	}{w.Input, unless(w.CachedInput, w.Input), w.Output, unless(w.Reasoning, w.Output), w.MaxOutputTokens})
}

// Cost returns the cost of tokens, rounded up once. Cached tokens are a part of the input
// tokens, and reasoning tokens a part of the output tokens.
func (w *Weights) Cost(input, cached, output, reasoning int64) int64 {
	return weightedSum([...]int64{input - cached, cached, output - reasoning, reasoning},
		[...]int64{w.Input, w.CachedInput, w.Output, w.Reasoning})
}

// Most returns the maximum cost of a request: each token counts as the more expensive kind. An
// output of 0 means the maximum of the model.
func (w *Weights) Most(input, output int64) int64 {
	output = cmp.Or(output, w.MaxOutputTokens)
	return weightedSum([...]int64{input, output, 0, 0}, [...]int64{max(w.Input, w.CachedInput), max(w.Output, w.Reasoning), 0, 0})
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

// decodeCostTables reads {"measure": {"model": {weights}}}.
func decodeCostTables(top *object) CostTables {
	var tables CostTables
	eachObject(top.object("costTables"), func(measure string, o *object) {
		table := CostTable{}
		if tables == nil {
			tables = CostTables{}
		}
		tables[measure] = table
		eachObject(o, func(model string, o *object) { table[model] = decodeWeights(o) })
	})
	return tables
}

// eachObject calls read with the fields of o, which are all objects.
func eachObject(o *object, read func(name string, o *object)) {
	if o == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(o.fields)) {
		if child := o.object(name); child != nil {
			read(name, child)
		} else if o.fields[name] == nil {
			o.at(name).add(CodeRequired, "must be an object")
		}
	}
}

func decodeWeights(o *object) Weights {
	weight := func(name string) int64 {
		return read(o, name, "a whole number (of money in millionths: 2.50 is 2500000)", wholeNumber)
	}
	w := Weights{
		Input: weight("input"), CachedInput: weight("cachedInput"),
		Output: weight("output"), Reasoning: weight("reasoning"), MaxOutputTokens: o.integer("maxOutputTokens"),
	}
	for _, name := range []string{"input", "output"} {
		if o.get(name) == nil {
			o.at(name).add(CodeRequired, "is required: what a million tokens cost, money in millionths")
		}
	}
	if o.get("cachedInput") == nil {
		w.CachedInput = w.Input
	}
	if o.get("reasoning") == nil {
		w.Reasoning = w.Output
	}
	o.refuseUnknown()
	return w
}

// PlainTokens is the table of a rule set without a table for tokens. Each token counts as
// one, and the maximum output of a model is that of the other tables.
func (c CostTables) PlainTokens() CostTable {
	one := Weights{Input: weightUnit, CachedInput: weightUnit, Output: weightUnit, Reasoning: weightUnit}
	plain := CostTable{AnyModel: one}
	for _, table := range c {
		for model, w := range table {
			one.MaxOutputTokens = max(plain[model].MaxOutputTokens, w.MaxOutputTokens)
			plain[model] = one
		}
	}
	return plain
}

func (c CostTables) clone() CostTables {
	c = maps.Clone(c)
	for measure, table := range c {
		c[measure] = maps.Clone(table)
	}
	return c
}

const (
	// maxTables and maxModels bound the cost tables of a rule set.
	maxTables, maxModels = 16, 1_000
	// maxWeight is a billion for a million tokens.
	maxWeight = 1_000_000_000 * weightUnit
)

func validateCostTables(tables CostTables, in reporter) {
	if !checkLength(in, len(tables), maxTables) {
		return
	}
	for _, measure := range slices.Sorted(maps.Keys(tables)) {
		table, in := tables[measure], in.at(measure)
		switch {
		case measure == MeasureRequests:
			in.add(CodeInvalidName, "must be another measure: requests have no weights")
		case !ValidID(measure):
			in.add(CodeInvalidName, "must be 1 to %d of the characters A-Z a-z 0-9 . _ -", maxIDLength)
		}
		if !checkLength(in, len(table), maxModels) {
			continue
		}
		if _, ok := table[AnyModel]; !ok {
			in.at(AnyModel).add(CodeRequired, "is required: the weights of every model that is not listed")
		}
		for _, model := range slices.Sorted(maps.Keys(table)) {
			w, in := table[model], in.at(model)
			if !isIdentity(model) {
				in.add(CodeInvalidName, "is not a valid name")
			}
			w.validate(in)
		}
	}
}

// validateMeasures refuses a measure that differs from a known one in case alone: no
// request would carry its costs, and each would count as 1.
func validateMeasures(set *Set, in reporter) {
	known := slices.AppendSeq([]string{MeasureRequests, MeasureTokens}, maps.Keys(set.costTables))
	for i := range set.rules {
		cost := set.rules[i].Cost
		if cost == "" || slices.Contains(known, cost) {
			continue
		}
		if meant := slices.IndexFunc(known, func(k string) bool { return strings.EqualFold(k, cost) }); meant >= 0 {
			in.at(i, "cost").add(CodeInvalidValue, "is not a known measure: did you mean %s?", known[meant])
		}
	}
}

func (w *Weights) validate(in reporter) {
	check := func(name string, weight int64) {
		if weight < 0 || weight > maxWeight {
			in.at(name).add(CodeOutOfRange, "must be 0 to %d", maxWeight)
		}
	}
	check("input", w.Input)
	check("output", w.Output)
	if w.CachedInput != w.Input { // a default has no problem of its own
		check("cachedInput", w.CachedInput)
	}
	if w.Reasoning != w.Output {
		check("reasoning", w.Reasoning)
	}
	check("maxOutputTokens", w.MaxOutputTokens)
}
