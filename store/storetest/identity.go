package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

var identityChecks = []Check{
	{"I7 keys that differ anywhere are different buckets", keysNeverCollide},
}

var costChecks = []Check{
	{"cost above the capacity is refused at once and takes nothing", costAboveCapacity},
	{"cost of zero takes nothing", costOfZero},
	{"cost of the whole capacity passes a full bucket", costOfCapacity},
	{"demands that break the contract are refused", brokenDemands},
}

var resetChecks = []Check{
	{"reset makes one caller's bucket full and no other", resetOne},
	{"reset makes the buckets of a rule full and no others", resetRule},
	{"reset makes the buckets of a rule set full and no others", resetRuleSet},
}

func keysNeverCollide(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.demand(1, band("", 1, 1, time.Hour))
	f.mustTake(d)
	f.mustReject(d)
	for bit := range 8 * len(d.Key.ID) {
		other := d
		other.Key.ID[bit/8] ^= 1 << (bit % 8)
		if left := f.remaining(other); left != 1 {
			t.Errorf("a key that differs in bit %d shares the bucket", bit)
		}
	}
	// Every byte value at the ends, where separators and terminators matter.
	for value := range 256 {
		for _, at := range []int{0, len(d.Key.ID) - 1} {
			first := f.demand(1, band("", 1, 1, time.Hour))
			first.Key.ID[at] = byte(value)
			second := first
			second.Key.ID[at] = byte(value + 1)
			f.mustTake(first)
			if left := f.remaining(second); left != 1 {
				t.Errorf("keys that end in %#x and %#x share a bucket", first.Key.ID[at], second.Key.ID[at])
			}
		}
	}
}

func costAboveCapacity(t testing.TB, b Backend) {
	for _, cost := range []int64{6, 1_000_000_000_000, store.MaxCost} {
		f := newFixture(t, b)
		d := f.demand(cost, band("a", 1_000_000_000_000, 1_000_000_000_000, time.Hour), band("b", 5, 5, time.Second))
		d.MaxWait = time.Hour
		other := f.demand(1, band("", 5, 5, time.Hour))
		out := f.mustReject(other, d)
		if got := out.Results[1].Status; got != store.TooCostly {
			t.Errorf("a cost of %d for a band of 5 is %v, want %v", cost, got, store.TooCostly)
		}
		if got := out.Results[1].Wait; got != 0 {
			t.Errorf("a cost that can never pass has a wait of %v", got)
		}
		d.Cost = 5
		if left := f.remaining(other); left != 5 {
			t.Errorf("the rule beside it lost %d tokens", 5-left)
		}
		f.mustTake(d)
	}
}

func costOfZero(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.demand(1, band("", 2, 1, time.Hour))
	f.mustTake(d)
	zero := d
	zero.Cost = 0
	for range 10 {
		if out := f.mustTake(zero); out.Results[0].Bands[0].Remaining != 1 {
			t.Fatalf("%d left of 2 after one was taken, want 1", out.Results[0].Bands[0].Remaining)
		}
	}
	f.mustTake(d)
	if out := f.mustTake(zero); out.Results[0].Bands[0].Remaining != 0 {
		t.Error("an empty bucket has tokens left")
	}
}

func costOfCapacity(t testing.TB, b Backend) {
	for _, capacity := range []int64{1, 1_000, 1_000_000_000} {
		f := newFixture(t, b)
		d := f.demand(capacity, band("", capacity, capacity, 24*time.Hour))
		f.mustTake(d)
		d.Cost = 1
		f.mustReject(d)
	}
}

func brokenDemands(t testing.TB, b Backend) {
	f := newFixture(t, b)
	good := f.demand(1, band("", 5, 5, time.Hour))
	negative, without, wait := good, good, good
	quota := f.demand(1, rules.Band{Kind: rules.Quota, Capacity: 5, Period: "day"}) // and no edges
	negative.Cost = -1
	without.Bands = nil
	wait.MaxWait = store.MaxWait + 1
	other := good
	other.Key.Rule = "another"
	crowd := make([]store.Demand, store.MaxMatches+1)
	for i := range crowd {
		crowd[i] = f.demand(1, band("", 5, 5, time.Hour))
	}
	for name, demands := range map[string][]store.Demand{
		"too many at once": crowd,
		"a negative cost":  {negative}, "no bands": {without}, "a wait beyond all bounds": {wait}, "a quota without a period": {quota},
		"one key twice": {good, good}, "one key under two rules": {good, other},
	} {
		var out store.Outcome
		if err := f.Store.Take(f.Context(), demands, &out); !errors.Is(err, store.ErrDemand) {
			t.Errorf("%s: error %v, want %v", name, err, store.ErrDemand)
		}
	}
	if left := f.remaining(good); left != 5 {
		t.Errorf("refused demands took %d tokens", 5-left)
	}
}

// spread drains one token of each of several callers of two rules in two rule
// sets and returns their demands.
func spread(f *fixture) map[string]store.Demand {
	f.Helper()
	demands := map[string]store.Demand{}
	for _, set := range []string{"a", "b"} {
		for _, rule := range []string{"1", "2"} {
			for caller := range 3 {
				d := f.demand(5, band("", 5, 1, time.Hour))
				d.Key.RuleSet, d.Key.Rule = f.ruleSet+set, rule
				f.mustTake(d)
				demands[fmt.Sprint(set, rule, caller)] = d
			}
		}
	}
	return demands
}

// expectFull fails unless exactly the buckets that full names are full.
func expectFull(f *fixture, demands map[string]store.Demand, full func(name string) bool) {
	f.Helper()
	for name, d := range demands {
		want := int64(0)
		if full(name) {
			want = 5
		}
		if left := f.remaining(d); left != want {
			f.Errorf("caller %s has %d left, want %d", name, left, want)
		}
	}
}

func (f *fixture) reset(what store.Key) {
	f.Helper()
	if did, err := f.Store.Reset(f.Context(), store.Reset{Key: what}); !did || err != nil {
		f.Fatalf("Reset: %t, %v", did, err)
	}
}

func resetOne(t testing.TB, b Backend) {
	f := newFixture(t, b)
	demands := spread(f)
	f.reset(demands["a11"].Key)
	expectFull(f, demands, func(name string) bool { return name == "a11" })
	f.mustTake(demands["a11"])
	f.mustReject(demands["a11"])
}

func resetRule(t testing.TB, b Backend) {
	f := newFixture(t, b)
	demands := spread(f)
	for range 3 {
		f.reset(store.Key{RuleSet: f.ruleSet + "a", Rule: "1"})
		expectFull(f, demands, func(name string) bool { return name[:2] == "a1" })
		for name, d := range demands {
			if name[:2] == "a1" {
				f.mustTake(d)
				f.mustReject(d)
			}
		}
	}
}

func resetRuleSet(t testing.TB, b Backend) {
	f := newFixture(t, b)
	demands := spread(f)
	f.reset(store.Key{RuleSet: f.ruleSet + "b"})
	expectFull(f, demands, func(name string) bool { return name[0] == 'b' })
}
