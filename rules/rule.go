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
	// RuleSetID is the rule set of the rule. Empty means the rule set that is
	// built from it.
	RuleSetID string

	// Paths are patterns: * is one segment, ** any number. None means every
	// path.
	Paths []string
	// IgnoreCase ignores the case of paths, for routers that do.
	IgnoreCase bool
	// Methods are HTTP methods. None means every method, and GET includes HEAD.
	Methods []string
	// When has further conditions for requests.
	When When

	// Scope is whose bucket the rule counts in. Empty means ScopeGlobal.
	Scope Scope
	// KeyFields are the parts of a ScopeComposite key, in order (ip, userId,
	// apiKey, method, path, header:NAME, attr:NAME, descriptor for all entries of
	// the descriptor, descriptor:KEY for the value of its first entry with that
	// key), or the one attr:NAME of a ScopeCustom key.
	KeyFields []string
	// Cost is the measure that the rule counts: MeasureTokens, or another name for which
	// requests carry costs. Empty means MeasureRequests.
	Cost string
	// Bands are the limits of the rule, 1 to 16. All must admit a request. Rules with
	// the action allow or deny need none.
	Bands []Band

	// Priority orders the rules that match: higher first, ties by id.
	Priority int
	// Group is the name of a group. Only the rule of a group with the highest priority
	// applies to a request.
	Group string
	// Action is what the rule does. Empty means ActionLimit.
	Action Action
	// Disabled turns the rule off without deleting it.
	Disabled bool
	// Until is when the rule ends, by the clock of the store: from then on it is as if
	// disabled. Zero means never.
	Until time.Time
	// OnLimitExceed is the policy for requests over a limit. Empty means the
	// engine's default.
	OnLimitExceed Policy
	// Mode is whether the rule is enforced. Empty means ModeEnforce.
	Mode Mode
	// OnFailure is the failure mode while the store cannot decide. Empty means the
	// engine's default.
	OnFailure OnFailure
	// Consistency is whether answers may come from memory. Empty means
	// ConsistencyAuto.
	Consistency Consistency
	// OnMissingIdentity is the treatment of a request without the identity
	// that Scope needs. Empty means MissingIP.
	OnMissingIdentity OnMissingIdentity

	// Overdraft debits every request, even a rejected one: for usage that has already
	// happened. Each band is debited up to its largest debt. A request is rejected if no
	// tokens were left before it. A request that costs 0 only checks that.
	Overdraft bool

	// CountRefused also counts rejected requests, as envoyproxy/ratelimit does. A request is
	// rejected if the count with it is above the capacity. Each period begins at 0. The rule
	// has one band, a Quota.
	CountRefused bool
	// Replaces are ids of rules that this rule replaces: if it applies to one of several requests
	// that are decided together, such as the descriptors of one call of Envoy, they do not apply.
	Replaces []string

	// Attributes are user data: FluxGate stores them and does not interpret
	// them.
	Attributes map[string]any
	// CreatedAt and UpdatedAt are set by the control plane.
	CreatedAt, UpdatedAt time.Time
}

// Scope is whose bucket a rule counts in.
type Scope string

// The scopes. PER_IP, PER_USER and PER_API_KEY are other spellings in documents.
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

// Action is what a rule does with a request that it matches.
type Action string

// The actions.
const (
	// ActionLimit takes tokens from the limits of the rule.
	ActionLimit Action = "limit"
	// ActionAllow ends the evaluation: the request is exempt from the rules
	// after it.
	ActionAllow Action = "allow"
	// ActionDeny rejects the request.
	ActionDeny Action = "deny"
)

// Mode is whether a rule is enforced.
type Mode string

// The modes.
const (
	ModeEnforce Mode = "enforce"
	// ModeShadow counts only: the rule takes available tokens and never rejects.
	ModeShadow Mode = "shadow"
	// ModeAlternative rejects a request only if all rules with this mode are over their limits:
	// those that apply to it and to requests decided with it. They have CountRefused or ActionDeny.
	ModeAlternative Mode = "alternative"
)

// Policy is the treatment of a request that is over a limit.
type Policy string

// The policies.
const (
	// Reject rejects it at once.
	Reject Policy = "REJECT"
	// WaitForRefill holds it until its tokens are due, if the engine has
	// [WithWaiting]. Otherwise it is Reject. A request whose deadline is earlier is
	// rejected at once.
	WaitForRefill Policy = "WAIT_FOR_REFILL"
)

// OnFailure is the failure mode of a rule: its decision while the store cannot decide.
type OnFailure string

// The failure modes.
const (
	// FailLocal decides by the same rule in this process, at a share of its
	// limits: see [WithFallback]. Without a fallback [WithOnFailure] decides.
	FailLocal OnFailure = "local"
	// FailOpen allows the request.
	FailOpen OnFailure = "open"
	// FailClosed rejects the request.
	FailClosed OnFailure = "closed"
)

// Consistency is whether decisions of a rule may come from the memory of a process, if the
// engine's store is of package store/lease.
type Consistency string

// The consistencies.
const (
	// ConsistencyAuto lets a process reject a request without asking the shared store if it
	// cannot fit, and take tokens of a busy bucket in advance.
	ConsistencyAuto Consistency = "auto"
	// ConsistencyLeased takes tokens in advance from the first request on.
	ConsistencyLeased Consistency = "leased"
	// ConsistencyStrict asks the shared store for every request.
	ConsistencyStrict Consistency = "strict"
)

// OnMissingIdentity is the treatment of a request without the identity that its
// rule needs.
type OnMissingIdentity string

// The ways to treat requests without an identity.
const (
	// MissingIP counts it by its client address. Without an address all such
	// requests share one bucket.
	MissingIP OnMissingIdentity = "ip"
	// MissingAnonymous counts all such requests in one bucket.
	MissingAnonymous OnMissingIdentity = "anonymous"
	// MissingRefuse rejects it.
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

// Measure returns Cost, or its default.
func (r *Rule) Measure() string { return cmp.Or(r.Cost, MeasureRequests) }

// Limits reports whether the rule takes tokens. A rule that takes none ends the
// evaluation.
func (r *Rule) Limits() bool { return r.Action == "" || r.Action == ActionLimit }
