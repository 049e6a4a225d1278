package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/fluxgate/fluxgate"
)

// ruleSetDocument is a rule set as its author would write it. It is read as the
// same rule set again.
type ruleSetDocument struct {
	ID    string         `json:"id"`
	Rules []ruleDocument `json:"rules"`
}

// ruleDocument is a rule without what goes without saying. Its own fields stand
// before those of the same name.
type ruleDocument struct {
	fluxgate.RuleDocument
	Priority int            `json:"priority,omitempty"`
	Enabled  *bool          `json:"enabled,omitempty"`
	Bands    []bandDocument `json:"bands,omitempty"`
}

type bandDocument struct {
	Label        string            `json:"label,omitempty"`
	Kind         fluxgate.BandKind `json:"kind,omitempty"`
	Capacity     int64             `json:"capacity"`
	RefillTokens int64             `json:"refillTokens,omitempty"`
	Refill       string            `json:"refill"`
}

// documentOf is without what the control plane keeps too, and without saying in
// every rule where it belongs.
func documentOf(set *fluxgate.RuleSet) (*ruleSetDocument, error) {
	doc := &ruleSetDocument{ID: set.ID(), Rules: []ruleDocument{}}
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
		if to.LimitScope == fluxgate.ScopeGlobal {
			to.LimitScope = ""
		}
		if r.Disabled {
			to.Enabled = new(bool)
		}
		for _, b := range r.Bands {
			to.Bands = append(to.Bands, bandDocumentOf(b))
		}
		doc.Rules = append(doc.Rules, to)
	}
	return doc, nil
}

func bandDocumentOf(b fluxgate.Band) bandDocument {
	// What a band of one token goes by says the period as people do.
	period := strings.TrimPrefix(fluxgate.Band{RefillTokens: 1, Refill: b.Refill}.Name(), "1-per-")
	to := bandDocument{Label: b.Label, Kind: b.Kind, Capacity: b.Capacity, Refill: period}
	if b.Tokens() != b.Capacity {
		to.RefillTokens = b.Tokens()
	}
	return to
}
