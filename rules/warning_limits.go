package rules

import (
	"math/bits"
	"slices"
	"time"
)

// reachedFirst warns about a limiting rule if another rule that applies to all of its requests
// rejects each request that it would reject. end is the position of the next rule that ends the
// evaluation.
func (l *linter) reachedFirst(b int, covering []int32, end int) {
	for _, a := range covering {
		if int(a) < end && l.leads(int(a)) && l.precedes(int(a), b) {
			l.add(WarnReachedFirst, b, Path{"bands"},
				"rejects no request: the limit of rule %s, which applies to all of them, is always reached first", l.id(int(a)))
			return
		}
	}
}

// precedes reports whether every request that rule a admits is within the limits of rule b, where
// a applies to all requests of b.
func (l *linter) precedes(a, b int) bool {
	x, y := l.rule(a), l.rule(b)
	if !x.plain() || !y.plain() || x.Mode == ModeAlternative || !y.enforced() || !x.enforced() || l.replaced[x.ID] ||
		x.OnFailure != y.OnFailure ||
		x.Consistency != y.Consistency && x.Consistency != ConsistencyStrict ||
		x.OnLimitExceed != y.OnLimitExceed && x.OnLimitExceed != Reject ||
		!x.sharesBuckets(y) {
		return false
	}
	for i := range y.Bands {
		if !slices.ContainsFunc(x.Bands, func(band Band) bool { return band.precedes(&y.Bands[i]) }) {
			return false
		}
	}
	// Of two equal rules the first stays.
	return a < b || !x.coversBands(y)
}

// plain reports whether the rule counts requests, and only those that it admits. Others can be in
// debt: then the numbers alone do not say which limit is reached first.
func (r *Rule) plain() bool {
	return r.Limits() && !r.Overdraft && !r.CountRefused && r.Measure() == MeasureRequests && len(r.Bands) > 0
}

// sharesBuckets reports whether all requests that count in one bucket of the other rule count in
// one bucket of this rule, too.
func (r *Rule) sharesBuckets(other *Rule) bool {
	missing := func(r *Rule) OnMissingIdentity {
		if r.OnMissingIdentity == "" {
			return MissingIP
		}
		return r.OnMissingIdentity
	}
	if r.Scope == ScopeGlobal {
		return other.Scope == ScopeGlobal || missing(other) != MissingRefuse
	}
	return r.Scope == other.Scope && slices.Equal(r.KeyFields, other.KeyFields) && missing(r) == missing(other) &&
		(r.IgnoreCase == other.IgnoreCase || !slices.Contains(r.KeyFields, "path"))
}

// coversBands reports whether the other rule rejects each request that this one rejects.
func (r *Rule) coversBands(other *Rule) bool {
	for i := range r.Bands {
		if !slices.ContainsFunc(other.Bands, func(band Band) bool { return band.precedes(&r.Bands[i]) }) {
			return false
		}
	}
	return other.sharesBuckets(r)
}

// limits warns about bands that are never reached because of another band of the same rule.
func (l *linter) limits() {
	for i := range l.active {
		r := l.rule(i)
		if !r.plain() {
			continue
		}
		for j := range r.Bands {
			b := &r.Bands[j]
			for k := range r.Bands {
				if a := &r.Bands[k]; j != k && a.precedes(b) && (k < j || !b.precedes(a)) {
					l.add(WarnReachedFirst, i, Path{"bands", j},
						"never reaches its limit %s: %s is always reached first", b.Name(), a.Name())
					break
				}
			}
		}
	}
}

// precedes reports whether every request that the band admits is within the other band, if the
// same requests count in both, and none was counted by other numbers before.
func (b *Band) precedes(other *Band) bool {
	if other.WarnAt != (Percents{}) { // it warns
		return false
	}
	from, to := b.kind(), other.kind()
	if b.Capacity > other.Capacity {
		return false
	}
	switch {
	case from == Concurrency || to == Concurrency:
		return from == to && b.Hold >= other.Hold
	case from == TokenBucket && to == TokenBucket:
		return fits(b.Tokens(), other.Refill, other.Tokens(), b.Refill)
	case from == TokenBucket && to == Quota:
		return b.holdsFor(other.Period.Longest(), other.Capacity)
	case from == TokenBucket && to == SlidingWindow:
		return b.holdsFor(other.longest(), other.Capacity)
	case from == SlidingWindow && to == TokenBucket: // after k periods k+1 capacities, at most
		return fits(b.Capacity, other.Refill, other.Tokens(), b.Refill)
	case from == SlidingWindow && to == SlidingWindow:
		return b.Refill == other.Refill || times(b.Capacity, other.longest()/b.Refill+1, other.Capacity)
	case from == SlidingWindow && to == Quota:
		return times(b.Capacity, other.Period.Longest()/b.Refill+1, other.Capacity)
	case from == Quota && to == Quota:
		return b.Period == other.Period && b.Timezone == other.Timezone
	}
	return false
}

func (b *Band) kind() BandKind {
	if b.Kind == "" {
		return TokenBucket
	}
	return b.Kind
}

// longest is the longest interval for which a sliding window counts a request.
func (b *Band) longest() time.Duration { return b.Refill/16*17 + 17 }

// holdsFor reports whether a token bucket admits at most a number of tokens in a time.
func (b *Band) holdsFor(d time.Duration, most int64) bool {
	return fits(b.Tokens(), d, most-b.Capacity, b.Refill)
}

// fits reports whether n·d ≤ m·e.
func fits(n int64, d time.Duration, m int64, e time.Duration) bool {
	high, low := bits.Mul64(uint64(n), uint64(d))
	mostHigh, mostLow := bits.Mul64(uint64(m), uint64(e))
	return high < mostHigh || high == mostHigh && low <= mostLow
}

// times reports whether n·k ≤ m.
func times(n int64, k time.Duration, m int64) bool { return fits(n, k, m, 1) }
