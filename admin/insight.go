package admin

import "time"

// Rates has the requests per second, by result.
type Rates struct {
	Allowed  float64 `json:"allowed" doc:"Requests that passed."`
	Limited  float64 `json:"limited" doc:"Requests that a limit rejected."`
	Denied   float64 `json:"denied" doc:"Requests rejected for another reason, such as a rule that denies them."`
	Degraded float64 `json:"degraded" doc:"Requests decided without Redis for at least one rule, whatever the answer."`
	Waiting  float64 `json:"waiting" doc:"Requests that were held until their tokens were available. They are also in allowed."`
	Shadow   float64 `json:"shadow" doc:"Requests that a shadow rule would have rejected. They are also in allowed, limited or denied."`
}

// Series has the rates over time, oldest first. An element is null if it is unknown.
type Series struct {
	Allowed  []*float64 `json:"allowed" nullable:"false" doc:"Requests in a second that passed."`
	Limited  []*float64 `json:"limited" nullable:"false" doc:"Requests in a second that a limit rejected."`
	Denied   []*float64 `json:"denied" nullable:"false" doc:"Requests in a second rejected for another reason."`
	Degraded []*float64 `json:"degraded" nullable:"false" doc:"Requests in a second decided without Redis for at least one rule."`
	Waiting  []*float64 `json:"waiting" nullable:"false" doc:"Requests in a second that were held until their tokens were available."`
	Shadow   []*float64 `json:"shadow" nullable:"false" doc:"Requests in a second that a shadow rule would have rejected."`
	P50Ms    []*float64 `json:"p50Ms" nullable:"false" doc:"Median time to decide, in milliseconds. For a fleet, of the slowest server."`
	P99Ms    []*float64 `json:"p99Ms" nullable:"false" doc:"99th percentile of the time to decide. For a fleet, of the slowest server."`
}

// RuleRates has the rates of one rule.
type RuleRates struct {
	RuleSet string `json:"ruleSet" doc:"The rule set."`
	Rule    string `json:"rule" doc:"The rule; other means all rules that are not counted separately."`
	Rates
}

// Live has the current numbers of the fleet.
type Live struct {
	Servers     int         `json:"servers" doc:"How many servers the numbers are of."`
	StepSeconds int         `json:"stepSeconds" doc:"The time between two elements of a series."`
	End         time.Time   `json:"end" doc:"The end of the last element of a series."`
	Series      Series      `json:"series" doc:"The last two minutes."`
	Rules       []RuleRates `json:"rules" nullable:"false" doc:"Rules with requests in the last 10 seconds, those that reject most first."`
	Problem     string      `json:"problem,omitempty" doc:"Why the answer has the numbers of this server only, or not of all servers."`
}

// Server is one server of the fleet.
type Server struct {
	ID         string    `json:"id" doc:"A random id, new at every start."`
	Name       string    `json:"name" doc:"The name of its host."`
	Version    string    `json:"version,omitempty" doc:"The version of its build."`
	Self       bool      `json:"self" doc:"Whether it is the server that answers."`
	StartedAt  time.Time `json:"startedAt" doc:"When it started."`
	ReportedAt time.Time `json:"reportedAt" doc:"When it wrote this, by its own clock."`
	// Understands is what rules and overrides may use, see [rules.Understood].
	Understands []string         `json:"understands" nullable:"false" doc:"What it understands in rules. Empty for early versions."`
	Draining    bool             `json:"draining" doc:"Whether it is shutting down."`
	Status      string           `json:"status,omitempty" doc:"Its health: up, degraded or down. Absent until it is known."`
	Reason      string           `json:"reason,omitempty" doc:"Why it is not up. Absent for callers that may not read all rule sets."`
	Revisions   map[string]int64 `json:"revisions" nullable:"false" doc:"The revisions of the rule sets in effect, of at most 50."`
	Rates       Rates            `json:"rates" doc:"Over the last 10 seconds."`
	P50Ms       *float64         `json:"p50Ms,omitempty" doc:"Median time to decide over 10 seconds. Absent without requests."`
	P99Ms       *float64         `json:"p99Ms,omitempty" doc:"99th percentile of that time over 10 seconds. Absent without requests."`
	Redis       []RedisNode      `json:"redis" nullable:"false" doc:"The nodes of Redis. Empty unless the caller may read all rule sets."`
}

// RedisNode is the breaker of one node of Redis on one server.
type RedisNode struct {
	Node  string     `json:"node" doc:"Its address."`
	Open  bool       `json:"open" doc:"Whether the breaker is open: the node does not answer and is only probed."`
	Since *time.Time `json:"since,omitempty" doc:"Since when it is open."`
	Error string     `json:"error,omitempty" doc:"What the node did not do."`
}

// DifferingRevisions is a rule set that servers have at different revisions.
type DifferingRevisions struct {
	RuleSet   string  `json:"ruleSet" doc:"The rule set."`
	Revisions []int64 `json:"revisions" nullable:"false" doc:"The revisions in effect, in ascending order."`
}

// LostServer is a server that ended without leaving the fleet: it was killed, or cannot reach
// Redis.
type LostServer struct {
	ID         string    `json:"id" doc:"Its random id."`
	Name       string    `json:"name" doc:"The name of its host."`
	Version    string    `json:"version,omitempty" doc:"The version of its build."`
	LostAt     time.Time `json:"lostAt" doc:"When its last heartbeat ended: some seconds after it was sent."`
	ShownUntil time.Time `json:"shownUntil" doc:"Until when it is in this list: 15 minutes later."`
}

// Fleet is all servers that share Redis.
type Fleet struct {
	Servers   []Server             `json:"servers" nullable:"false" doc:"The live servers by name: their heartbeats have not ended."`
	Lost      []LostServer         `json:"lost" nullable:"false" doc:"Servers lost in the last 15 minutes, newest first, at most 100."`
	Total     Rates                `json:"total" doc:"The sum of their rates."`
	Differing []DifferingRevisions `json:"differing" nullable:"false" doc:"Rule sets that are not at the same revision on all servers."`
	Problem   string               `json:"problem,omitempty" doc:"Why the answer has this server only, or not all servers."`
}

// The outcomes of [Callers].
const (
	CallersLimited = "limited"
	CallersAllowed = "allowed"
)

// Callers has the callers with the most recent requests.
type Callers struct {
	Outcome string    `json:"outcome" enum:"limited,allowed" doc:"Which requests were counted. limited includes those of shadow rules."`
	Since   time.Time `json:"since" doc:"Since when they were counted: between one and two minutes ago."`
	Callers []Caller  `json:"callers" nullable:"false" doc:"The callers, those with the most requests first."`
	Problem string    `json:"problem,omitempty" doc:"Why the answer has the callers of this server only, or not of all servers."`
}

// Caller is one caller under one rule.
type Caller struct {
	RuleSet   string  `json:"ruleSet" doc:"The rule set."`
	Rule      string  `json:"rule" doc:"The rule."`
	Key       string  `json:"key" doc:"The key of the bucket: a salted hash, bound to the rule."`
	Identity  string  `json:"identity,omitempty" doc:"The caller, for the role identities. Absent for API keys and if unknown here."`
	Shadow    bool    `json:"shadow,omitempty" doc:"The rule is a shadow rule: it rejects nothing."`
	Count     uint64  `json:"count" doc:"How many requests it made, an estimate."`
	PerSecond float64 `json:"perSecond" doc:"Count over the time since."`
}
