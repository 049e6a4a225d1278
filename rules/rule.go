package rules

import (
	"cmp"
	"slices"
	"time"
)

// Rule limits the requests that it matches. The zero value of every field but ID
// and Bands is a default.
type Rule struct {
	// ID names the rule within its rule set.
	ID string
	// RuleSetID is the rule set it belongs to. Empty means the one that is
	// built from it.
	RuleSetID string

	// Paths are patterns: * is one segment, ** any number. None means every
	// path.
	Paths []string
	// IgnoreCase compares paths without regard to case, for routers that do.
	IgnoreCase bool
	// Methods are HTTP methods. None means every method, and GET includes HEAD.
	Methods []string
	// When narrows further what the rule matches.
	When When

	// Scope is whose bucket it is. Empty means ScopeGlobal.
	Scope Scope
	// KeyFields are the parts of a ScopeComposite key, in order (ip, userId,
	// apiKey, method, path, header:NAME, attr:NAME, descriptor for all entries of
	// the descriptor, descriptor:KEY for the value of its first entry with that
	// key), or the one attr:NAME of a ScopeCustom key.
	KeyFields []string
	// Cost is the measure that the rule counts: MeasureTokens, or any name of which
	// requests carry costs. Empty means MeasureRequests.
	Cost string
	// Bands are 1 to 16 bands that all must admit a request. Rules that allow
	// or deny need none.
	Bands []Band

	// Priority orders the rules that match: higher first, ties by id.
	Priority int
	// Group names rules of which only the one with the highest priority
	// applies to a request.
	Group string
	// Action is what the rule does. Empty means ActionLimit.
	Action Action
	// Disabled turns the rule off without deleting it.
	Disabled bool
	// Until is when the rule ends, by the clock of the store: from then on it is as if
	// disabled. Zero means never.
	Until time.Time
	// OnLimitExceed is what happens when a band is empty. Empty means the
	// engine's default.
	OnLimitExceed Policy
	// Mode is whether the rule is enforced. Empty means ModeEnforce.
	Mode Mode
	// OnFailure is what happens when the store cannot decide. Empty means the
	// engine's default.
	OnFailure OnFailure
	// Consistency is whether answers may come from memory. Empty means
	// ConsistencyAuto.
	Consistency Consistency
	// OnMissingIdentity is what happens to a request without the identity
	// that Scope needs. Empty means MissingIP.
	OnMissingIdentity OnMissingIdentity

	// Overdraft debits requests in any case, also where they are refused: for what has
	// been used already. Each band is debited up to its largest debt. A request is
	// refused if nothing was left before, and one that costs nothing only asks for that.
	Overdraft bool

	// CountRefused counts requests that are refused too, as envoyproxy/ratelimit does: a
	// request is refused if more than the capacity is counted with it, and is then counted
	// here. Each period begins at 0. The rule has one band, a Quota.
	CountRefused bool
	// Replaces are ids of rules that do not apply to requests that are decided together with
	// one to which this rule applies, such as the descriptors of one call of Envoy.
	Replaces []string

	// Attributes are user data: FluxGate stores them and does not interpret
	// them.
	Attributes map[string]any
	// CreatedAt and UpdatedAt are kept by the control plane.
	CreatedAt, UpdatedAt time.Time
}

// Scope is whose bucket a rule counts in.
type Scope string

// The scopes. PER_IP, PER_USER and PER_API_KEY are read as the same.
const (
	ScopeGlobal    Scope = "GLOBAL"
	ScopeIP        Scope = "IP"
	ScopeUser      Scope = "USER_ID"
	ScopeAPIKey    Scope = "API_KEY"
	ScopeComposite Scope = "COMPOSITE"
	ScopeCustom    Scope = "CUSTOM"
)

// scopeSpellings are the other names that documents use.
var scopeSpellings = map[Scope]Scope{
	"": ScopeGlobal, "PER_IP": ScopeIP, "PER_USER": ScopeUser, "PER_API_KEY": ScopeAPIKey,
}

