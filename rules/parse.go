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
	CostTables CostTables `json:"costTables,omitempty" doc:"What tokens of language models cost, by measure and model. * is any other."`
}

// RuleDocument is a rule as JSON.
type RuleDocument struct {
	ID         string   `json:"id" doc:"Unique in the rule set: 1 to 64 letters, digits, dots, dashes and underscores."`
	RuleSetID  string   `json:"ruleSetId,omitempty" doc:"The rule set it belongs to."`
	Path       string   `json:"path,omitempty" doc:"A pattern: * is one segment, ** any number. The default is every path."`
	Paths      []string `json:"paths,omitempty" nullable:"false" doc:"Several patterns instead of path."`
	IgnoreCase bool     `json:"ignoreCase,omitempty" doc:"Compare paths without regard to case, for routers that do."`
	Method     string   `json:"method,omitempty" doc:"An HTTP method; GET includes HEAD. The default is every method."`
	Methods    []string `json:"methods,omitempty" nullable:"false" doc:"Several methods instead of method."`
	When       *When    `json:"when,omitempty" doc:"What else must hold."`

	LimitScope Scope    `json:"limitScope,omitempty" enum:"GLOBAL,IP,USER_ID,API_KEY,COMPOSITE,CUSTOM,PER_IP,PER_USER,PER_API_KEY"`
	KeyFields  []string `json:"compositeKeyFields,omitempty" nullable:"false" doc:"The parts of a COMPOSITE or CUSTOM key, such as userId."`

	Cost  string         `json:"cost,omitempty" doc:"What it counts: requests (the default), tokens or another measure."`
	Bands []BandDocument `json:"bands,omitempty" nullable:"false" doc:"1 to 16, which all must admit a request. None with allow and deny."`

	Priority int    `json:"priority" required:"false" doc:"Higher first, ties by id."`
	Group    string `json:"group,omitempty" doc:"Of the matching rules of a group, the one with the highest priority applies."`
	Action   Action `json:"action,omitempty" enum:"limit,allow,deny" doc:"The default is limit."`
	Enabled  bool   `json:"enabled" required:"false" doc:"The default is true."`

	Until *time.Time `json:"until,omitempty" doc:"When the rule ends: from then on it is as if disabled."`

	OnLimitExceed Policy `json:"onLimitExceed,omitempty" enum:"REJECT,WAIT_FOR_REFILL" doc:"The default is the server's."`

	Mode Mode `json:"mode,omitempty" enum:"enforce,shadow,alternative" doc:"alternative rejects if all such rules do. Default: enforce."`

	OnFailure OnFailure `json:"onFailure,omitempty" enum:"local,open,closed" doc:"While the store is away. The default is the server's."`

	Consistency Consistency `json:"consistency,omitempty" enum:"auto,strict,leased" doc:"Whether memory may answer. The default is auto."`

	OnMissingIdentity OnMissingIdentity `json:"onMissingIdentity,omitempty" enum:"ip,anonymous,refuse"`

	Overdraft    bool `json:"overdraft,omitempty" doc:"Debit rejected requests too, up to the largest debt: for what was used already."`
	CountRefused bool `json:"countRefused,omitempty" doc:"Count rejected requests, as envoyproxy/ratelimit does. Needs one band: a quota."`

	Replaces []string `json:"replaces,omitempty" nullable:"false" doc:"Ids of rules that do not apply to an Envoy call if this rule does."`

	Attributes map[string]any `json:"attributes,omitempty" doc:"Free: kept, and not interpreted."`
	CreatedAt  *time.Time     `json:"createdAt,omitempty" doc:"Kept by the control plane."`
	UpdatedAt  *time.Time     `json:"updatedAt,omitempty" doc:"Kept by the control plane."`
}

// BandDocument is a [Band] as JSON.
type BandDocument struct {
	Kind          BandKind `json:"kind,omitempty" enum:"token-bucket,quota,sliding-window,concurrency" doc:"The default is token-bucket."`
	Label         string   `json:"label,omitempty" doc:"Unique in the rule. The default is made of the numbers, such as 100-per-1m."`
	Capacity      int64    `json:"capacity" minimum:"1" doc:"The maximum number of tokens in the bucket, or of concurrent requests."`
	RefillTokens  int64    `json:"refillTokens,omitempty" doc:"Of a token bucket: how many come back in a period, by default all."`
	Refill        string   `json:"refill,omitempty" doc:"Of a token bucket: the period, such as 100ms, 1m or 30d."`
	RefillSeconds int64    `json:"refillSeconds,omitempty" doc:"The period in seconds, instead of refill."`
	Period        string   `json:"period,omitempty" doc:"Of a quota: second, minute, ... or year. Of a sliding window: such as 1m."`
	Timezone      string   `json:"timezone,omitempty" doc:"Of a quota: the IANA time zone of its calendar. The default is UTC."`
	Hold          string   `json:"hold,omitempty" doc:"Of concurrent requests: how long one that is not settled holds its slot."`
	WarnAt        []string `json:"warnAt,omitempty" nullable:"false" doc:"Of a quota or a sliding window: percentages such as 80%."`
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
	doc.Until, doc.CreatedAt, doc.UpdatedAt = unlessZero(&r.Until), unlessZero(&r.CreatedAt), unlessZero(&r.UpdatedAt)
	return doc
}

func unlessZero(at *time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return at
}

func newBandDocument(b Band) BandDocument {
	d := BandDocument{Kind: b.Kind, Label: b.Label, Capacity: b.Capacity, WarnAt: b.WarnAt.texts()}
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
