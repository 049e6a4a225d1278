package rules

import (
	"encoding/json"
	"time"

	"github.com/fluxgate/fluxgate/internal/period"
)

// RuleSetDocument is a rule set as JSON. The doc tags are the descriptions in the
// OpenAPI document.
type RuleSetDocument struct {
	ID    string         `json:"id" doc:"1 to 64 letters, digits, dots, dashes and underscores."`
	Rules []RuleDocument `json:"rules" nullable:"false" doc:"The rules. They are evaluated by priority, whatever their order here."`
	// CostTables are above the rules in YAML.
	CostTables CostTables `json:"costTables,omitempty" doc:"What the tokens of language models cost, by measure and model. Each table has an entry * for every other model."`
}

// RuleDocument is a rule as JSON.
type RuleDocument struct {
	ID                string            `json:"id" doc:"Unique in the rule set: 1 to 64 letters, digits, dots, dashes and underscores."`
	RuleSetID         string            `json:"ruleSetId,omitempty" doc:"The rule set it belongs to."`
	Path              string            `json:"path,omitempty" doc:"A pattern: * is one segment, ** any number. Left out with paths it matches every path."`
	Paths             []string          `json:"paths,omitempty" nullable:"false" doc:"Several patterns instead of path."`
	IgnoreCase        bool              `json:"ignoreCase,omitempty" doc:"Compare paths without regard to case, for routers that do."`
	Method            string            `json:"method,omitempty" doc:"An HTTP method; GET includes HEAD. Left out with methods it matches every method."`
	Methods           []string          `json:"methods,omitempty" nullable:"false" doc:"Several methods instead of method."`
	When              *When             `json:"when,omitempty" doc:"What else must hold."`
	LimitScope        Scope             `json:"limitScope,omitempty" enum:"GLOBAL,IP,USER_ID,API_KEY,COMPOSITE,CUSTOM,PER_IP,PER_USER,PER_API_KEY" doc:"Whose bucket it is. The default is GLOBAL."`
	KeyFields         []string          `json:"compositeKeyFields,omitempty" nullable:"false" doc:"The parts of a COMPOSITE or CUSTOM key: ip, userId, apiKey, method, path, header:NAME, attr:NAME, descriptor, descriptor:KEY."`
	Cost              string            `json:"cost,omitempty" doc:"What the rule counts: requests, tokens, or another measure of which requests carry costs, such as usd. The default is requests."`
	Bands             []BandDocument    `json:"bands,omitempty" nullable:"false" doc:"1 to 16, which all must admit a request. None where the action is allow or deny."`
	Priority          int               `json:"priority" required:"false" doc:"Higher first, ties by id."`
	Group             string            `json:"group,omitempty" doc:"Of the rules of a group that match, only the one with the highest priority applies."`
	Action            Action            `json:"action,omitempty" enum:"limit,allow,deny" doc:"The default is limit."`
	Enabled           bool              `json:"enabled" required:"false" doc:"The default is true."`
	OnLimitExceed     Policy            `json:"onLimitExceed,omitempty" enum:"REJECT,WAIT_FOR_REFILL" doc:"The default is the server's."`
	Mode              Mode              `json:"mode,omitempty" enum:"enforce,shadow,alternative" doc:"The default is enforce. alternative rejects only if all such rules that apply do."`
	OnFailure         OnFailure         `json:"onFailure,omitempty" enum:"local,open,closed" doc:"What happens while the store cannot decide. The default is the server's."`
	Consistency       Consistency       `json:"consistency,omitempty" enum:"auto,strict,leased" doc:"strict asks the shared store for every request. The default is auto: a request that cannot fit is rejected without asking it, and a server with many requests takes local tokens. leased takes local tokens from the first request on."`
	OnMissingIdentity OnMissingIdentity `json:"onMissingIdentity,omitempty" enum:"ip,anonymous,refuse" doc:"What happens to a request without the identity that the scope asks for. The default is ip."`
	Overdraft         bool              `json:"overdraft,omitempty" doc:"Debit every request, even a rejected one, up to the largest debt: for usage that has already happened. A request is rejected if no tokens were left before it. A request that costs 0 only checks that."`
	CountRefused      bool              `json:"countRefused,omitempty" doc:"Also count rejected requests, as envoyproxy/ratelimit does: a request is rejected if the count with it is above the capacity, and each period begins at 0. The rule has one band, a quota."`
	Replaces          []string          `json:"replaces,omitempty" nullable:"false" doc:"Ids of rules that do not apply where requests are decided together, such as the descriptors of one call of Envoy, and this rule applies to one of them."`
	Attributes        map[string]any    `json:"attributes,omitempty" doc:"Free: kept, and not interpreted."`
	CreatedAt         *time.Time        `json:"createdAt,omitempty" doc:"Kept by the control plane."`
	UpdatedAt         *time.Time        `json:"updatedAt,omitempty" doc:"Kept by the control plane."`
}

