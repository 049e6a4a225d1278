package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

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
	Priority int   `json:"priority,omitempty"`
	Enabled  *bool `json:"enabled,omitempty"`
}

func newRuleSetDocument(set *rules.Set) (*ruleSetDocument, error) {
	doc := new(ruleSetDocument)
	text, err := json.Marshal(set)
	if err == nil {
		from := json.NewDecoder(bytes.NewReader(text))
		from.UseNumber() // free attributes may have numbers of any length
		err = from.Decode(doc)
	}
	if err != nil {
		return nil, fmt.Errorf("writing rule set %q: %w", set.ID(), err)
	}
	doc.CostTables = set.CostTables()
	for i := range doc.Rules {
		doc.Rules[i].removeDefaults()
	}
	return doc, nil
}

func (r *ruleDocument) removeDefaults() {
	r.RuleSetID, r.CreatedAt, r.UpdatedAt = "", nil, nil
	if *r.Enabled {
		r.Enabled = nil
	}
	if r.LimitScope == rules.ScopeGlobal {
		r.LimitScope = ""
	}
	if r.Cost == rules.MeasureRequests {
		r.Cost = ""
	}
	for i := range r.Bands {
		b := &r.Bands[i]
		if b.RefillSeconds > 0 {
			b.Refill, b.RefillSeconds = period.Format(time.Duration(b.RefillSeconds)*time.Second), 0
		}
		if b.RefillTokens == b.Capacity {
			b.RefillTokens = 0
		}
	}
}
