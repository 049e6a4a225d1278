package cli

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/fluxgate/fluxgate/internal/period"
	"github.com/fluxgate/fluxgate/rules"
)

// ruleSetDocument is a rule set as its author would write it: without defaults,
// without the times that the control plane sets, and without its id in every
// rule. It is read as the same rule set again.
type ruleSetDocument struct {
	ID         string           `json:"id"`
	CostTables rules.CostTables `json:"costTables,omitempty"`
	Rules      []ruleDocument   `json:"rules"`
}

// ruleDocument is a rule without defaults. Its own fields replace the embedded
// ones of the same name.
type ruleDocument struct {
	rules.RuleDocument
	Priority int            `json:"priority,omitempty"`
	Enabled  *bool          `json:"enabled,omitempty"`
	Bands    []bandDocument `json:"bands,omitempty"`
}

type bandDocument struct {
	Label        string         `json:"label,omitempty"`
	Kind         rules.BandKind `json:"kind,omitempty"`
	Capacity     int64          `json:"capacity"`
	RefillTokens int64          `json:"refillTokens,omitempty"`
	Refill       string         `json:"refill,omitempty"`
	Period       string         `json:"period,omitempty"`
	Timezone     string         `json:"timezone,omitempty"`
	Hold         string         `json:"hold,omitempty"`
}

func newRuleSetDocument(set *rules.Set) (*ruleSetDocument, error) {
	doc := &ruleSetDocument{ID: set.ID(), CostTables: set.CostTables(), Rules: []ruleDocument{}}
	for r := range set.Rules() {
		to := ruleDocument{Priority: r.Priority}
		text, err := json.Marshal(r)
		if err == nil {
			from := json.NewDecoder(bytes.NewReader(text))
			from.UseNumber() // free attributes may have numbers of any length
			err = from.Decode(&to.RuleDocument)
		}
		if err != nil {
			return nil, fmt.Errorf("writing rule set %q: %w", set.ID(), err)
		}
		to.RuleSetID, to.CreatedAt, to.UpdatedAt = "", nil, nil
		if to.LimitScope == rules.ScopeGlobal {
			to.LimitScope = ""
		}
		if to.Cost == rules.MeasureRequests {
			to.Cost = ""
		}
		if r.Disabled {
			to.Enabled = new(bool)
		}
		for _, b := range r.Bands {
			to.Bands = append(to.Bands, newBandDocument(b))
		}
		doc.Rules = append(doc.Rules, to)
	}
	return doc, nil
}

func newBandDocument(b rules.Band) bandDocument {
	to := bandDocument{Label: b.Label, Kind: b.Kind, Capacity: b.Capacity}
	switch b.Kind {
	case rules.Quota:
		to.Period, to.Timezone = string(b.Period), b.Timezone
	case rules.SlidingWindow:
		to.Period = period.Format(b.Refill)
	case rules.Concurrency:
		to.Hold = period.Format(b.Hold)
	default:
		to.Refill = period.Format(b.Refill)
		if b.Tokens() != b.Capacity {
			to.RefillTokens = b.Tokens()
		}
	}
	return to
}