// BandDocument is a [Band] as JSON.
type BandDocument struct {
	Kind          BandKind `json:"kind,omitempty" enum:"token-bucket,quota,sliding-window,concurrency" doc:"How it counts. The default is token-bucket."`
	Label         string   `json:"label,omitempty" doc:"Unique in the rule. The default is made of the numbers, such as 100-per-1m."`
	Capacity      int64    `json:"capacity" minimum:"1" doc:"The maximum number of tokens in the bucket, or of concurrent requests."`
	RefillTokens  int64    `json:"refillTokens,omitempty" doc:"Of a token bucket: how many come back in each period. The default is the capacity."`
	Refill        string   `json:"refill,omitempty" doc:"Of a token bucket: the period, such as 100ms, 1m or 30d."`
	RefillSeconds int64    `json:"refillSeconds,omitempty" doc:"The period in seconds, instead of refill."`
	Period        string   `json:"period,omitempty" doc:"Of a quota: second, minute, hour, day, week, month or year. Of a sliding window: a duration such as 1m."`
	Timezone      string   `json:"timezone,omitempty" doc:"Of a quota: the IANA time zone of its calendar. The default is UTC."`
	Hold          string   `json:"hold,omitempty" doc:"Of requests at the same time: how long a request that is not settled holds its slot, such as 30s."`
}

// MarshalJSON writes the rule in the shape that [Parse] reads.
func (r Rule) MarshalJSON() ([]byte, error) { return json.Marshal(r.document()) }

func (r *Rule) document() *RuleDocument {
	doc := &RuleDocument{
		ID: r.ID, RuleSetID: r.RuleSetID, LimitScope: r.Scope, KeyFields: r.KeyFields, Cost: r.Cost,
		Priority: r.Priority, Group: r.Group, Action: r.Action, Enabled: !r.Disabled,
		OnLimitExceed: r.OnLimitExceed, Mode: r.Mode, OnFailure: r.OnFailure, Consistency: r.Consistency,
		OnMissingIdentity: r.OnMissingIdentity, Overdraft: r.Overdraft, CountRefused: r.CountRefused,
		Replaces: r.Replaces, Attributes: r.Attributes,
	}
	doc.Path, doc.Paths = oneOrMany(r.Paths)
	doc.IgnoreCase = r.IgnoreCase
	doc.Method, doc.Methods = oneOrMany(r.Methods)
	if !r.When.isEmpty() {
		doc.When = &r.When
	}
	for _, b := range r.Bands {
		doc.Bands = append(doc.Bands, newBandDocument(b))
	}
	if !r.CreatedAt.IsZero() {
		doc.CreatedAt = &r.CreatedAt
	}
	if !r.UpdatedAt.IsZero() {
		doc.UpdatedAt = &r.UpdatedAt
	}
	return doc
}

func newBandDocument(b Band) BandDocument {
	d := BandDocument{Kind: b.Kind, Label: b.Label, Capacity: b.Capacity}
	switch {
	case b.Kind == Quota:
		d.Period, d.Timezone = string(b.Period), b.Timezone
		return d
	case b.Kind == SlidingWindow:
		d.Period = period.Format(b.Refill)
		return d
	case b.Kind == Concurrency:
		d.Hold = period.Format(b.Hold)
		return d
	case b.Refill%time.Second == 0:
		d.RefillSeconds = int64(b.Refill / time.Second)
	default:
		d.Refill = period.Format(b.Refill)
	}
	d.RefillTokens = b.Tokens()
	return d
}

// oneOrMany is the short form of a list of one.
func oneOrMany(list []string) (one string, many []string) {
	if len(list) == 1 {
		return list[0], nil
	}
	return "", list
}

// MarshalJSON writes the rule set in the shape that [Parse] reads.
func (s *Set) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		ID         string     `json:"id"`
		CostTables CostTables `json:"costTables,omitempty"`
		Rules      []Rule     `json:"rules"`
	}{s.id, s.costTables, s.rules})
}
