package model

import (
	"math/big"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// This file is what FluxGate publishes about its limits, and the tolerances of the
// specification. docs/reliability.md has the comments of the functions as a table, which
// TestBounds_Docs writes: C is the capacity of a limit, which regains R tokens every D.

// tokenBucketBound is what a token bucket admits in any time T: at most C + R·T/D. A request that waits counts
// when its tokens are due.
func tokenBucketBound(b *rules.Band, t time.Duration) *big.Rat {
	return new(big.Rat).Add(whole(b.Capacity), regained(b, t))
}

// quotaBound is what a quota admits in one of its periods: at most C.
func quotaBound(b *rules.Band) *big.Rat { return whole(b.Capacity) }

// windowBound is what a sliding window admits in any interval of its period: at most C.
func windowBound(b *rules.Band) *big.Rat { return whole(b.Capacity) }

// slotsBound is what a limit of concurrent requests admits: at most C that are neither settled nor lost. A
// slot is lost `hold` after it was taken or last renewed.
func slotsBound(b *rules.Band) int64 { return b.Capacity }

// leaseAdds is what the use of local tokens adds: R·L/D. The lease time L is 250 ms.
func leaseAdds(b *rules.Band) *big.Rat { return regained(b, leaseTime) }

// outageAdds is what each server adds that decides without Redis: its share of C, which is C/N rounded down and at
// least one token, and of the refill, which is R/N: never more, and less by under a ten-millionth where the numbers
// cannot be exact. A token in 35 years is the slowest. N is the number of servers that it last knew, also before a
// restart. Where requests wait, also the same share of R·W/D for the longest wait W. If other servers have Redis
// meanwhile, also the same share of the refill. A reset that fails for lack of Redis adds the same once more at its
// server. The periods of quotas are by the server's clock.
func outageAdds(b *rules.Band, servers int, wait time.Duration) *big.Rat {
	return new(big.Rat).Add(outageRefills(b, servers, wait), whole(shareOf(b, servers)))
}

// shareOf is the share of the capacity that one of some servers has.
func shareOf(b *rules.Band, servers int) int64 {
	return max(1, b.Capacity/int64(max(1, servers)))
}

// outageRefills is the refill of outageAdds.
func outageRefills(b *rules.Band, servers int, t time.Duration) *big.Rat {
	return new(big.Rat).Quo(regained(b, t), whole(int64(max(1, servers))))
}

// unchargedAdds is what a server adds that is killed, or whose rule changes, before it has charged Redis, or whose
// charge is lost: the same once more.
func unchargedAdds(b *rules.Band, servers int, wait, t time.Duration) *big.Rat {
	return new(big.Rat).Add(outageAdds(b, servers, wait), outageRefills(b, servers, t))
}

// resetAdds is what a reset adds: C as after a loss, and R·T/D for the time T until the last server sees it. T is at most 250 ms
// for servers that have Redis. Where requests wait, also R·W/D for the longest wait W.
func resetAdds(b *rules.Band, seen, wait time.Duration) *big.Rat {
	return new(big.Rat).Add(lossAdds(b, wait), regained(b, seen))
}

// lossAdds is what a loss of the state of Redis adds: C, until what was taken before is settled. For other kinds than a
// token bucket it is the highest C of the period. Where requests wait, also R·W/D for the longest wait W.
func lossAdds(b *rules.Band, wait time.Duration) *big.Rat {
	return new(big.Rat).Add(whole(b.Capacity), regained(b, wait))
}

// stepAdds is what a step of the clock of Redis adds: forward by T, R·T/D and at most C, and for other kinds C. Where
// requests wait, at most C and R·W/D for the longest wait W. A step back adds nothing, except what is settled across it,
// and the C of a quota whose period had ended and begins again.
func stepAdds(b *rules.Band, step, wait time.Duration, overdraft *big.Rat) *big.Rat {
	if step <= 0 {
		return new(big.Rat)
	}
	full := new(big.Rat).Add(lossAdds(b, wait), overdraft)
	if kindOf(b) != rules.TokenBucket {
		return full
	}
	return lesser(regained(b, step), full)
}

// changeAdds is what a change of the numbers of a limit adds: for a token bucket the new C, counted from the first
// server that uses it to the last that uses the old one. Where requests wait, also the refill of the old numbers in
// this time: each version admits its own C + R·T/D. For other kinds nothing: the number that is used stays.
// Another period of a quota counts from the end of the current one.
func changeAdds(b *rules.Band) *big.Rat {
	if kindOf(b) != rules.TokenBucket {
		return new(big.Rat)
	}
	return whole(b.Capacity)
}

// overdraftAdds is what an overdraft adds: the cost of one request. It is admitted while a token is left, and what it
// takes beyond that is debt. An outage, a reset, a loss, a step forward, for a token bucket other numbers and for other
// kinds a higher C, also such that some servers still use, end the debt and add the cost once more.
func overdraftAdds(cost int64) *big.Rat { return whole(cost) }

// The times that are published.
const (
	// leaseTime is L in docs/scaling.md.
	leaseTime = 250 * time.Millisecond
	// resetSeen is how long a server that has Redis may use the buckets of before a reset.
	resetSeen = 250 * time.Millisecond
	// refusedWhileFree is for how long a request is refused although the store has its
	// tokens: a pause, and the time that the request that ends it may take for its answer.
	refusedWhileFree = 125 * time.Millisecond
	// refusalAge is for how long a refusal is repeated from memory: what is given back
	// elsewhere is seen after that.
	refusalAge = time.Second
	// callTimeout is how long a decision waits for the store.
	callTimeout = 100 * time.Millisecond
	// recovery is how long after a fault requests may be decided without the store.
	recovery = 2 * time.Second
	// largestDebt is the refill that a token bucket may owe, if that is more than its
	// capacity.
	largestDebt = time.Hour
)

// windowLate is the part of its period by which a sliding window may keep a token longer
// than a log would.
var windowLate = big.NewRat(1, 16)

// The tolerances of the specification. Each is for something that is not a promise.
var (
	// carryRounding is what one change of numbers may lose: it is rounded against the
	// caller, to a unit that is about a millionth of a token where the numbers allow it,
	// and to a whole token at worst.
	carryRounding = whole(1)
	// chargeRounding is how far a charge may be from what a bucket held: its amount is
	// in whole tokens of the band that is charged most.
	chargeRounding = whole(1)
	// chargeTicks is what each charge loses of times, which are whole microseconds.
	chargeTicks = 10 * time.Microsecond
	// heldPart is the part of a capacity that may be in slices of other gateways.
	heldPart = big.NewRat(1, 3)
	// usedPart is the part of a saturated bucket that is handed out at least, besides what
	// is in slices: leases lose a little.
	usedPart = big.NewRat(9, 10)
	// sharedRate is the part of its share of the refill that a server regains at least without the
	// store: it is rounded against the caller.
	sharedRate = big.NewRat(99, 100)
)

// lostSlice is how many tokens of a slice each gateway may lose if it had no burst. After
// one it may lose as many as it has admitted.
const lostSlice = 12

// saturated is how long a bucket has to be saturated before usedPart is demanded of it:
// slices and pauses are short against that.
const saturated = time.Second

func whole(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

// regained is what a token bucket regains in a time: R·T/D. Other kinds regain nothing
// evenly.
func regained(b *rules.Band, t time.Duration) *big.Rat {
	if kindOf(b) != rules.TokenBucket || t <= 0 {
		return new(big.Rat)
	}
	r := new(big.Rat).SetFrac64(int64(t), int64(b.Refill))
	return r.Mul(r, whole(b.Tokens()))
}

func kindOf(b *rules.Band) rules.BandKind {
	if b.Kind == "" {
		return rules.TokenBucket
	}
	return b.Kind
}
