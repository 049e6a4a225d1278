// Package model runs random histories of a whole fleet on virtual time, with the engine,
// the leases and the charges that the product has, and checks what happened against a
// specification of the contract.
//
// [Generate] makes a [History] of a seed, [Run] runs it and returns the facts, [Check]
// holds them against the specification, and [Shrink] makes a history that fails small.
package model

import (
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// History is what happens to a fleet, from outside.
type History struct {
	Seed uint64
	// Begins is when the history begins, since the beginning of 2000 by all right clocks.
	Begins time.Duration
	// Gateways are those that there may be, by their numbers.
	Gateways []Gateway
	// Versions are the versions of the rule set, in the order in which they were written.
	// All gateways begin with the first one.
	Versions [][]rules.Rule
	// Overrides are those of each version. The last versions may have none.
	Overrides [][]Override
	// Redis is the servers that store/redisstore has, or without Nodes the simulated store.
	Redis Redis
	// Ops are ordered by time.
	Ops []Op
	// Ends is when the last operation has ended and everything has come to rest.
	Ends time.Duration
}

// RuleSetID is the id of the rule set of every history.
const RuleSetID = "model"

// Gateway is one gateway of a history.
type Gateway struct {
	// Leases is whether its store is one of package store/lease.
	Leases bool
	// MaxWait is how long its engine holds requests, 0 for not at all.
	MaxWait time.Duration
	// Latency is the least time of a call to the store and back. Each call takes up to
	// twice that.
	Latency time.Duration
	// SeesResets is how long after a reset of a rule or of the set it still uses the
	// old buckets.
	SeesResets time.Duration
	// SeesRules is how long after a change of the rule set it still decides by the
	// former version.
	SeesRules time.Duration
	// SeesFleet is how long after a gateway has started or stopped it still counts the
	// former number.
	SeesFleet time.Duration
	// Waits is whether it is started by an operation. The others start at 0.
	Waits bool
	// Ahead is how far its own clock is ahead of all others.
	Ahead time.Duration
}

// Redis is servers on which every gateway has its own store/redisstore.
type Redis struct {
	Nodes   int
	Cluster bool
	Shards  int
	// Timeout is that of calls.
	Timeout time.Duration
}

// OpKind is what happens in an operation.
type OpKind string

// The kinds of operations.
const (
	// OpCheck sends N requests of Caller to Gateway, spread evenly over Span.
	OpCheck OpKind = "check"
	// OpPeek reads what Caller has left, at Gateway.
	OpPeek OpKind = "peek"
	// OpReset resets at Gateway the buckets of Caller under Rule, or without a Caller
	// all of the Rule, or without a Rule those of the rule set.
	OpReset OpKind = "reset"
	// OpRules writes Version of the rule set.
	OpRules OpKind = "rules"
	// OpFault is a Fault between Gateway and the store for Span.
	OpFault OpKind = "fault"
	// OpRestart restarts the store, which is empty then.
	OpRestart OpKind = "restart"
	// OpStep moves the store's clock by Step.
	OpStep OpKind = "step"
	// OpStart starts Gateway, for the first time or again.
	OpStart OpKind = "start"
	// OpStop stops Gateway: what it has leased is given back.
	OpStop OpKind = "stop"
	// OpKill ends Gateway at once: its requests have no end.
	OpKill OpKind = "kill"
	// OpStall lets Gateway do nothing for Span: calls on their way arrive then.
	OpStall OpKind = "stall"
	// OpMove moves the cluster's slot of a shard, which is N modulo their number, to the next
	// server within Span, key by key.
	OpMove OpKind = "move"
)

// All is the gateway of an operation that concerns all, or all in turn.
const All = -1

// Never is the actual cost of requests that are not settled.
const Never = -1

// Op is one operation of a history.
type Op struct {
	At      time.Duration
	Kind    OpKind
	Gateway int    // or All: checks go to those that run in turn
	Caller  string // "" for none
	Path    string // of checks; "" is "/"
	Rule    string // of a reset, and of a fault of one shard

	// Of checks.
	N    int           // how many
	Span time.Duration // from the first to the last, and the length of a fault or a stall
	Cost int64         // under rules that count requests
	// Tokens is the estimate under rules that count tokens.
	Tokens int64
	// Lasts is how long an admitted request is under way.
	Lasts time.Duration
	// Actual is the cost that it is settled at when it ends, under rules that count
	// requests, or Never. Then ActualTokens is that under rules that count tokens.
	Actual, ActualTokens int64
	// Leaves is when the caller goes away if the request is still held, 0 for never.
	Leaves time.Duration
	// With is how many other callers make the same request, and Denied whether one more that is
	// denied is made: all are decided together.
	With   int
	Denied bool
	// Renew is whether its slots are renewed meanwhile, as the middleware does.
	Renew bool
	// Again is whether it is settled twice.
	Again bool
	// Gone is whether its caller has gone when it is settled: the context has ended.
	Gone bool
	// SettleAt is the gateway that settles it, or All for the one that decided.
	SettleAt int

	Version int           // of the rules
	Fault   Fault         // between Gateway and the store
	Step    time.Duration // of the store's clock
}

// Fault is what goes wrong between a gateway and the store.
type Fault string

// The faults. Each concerns every call of its time, those of Lossy half of them.
const (
	// Slow calls take ten times as long.
	Slow Fault = "slow"
	// LostCalls do not reach the store. The gateway waits until its deadline.
	LostCalls Fault = "lost-calls"
	// LostAnswers are of calls that ran. The gateway waits until its deadline.
	LostAnswers Fault = "lost-answers"
	// LateCalls run after the gateway has given up.
	LateCalls Fault = "late-calls"
	// Lossy loses one call of four on its way there and one answer of four.
	Lossy Fault = "lossy"
	// Refused calls were refused by the store: [store.ErrRefused].
	Refused Fault = "refused"
	// NotSent calls were not sent, as with a breaker that is open:
	// [store.ErrNotSent]. Afterwards the store is only charged for a while.
	NotSent Fault = "not-sent"
	// ShardAway: the store cannot decide the demands of Rule: [store.Unavailable].
	ShardAway Fault = "shard-away"
	// StoreStall: the servers of Redis run nothing, and then all that has arrived.
	StoreStall Fault = "store-stall"
)

// Faults are all of them that the simulated store has.
var Faults = []Fault{Slow, LostCalls, LostAnswers, LateCalls, Lossy, Refused, NotSent, ShardAway}

// endingAt is the until of a rule of a history, which begins in 1970.
func endingAt(at time.Duration) time.Time { return time.Unix(0, 0).UTC().Add(at) }

// endOf is when a rule of a history ends, if it does.
func endOf(r *rules.Rule) (at time.Duration, ends bool) {
	return r.Until.Sub(endingAt(0)), !r.Until.IsZero()
}
