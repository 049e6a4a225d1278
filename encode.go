package fluxgate

import (
	"encoding/json"
	"net/netip"
	"time"
)

// ruleDocument is a rule as JSON, in the shape of the control plane.
type ruleDocument struct {
	ID                string            `json:"id"`
	RuleSetID         string            `json:"ruleSetId,omitempty"`
	Path              string            `json:"path,omitempty"`
	Paths             []string          `json:"paths,omitempty"`
	Method            string            `json:"method,omitempty"`
	Methods           []string          `json:"methods,omitempty"`
	When              *whenDocument     `json:"when,omitempty"`
	LimitScope        Scope             `json:"limitScope,omitempty"`
	KeyFields         []string          `json:"compositeKeyFields,omitempty"`
	Bands             []bandDocument    `json:"bands,omitempty"`
	Priority          int               `json:"priority"`
	Group             string            `json:"group,omitempty"`
	Action            Action            `json:"action,omitempty"`
	Enabled           bool              `json:"enabled"`
	OnLimitExceed     Policy            `json:"onLimitExceed,omitempty"`
	Mode              Mode              `json:"mode,omitempty"`
	OnFailure         OnFailure         `json:"onFailure,omitempty"`
	OnMissingIdentity OnMissingIdentity `json:"onMissingIdentity,omitempty"`
	Attributes        map[string]any    `json:"attributes,omitempty"`
	CreatedAt         *time.Time        `json:"createdAt,omitempty"`
	UpdatedAt         *time.Time        `json:"updatedAt,omitempty"`
}

type whenDocument struct {
	Hosts        []string            `json:"hosts,omitempty"`
	ExcludePaths []string            `json:"excludePaths,omitempty"`
	Headers      map[string][]string `json:"headers,omitempty"`
	Attributes   map[string][]string `json:"attributes,omitempty"`
	IPs          []netip.Prefix      `json:"ips,omitempty"`
	Users        []string            `json:"users,omitempty"`
	APIKeys      []string            `json:"apiKeys,omitempty"`
}

type bandDocument struct {
	Kind          BandKind `json:"kind,omitempty"`
	Label         string   `json:"label,omitempty"`
	Capacity      int64    `json:"capacity"`
	RefillTokens  int64    `json:"refillTokens"`
	Refill        string   `json:"refill,omitempty"`
	RefillSeconds int64    `json:"refillSeconds,omitempty"`
}

// MarshalJSON writes the rule in the shape that [ParseRuleSet] reads.
func (r Rule) MarshalJSON() ([]byte, error) {
	doc := ruleDocument{
		ID: r.ID, RuleSetID: r.RuleSetID, LimitScope: r.Scope, KeyFields: r.KeyFields,
		Priority: r.Priority, Group: r.Group, Action: r.Action, Enabled: !r.Disabled,
		OnLimitExceed: r.OnLimitExceed, Mode: r.Mode, OnFailure: r.OnFailure,
		OnMissingIdentity: r.OnMissingIdentity, Attributes: r.Attributes,
	}
	doc.Path, doc.Paths = oneOrMany(r.Paths)
	doc.Method, doc.Methods = oneOrMany(r.Methods)
	if w := whenDocument(r.When); w.anything() {
		doc.When = &w
	}
	for _, b := range r.Bands {
		d := bandDocument{Kind: b.Kind, Label: b.Label, Capacity: b.Capacity, RefillTokens: b.Tokens()}
		if b.Refill%time.Second == 0 {
			d.RefillSeconds = int64(b.Refill / time.Second)
		} else {
			d.Refill = formatPeriod(b.Refill)
		}
		doc.Bands = append(doc.Bands, d)
	}
	if !r.CreatedAt.IsZero() {
		doc.CreatedAt = &r.CreatedAt
	}
	if !r.UpdatedAt.IsZero() {
		doc.UpdatedAt = &r.UpdatedAt
	}
	return json.Marshal(doc)
}

// oneOrMany is the short form of a list of one.
func oneOrMany(list []string) (one string, many []string) {
	if len(list) == 1 {
		return list[0], nil
	}
	return "", list
}

func (w *whenDocument) anything() bool {
	return len(w.Hosts)+len(w.ExcludePaths)+len(w.Headers)+len(w.Attributes)+len(w.IPs)+len(w.Users)+len(w.APIKeys) > 0
}

// MarshalJSON writes the rule set in the shape that [ParseRuleSet] reads.
func (s *RuleSet) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		ID    string `json:"id"`
		Rules []Rule `json:"rules"`
	}{s.id, s.rules})
}
