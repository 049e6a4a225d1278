package storetest

import (
	"crypto/rand"
	"slices"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// fixture is a backend with helpers for checks.
type fixture struct {
	testing.TB
	Backend
	ruleSet string
}

func newFixture(t testing.TB, b Backend) *fixture {
	t.Helper()
	return &fixture{TB: t, Backend: b, ruleSet: "storetest-" + rand.Text()[:12]}
}

// key returns the key of an unused bucket set.
func (f *fixture) key(rule string) store.Key {
	k := store.Key{RuleSet: f.ruleSet, Rule: rule}
	_, _ = rand.Read(k.ID[:]) // never fails
	return k
}

// bands converts bands to exact integers.
func (f *fixture) bands(bands ...rules.Band) []store.ExactBand {
	f.Helper()
	exact := make([]store.ExactBand, len(bands))
	for i, b := range bands {
		var err error
		if exact[i], err = b.Exact(i); err != nil {
			f.Fatal(err)
		}
	}
	return exact
}

// demand is for cost tokens of a fresh key.
func (f *fixture) demand(cost int64, bands ...rules.Band) store.Demand {
	f.Helper()
	return store.Demand{Key: f.key("rule"), Bands: f.bands(bands...), Cost: cost}
}

func (f *fixture) take(demands ...store.Demand) *store.Outcome {
	f.Helper()
	var out store.Outcome
	if err := f.Store.Take(f.Context(), demands, &out); err != nil {
		f.Fatalf("Take: %v", err)
	}
	if !slices.ContainsFunc(out.Results, fromMemory) {
		return &out
	}
	return f.takeStrict(demands, &out)
}

func fromMemory(r store.Result) bool { return r.Source == store.FromNegativeCache }

// takeStrict returns the outcome of the shared store for demands that were refused
// from memory. It must refuse them too, and the numbers from memory are lower bounds.
func (f *fixture) takeStrict(demands []store.Demand, known *store.Outcome) *store.Outcome {
	f.Helper()
	strict := slices.Clone(demands)
	for i := range strict {
		strict[i].Strict = true
	}
	var out store.Outcome
	if err := f.Store.Take(f.Context(), strict, &out); err != nil {
		f.Fatalf("Take: %v", err)
	}
	if slices.ContainsFunc(out.Results, fromMemory) {
		f.Fatalf("strict demands are answered from memory: %+v", out.Results)
	}
	if known.Admission != store.NotAdmitted || out.Admission != store.NotAdmitted {
		f.Fatalf("from memory the request is %+v, in the store %+v", known.Results, out.Results)
	}
	for i, r := range known.Results {
		exact := &out.Results[i]
		if r.Status == store.NotAsked {
			continue
		}
		if demands[i].Shadow || r.Status != exact.Status || r.Granted != 0 || r.Wait > exact.Wait {
			f.Fatalf("from memory a demand is %+v, in the store %+v", r, exact)
		}
		for j, b := range r.Bands {
			if e := exact.Bands[j]; b.Wait > e.Wait || b.Remaining > e.Remaining || b.FullAfter > e.FullAfter {
				f.Fatalf("from memory a band is %+v, in the store %+v", b, e)
			}
		}
	}
	return &out
}

func (f *fixture) peek(demands ...store.Demand) *store.Outcome {
	f.Helper()
	var out store.Outcome
	if err := f.Store.Peek(f.Context(), demands, &out); err != nil {
		f.Fatalf("Peek: %v", err)
	}
	return &out
}

// mustTake takes and fails unless it was admitted.
func (f *fixture) mustTake(demands ...store.Demand) *store.Outcome {
	f.Helper()
	out := f.take(demands...)
	if !out.Admitted() {
		f.Fatalf("rejected, though there are tokens: %+v", out.Results)
	}
	return out
}

// mustReject fails if it was admitted.
func (f *fixture) mustReject(demands ...store.Demand) *store.Outcome {
	f.Helper()
	out := f.take(demands...)
	if out.Admitted() {
		f.Fatalf("admitted, though there are no tokens: %+v", out.Results)
	}
	return out
}

// drain takes one token at a time until rejected and returns how many the shared store
// had.
func (f *fixture) drain(d store.Demand) int64 {
	f.Helper()
	d.Cost, d.Strict = 1, true
	for n := int64(0); ; n++ {
		if !f.take(d).Admitted() {
			return n
		}
		if n > 100_000 {
			f.Fatal("more than 100,000 tokens and no end")
		}
	}
}

// remaining is what is left in the first band.
func (f *fixture) remaining(d store.Demand) int64 {
	f.Helper()
	d.Cost, d.Min = 0, 0
	return f.peek(d).Results[0].Bands[0].Remaining
}

func (f *fixture) settle(actual int64, out *store.Outcome, demands ...store.Demand) store.Settlement {
	f.Helper()
	takes := store.NewTakes(demands, out)
	if takes == nil {
		f.Fatal("nothing to settle")
	}
	return store.MergeSettlements(f.settleEach(takes, takes.Same(actual)...))
}

// settleEach settles the takes of a receipt at a cost each.
func (f *fixture) settleEach(takes store.Takes, actual ...int64) []store.Settlement {
	f.Helper()
	settled, err := f.Store.Settle(f.Context(), takes, actual)
	if err != nil || len(settled) != len(takes) {
		f.Fatalf("Settle: %d settlements of %d takes, %v", len(settled), len(takes), err)
	}
	return settled
}

// band is a labelled band.
func band(label string, capacity, tokens int64, period time.Duration) rules.Band {
	return rules.Band{Label: label, Capacity: capacity, RefillTokens: tokens, Refill: period}
}