// Action is what a rule does with a request it matches.
type Action string

// The actions.
const (
	// ActionLimit takes tokens from the rule's bands.
	ActionLimit Action = "limit"
	// ActionAllow ends the evaluation: the request is exempt from the rules
	// after it.
	ActionAllow Action = "allow"
	// ActionDeny refuses the request.
	ActionDeny Action = "deny"
)

// Mode is whether a rule is enforced.
type Mode string

// The modes.
const (
	ModeEnforce Mode = "enforce"
	// ModeShadow measures: the rule takes available tokens and never rejects.
	ModeShadow Mode = "shadow"
	// ModeAlternative rejects a request only if all rules with this mode that apply to it,
	// and to those that are decided with it, are over. They have CountRefused, or deny.
	ModeAlternative Mode = "alternative"
)

// Policy is what happens to a request that a band does not admit yet.
type Policy string

// The policies.
const (
	// Reject refuses it now.
	Reject Policy = "REJECT"
	// WaitForRefill holds it until its tokens are due, if the engine has
	// [WithWaiting]; else it is Reject. A request whose deadline is earlier is
	// rejected at once.
	WaitForRefill Policy = "WAIT_FOR_REFILL"
)

// OnFailure is what happens when the store cannot decide.
type OnFailure string

// The failure modes.
const (
	// FailLocal decides by the same rule in this process, at a share of its
	// bands: see [WithFallback]. Without a fallback [WithOnFailure] decides.
	FailLocal OnFailure = "local"
	// FailOpen lets the request pass.
	FailOpen OnFailure = "open"
	// FailClosed refuses it.
	FailClosed OnFailure = "closed"
)

// Consistency is whether answers of a rule may come from the memory of a gateway, where
// the engine's store is one of package store/lease.
type Consistency string

// The consistencies.
const (
	// ConsistencyAuto lets a gateway refuse a request that cannot fit without asking
	// the shared store, and take tokens of a bucket with many requests ahead.
	ConsistencyAuto Consistency = "auto"
	// ConsistencyLeased takes tokens ahead from the first request on.
	ConsistencyLeased Consistency = "leased"
	// ConsistencyStrict asks the shared store for every request.
	ConsistencyStrict Consistency = "strict"
)

// OnMissingIdentity is what happens to a request without the identity that its
// rule needs.
type OnMissingIdentity string

// The ways to treat requests without an identity.
const (
	// MissingIP counts it by its client address instead; without an address
	// all such requests share one bucket.
	MissingIP OnMissingIdentity = "ip"
	// MissingAnonymous counts all such requests in one bucket.
	MissingAnonymous OnMissingIdentity = "anonymous"
	// MissingRefuse refuses it.
	MissingRefuse OnMissingIdentity = "refuse"
)

// clone is a deep copy with defaults and one spelling of the scope, so that the
// caller cannot change it afterwards.
func (r Rule) clone() Rule {
	r.Paths = slices.Clone(r.Paths)
	r.Methods = slices.Clone(r.Methods)
	r.KeyFields, r.Replaces = slices.Clone(r.KeyFields), slices.Clone(r.Replaces)
	r.Bands = slices.Clone(r.Bands)
	r.Attributes = cloneAttributes(r.Attributes)
	r.When.clone()
	if scope, ok := scopeSpellings[r.Scope]; ok {
		r.Scope = scope
	}
	// Documents have times in UTC.
	r.CreatedAt, r.UpdatedAt, r.Until = r.CreatedAt.UTC(), r.UpdatedAt.UTC(), r.Until.UTC()
	return r
}

// Measure is Cost with its default.
func (r *Rule) Measure() string { return cmp.Or(r.Cost, MeasureRequests) }

// Limits reports whether the rule takes tokens. One that does not ends the
// evaluation.
func (r *Rule) Limits() bool { return r.Action == "" || r.Action == ActionLimit }
