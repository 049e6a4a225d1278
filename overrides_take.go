package fluxgate

import (
	"slices"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/failover"
)

// maxNumbers bounds the overrides of a rule among which that of a take is looked for.
const maxNumbers = 1_000

// numbersByRule are the numbers that the overrides of each rule have: at most maxNumbers and one
// more. They are made when they are first needed.
type numbersByRule struct {
	of      *overrideTable
	numbers map[string][]*overrideNumbers
}

// ofTake returns the rule with the numbers that it has for a bucket, given bands that the bucket
// was taken from: in the fallback, whose bands local returns, or in the store if it is nil. It returns nil if they are not
// known: overrides have digests of secrets, and a take does not tell which of them is that of
// its caller. Then the bands have to be those of the rule, or of one of its overrides.
func (e *Engine) ofTake(r *keyedRule, key store.KeyID, bands []store.ExactBand, local failover.LocalBands) *keyedRule {
	if e.knowsNumbers(r, key) {
		return e.overridden(r, key, nil)
	}
	others := e.overrides.numbersOf(r)
	if local != nil && !slices.ContainsFunc(r.bands, isTokenBucket) {
		return r // other kinds count the same under all numbers
	}
	if len(others) > maxNumbers {
		return nil
	}
	var found *keyedRule
	look := func(candidate *keyedRule) (again bool) {
		numbers := candidate.bands
		if local != nil {
			numbers = local(candidate.bandsNow(e.store))
		}
		if !haveNumbers(numbers, bands) {
			return false
		}
		again = found != nil && !haveNumbers(found.bands, candidate.bands)
		found = candidate
		return again
	}
	look(r)
	for _, n := range others {
		if look(n.overridden(r)) {
			return nil // the shares of two different numbers are equal
		}
	}
	return found
}

// knowsNumbers reports whether this engine knows the numbers that a rule has for a bucket, without
// a request of its caller.
func (e *Engine) knowsNumbers(r *keyedRule, key store.KeyID) bool {
	if e.overrides == nil || !r.secrets || e.keyer.identity != nil {
		return true
	}
	_, ok := e.overrides.find(r, key, nil)
	return ok || len(e.overrides.numbersOf(r)) == 0
}

func isTokenBucket(b store.ExactBand) bool { return b.Kind == bucket.TokenBucket }

// haveNumbers reports whether the bands of a take are some of these, as far as they count tokens.
// Takes that correct a single band have units for tokens: see [bucket.Band.WithUnit].
func haveNumbers(numbers, taken []store.ExactBand) bool {
	for i := range taken {
		t := &taken[i]
		if t.Kind != bucket.Concurrency && !slices.ContainsFunc(numbers, func(b store.ExactBand) bool {
			return b.Kind == t.Kind && b.ID == t.ID && b.Limit == t.Limit && b.Rate == t.Rate && b.Tick == t.Tick &&
				(b.Capacity == t.Capacity || t.Capacity == t.Limit)
		}) {
			return false
		}
	}
	return true
}

// numbersOf returns the numbers that the overrides of a rule have, or more than maxNumbers.
func (t *Overrides) numbersOf(r *keyedRule) []*overrideNumbers {
	s := t.sets.Entries()[r.RuleSetID]
	if s == nil {
		return nil
	}
	table, known := s.now.Load(), s.byRule.Load()
	if known == nil || known.of != table {
		known = &numbersByRule{table, map[string][]*overrideNumbers{}}
		for n := range table.numbers() {
			if list := known.numbers[n.rule]; len(list) <= maxNumbers {
				known.numbers[n.rule] = append(list, n)
			}
		}
		s.byRule.Store(known)
	}
	return known.numbers[r.ID]
}
