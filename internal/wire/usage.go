package wire

import (
	"errors"

	"github.com/fluxgate/fluxgate"
)

// Usage is what a request has used. Absent numbers are nil: a usage without any is not a
// usage of nothing.
type Usage struct {
	InputTokens       *int64            `json:"inputTokens,omitempty"`
	OutputTokens      *int64            `json:"outputTokens,omitempty"`
	CachedInputTokens *int64            `json:"cachedInputTokens,omitempty"`
	ReasoningTokens   *int64            `json:"reasoningTokens,omitempty"`
	Costs             map[string]*int64 `json:"costs,omitempty"`
}

// FromUsage returns a usage as JSON. It always has the numbers of tokens.
func FromUsage(u *fluxgate.Usage) *Usage {
	w := &Usage{
		InputTokens: &u.InputTokens, OutputTokens: &u.OutputTokens,
		CachedInputTokens: &u.CachedInputTokens, ReasoningTokens: &u.ReasoningTokens,
	}
	if len(u.Costs) > 0 {
		w.Costs = make(map[string]*int64, len(u.Costs))
		for measure, cost := range u.Costs {
			w.Costs[measure] = &cost
		}
	}
	return w
}

// To fills in a usage. One without a number is an error: its caller has probably not
// found its numbers, and would get everything back.
func (w *Usage) To(u *fluxgate.Usage) error {
	found := false
	number := func(n *int64) int64 {
		if n == nil {
			return 0
		}
		found = true
		return *n
	}
	*u = fluxgate.Usage{
		InputTokens: number(w.InputTokens), OutputTokens: number(w.OutputTokens),
		CachedInputTokens: number(w.CachedInputTokens), ReasoningTokens: number(w.ReasoningTokens),
		Costs: make(map[string]int64, len(w.Costs)),
	}
	for measure, cost := range w.Costs {
		if cost != nil {
			u.Costs[measure] = number(cost)
		}
	}
	if !found {
		return errors.New("has no numbers, which would give everything back; send 0 to say that nothing was used")
	}
	return u.Check()
}
