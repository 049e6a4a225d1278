package model

import (
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/model/redissim"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// FactKind is what happened.
type FactKind string

// The kinds of facts. Those about the store happened at the store: what the gateways
// know of it may differ.
const (
	// Decided: Gateway decided a request of Caller, by Version, and Check names it.
	// Rules has what each rule said.
	Decided FactKind = "decided"
	// Peeked: as Decided, and nothing was taken.
	Peeked FactKind = "peeked"
	// Ended: the request Check is not under way any more. A settlement follows, unless
	// it is never settled. It is there for every decision that admitted.
	Ended FactKind = "ended"
	// Settled: Gateway settled Check at Actual and ActualTokens. Settlements has the
	// results by measure, Err what failed. Again marks the second time.
	Settled FactKind = "settled"
	// Extended: Gateway renewed the slots of Check. Err says why not.
	Extended FactKind = "extended"
	// ResetAsked and ResetDone: a reset at Gateway of Rule (all without) and Caller (all
	// without). Err says what failed.
	ResetAsked FactKind = "reset-asked"
	ResetDone  FactKind = "reset-done"
	// RulesWritten: Version was written. RulesInEffect: Gateway decides by it from now.
	RulesWritten  FactKind = "rules-written"
	RulesInEffect FactKind = "rules-in-effect"
	// FaultBegan and FaultEnded: Fault between Gateway (or All) and the store.
	FaultBegan FactKind = "fault-began"
	FaultEnded FactKind = "fault-ended"
	// Started, Stopped, Killed, Stalled and Resumed: Gateway.
	Started FactKind = "started"
	Stopped FactKind = "stopped"
	Killed  FactKind = "killed"
	Stalled FactKind = "stalled"
	Resumed FactKind = "resumed"
	// FleetSeen: Gateway knows from now on that there are Gateways of them.
	FleetSeen FactKind = "fleet-seen"
	// ClockStepped: the store's clock was moved by Step.
	ClockStepped FactKind = "clock-stepped"

	// StoreTook: a Take of Gateway ran at the store. Buckets has what each demand was
	// granted. Charge is whether the engine charged what its fallback had granted.
	StoreTook FactKind = "store-took"
	// StorePeeked: a Peek of Gateway ran at the store.
	StorePeeked FactKind = "store-peeked"
	// StoreSettled: a Settle of Gateway ran at the store.
	StoreSettled FactKind = "store-settled"
	// StoreExtended: an Extend of Gateway ran at the store. Held is its answer.
	StoreExtended FactKind = "store-extended"
	// StoreReset: a Reset of Gateway ran at the store, of Rule (all without) and of one
	// bucket, if Buckets has it. Of a rule or the set it is a new generation: gateways
	// use it when they see it, which is ResetSeen.
	StoreReset FactKind = "store-reset"
	ResetSeen  FactKind = "reset-seen"
	// StoreEmptied: the store was restarted and has nothing any more.
	StoreEmptied FactKind = "store-emptied"
	// FallbackTook and FallbackSettled: as StoreTook and StoreSettled, in the fallback
	// of Gateway.
	FallbackTook    FactKind = "fallback-took"
	FallbackSettled FactKind = "fallback-settled"
	FallbackReset   FactKind = "fallback-reset"
	// StoreWarned: the store has a new Warning, of Gateway. WarnFailed: Gateway had no answer
	// that the store has it.
	StoreWarned FactKind = "store-warned"
	WarnFailed  FactKind = "warn-failed"
	// ServerCalled: in a history with Redis, Gateway sent a Call of the script. ServerHas: in the end
	// the servers have this of a bucket set, and Holds has the requests that hold slots of it.
	ServerCalled FactKind = "server-called"
	ServerHas    FactKind = "server-has"
)

// Fact is one thing that happened. Facts are in the order in which they ended.
type Fact struct {
	Kind FactKind
	// Began and At are when it began and ended, in virtual time since the history began.
	Began, At time.Duration
	// Clock is the store's clock at At, in microseconds since 1970. Facts about the
	// fallback have that of the fallback.
	Clock int64
	// Op is the index of the operation that it is of, or -1.
	Op int
	// Gateway is its number, or All.
	Gateway int
	// Check names the request, from 1 on, or is 0.
	Check  int
	Caller string
	Rule   string
	// Version is that by which Gateway decided when the request began.
	Version int

	// Of decisions.
	Allowed, Degraded bool
	Reason            fluxgate.Reason
	Source            store.Source
	// Held is how long the request was held; At is after that. Asked was at Began.
	Held       time.Duration
	RetryAfter time.Duration
	// Cost and Tokens are what was asked.
	Cost, Tokens int64
	Rules        []RuleFact

	// Of settlements.
	Actual, ActualTokens int64
	Settlements          map[string]store.Settlement
	Again                bool

	// Of the store and the fallback.
	Buckets []BucketFact
	// Charge is whether it is a charge after an outage, and Leased whether it has no
	// request of its own: a slice of a lease, or what a lease gives back.
	Charge, Leased bool
	// Admitted is whether all enforced demands of a take fit.
	Admitted bool
	// Answered is whether the gateway had the answer in time.
	Answered bool
	// SlotsHeld is the answer of an Extend.
	SlotsHeld bool
	Warning   *store.Warning

	Call  *redissim.Call
	Holds []Hold

	Fault    Fault
	Step     time.Duration
	Gateways int
	// Err is the error that a gateway returned, or nil.
	Err error
}

// RuleFact is what one rule said about a request.
type RuleFact struct {
	Rule *rules.Rule
	// Bucket names the bucket set: its rule, scope and identity.
	Bucket string
	Status store.Status
	Source store.Source
	// Cost is what the request asked of the rule. Granted is what it took of every band:
	// 0 where nothing was taken.
	Cost, Granted int64
	// Bands has one entry for each band of Rule. Limit is its capacity where it was
	// decided: in the fallback, its share.
	Bands []BandFact
}

// BandFact is a band after a decision.
type BandFact struct {
	Limit, Remaining, Owed int64
	Wait, FullAfter        time.Duration
}

// BucketFact is what happened to one bucket set at a store.
type BucketFact struct {
	// Bucket names the bucket set: its rule, scope and identity.
	Bucket, Rule string
	// Generation is 0 until the first reset of its rule or the rule set, as the gateway
	// sees it.
	Generation int
	// Exact are the bands that the gateway sent. Those of a charge have units of their
	// own: see [store.ExactBand].
	Exact  []store.ExactBand
	Beside []store.ExactBand // bands of the rule that a charge leaves alone
	Shadow bool
	// Overdraft is whether it was debited in any case, and Alternative whether it rejects only
	// with all others that are.
	Overdraft, Alternative bool
	// DebitOnly is whether the request was rejected before, so that it is debited alone.
	DebitOnly bool
	Status    store.Status
	// Of a take: what was asked, at least and at most, and granted. An overdraft was
	// granted the smallest debit of a band.
	Cost, Min, Granted int64
	MaxWait, Wait      time.Duration
	// Holder is who holds slots, from 1 on, or 0.
	Holder int
	// Of a settlement: Cost is what was taken, Actual what it is settled at, TakenAt the
	// clock that took it, and Fallback whether the fallback did.
	Actual            int64
	TakenAt           int64
	Fallback          bool
	Returned, Charged int64
	// Bands are those after a take or a peek.
	Bands []BandFact
	// Level has the levels of the bands Taken after a settlement.
	Level *store.Result
	Taken []store.ExactBand
}

// Hold is a slot that a request holds at the servers of Redis.
type Hold struct {
	Check int // 0 if it is not known
	ID    store.HolderID
}
