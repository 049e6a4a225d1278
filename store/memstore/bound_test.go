package memstore_test

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
	"github.com/fluxgate/fluxgate/store/storetest"
)

// fixture is a store with a stopped clock and one rule.
type fixture struct {
	testing.TB
	*memstore.Store
	clock *storetest.Clock
	bands []store.ExactBand
}

func newFixture(t testing.TB, maxBuckets int, b rules.Band) *fixture {
	t.Helper()
	clock := storetest.NewClock()
	buckets, err := memstore.New(memstore.Config{MaxBuckets: maxBuckets, Clock: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	exact, err := b.Exact(0)
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{TB: t, Store: buckets, clock: clock, bands: []store.ExactBand{exact}}
}

// demand is for one caller's bucket. Callers are spread like hashes.
func (f *fixture) demand(caller int, cost int64) store.Demand {
	d := store.Demand{Key: store.Key{RuleSet: "set", Rule: "rule"}, Bands: f.bands, Cost: cost}
	binary.LittleEndian.PutUint64(d.Key.ID[:8], uint64(caller+1)*0x9e3779b97f4a7c15)
	binary.LittleEndian.PutUint64(d.Key.ID[8:], uint64(caller+1))
	return d
}

func (f *fixture) take(demands ...store.Demand) *store.Outcome {
	f.Helper()
	var out store.Outcome
	if err := f.Take(f.Context(), demands, &out); err != nil {
		f.Fatal(err)
	}
	return &out
}

func (f *fixture) left(caller int) int64 {
	f.Helper()
	var out store.Outcome
	if err := f.Peek(f.Context(), []store.Demand{f.demand(caller, 0)}, &out); err != nil {
		f.Fatal(err)
	}
	return out.Results[0].Bands[0].Remaining
}

func TestStore_DropsFullBuckets(t *testing.T) {
	// Every caller takes one token, which is back after a second; a thousand
	// callers come in a second and never again.
	f := newFixture(t, 0, rules.PerSecond(1))
	const perSecond, seconds = 1_000, 20
	for caller := range perSecond * seconds {
		f.take(f.demand(caller, 1))
		f.clock.Advance(time.Second / perSecond)
	}
	stats := f.Stats()
	if stats.Buckets < perSecond-1 || stats.Buckets > 2*perSecond {
		t.Errorf("%d buckets are remembered; %d of %d are not full", stats.Buckets, perSecond-1, perSecond*seconds)
	}
	// And they are dropped by takes and peeks of others.
	f.clock.Advance(time.Second)
	for caller := range perSecond * 4 {
		f.left(-2 - caller)
	}
	if after := f.Stats(); after.Buckets > stats.Buckets/10 || after.Evicted != 0 {
		t.Errorf("of %d buckets that are full by now %d are remembered, %d were evicted", stats.Buckets, after.Buckets, after.Evicted)
	}
}

// A bucket that has become full equals an absent one (I5), whether it was
// dropped yet or not: after a change of its rule nothing is used.
func TestStore_FullBucketAfterRuleChange(t *testing.T) {
	f := newFixture(t, 100, rules.Band{Label: "x", Capacity: 10, Refill: time.Second})
	f.take(f.demand(1, 10))
	f.clock.Advance(2 * time.Second)
	slower, err := rules.Band{Label: "x", Capacity: 10, Refill: time.Hour}.Exact(0)
	if err != nil {
		t.Fatal(err)
	}
	f.bands = []store.ExactBand{slower}
	for range 2 { // the first peek must not drop it
		if left := f.left(1); left != 10 {
			t.Errorf("%d left of a bucket that was full before its rule became slower, want 10", left)
		}
	}
}

func TestStore_KeepsBucketInUse(t *testing.T) {
	f := newFixture(t, 0, rules.PerMinute(60)) // a token a second
	for range 100 {
		f.take(f.demand(0, 2))
		f.clock.Advance(time.Second)
	}
	// It was first to be full after two seconds; by now it is empty.
	if got := f.left(0); got > 2 {
		t.Errorf("%d tokens left of a bucket that is used twice as fast as it fills", got)
	}
}

// A flood of callers never exceeds the bound.
func TestStore_Bound(t *testing.T) {
	for _, most := range []int{1, 2, 7, 100, 5_000} {
		t.Run(fmt.Sprint("of ", most), func(t *testing.T) {
			f := newFixture(t, most, rules.PerHour(100))
			for caller := range 10 * most {
				if !f.take(f.demand(caller, 1)).Admitted() {
					t.Fatal("a new caller is rejected")
				}
				if got := f.Stats().Buckets; (most <= 100 || caller%997 == 0) && got > most {
					t.Fatalf("%d buckets are remembered, at most %d may be", got, most)
				}
			}
			stats := f.Stats()
			if stats.Buckets > most || stats.Buckets < most*3/4 {
				t.Errorf("%d buckets are remembered of at most %d", stats.Buckets, most)
			}
			if want := uint64(10*most - stats.Buckets); stats.Evicted != want {
				t.Errorf("%d were evicted, want %d: all that are not remembered", stats.Evicted, want)
			}
		})
	}
}

// Callers that have used their tokens are kept during a flood.
func TestEvict_KeepsUsedBuckets(t *testing.T) {
	const most, heavy = 1_000, 50
	used := func(caller int) int64 { return int64(50 + caller%50) }
	f := newFixture(t, most, rules.PerHour(100))
	for caller := range heavy {
		// One by one: they are queued as if they had used a single token.
		for range used(caller) {
			f.take(f.demand(caller, 1))
		}
	}
	for caller := range 10 * most {
		f.take(f.demand(1_000_000+caller, 1))
	}
	for caller := range heavy {
		if got, want := f.left(caller), 100-used(caller); got != want {
			t.Errorf("caller %d has %d left after the flood, want %d", caller, got, want)
		}
	}
	if stats := f.Stats(); stats.Evicted != uint64(heavy+10*most-most) {
		t.Errorf("%+v: want as many evicted as there was no room for", stats)
	}
}

// The bucket nearest to full is evicted.
func TestEvict_NearestToFull(t *testing.T) {
	f := newFixture(t, 2, rules.PerHour(100))
	f.take(f.demand(0, 50))
	f.take(f.demand(1, 60))
	f.take(f.demand(2, 10))
	for caller, want := range []int64{100, 40, 90} {
		if got := f.left(caller); got != want {
			t.Errorf("caller %d has %d left, want %d", caller, got, want)
		}
	}
	f.take(f.demand(3, 55))
	for caller, want := range []int64{100, 40, 100, 45} {
		if got := f.left(caller); got != want {
			t.Errorf("then caller %d has %d left, want %d", caller, got, want)
		}
	}
	if stats := f.Stats(); stats != (memstore.Stats{Buckets: 2, Evicted: 2}) {
		t.Errorf("%+v, want 2 buckets and 2 evicted", stats)
	}
}

// A store full of buckets with long periods still counts callers of rules with
// short ones.
func TestEvict_ShortLimitAmongLong(t *testing.T) {
	const most = 1_000
	f := newFixture(t, most, rules.PerDay(10))
	for caller := range 2 * most {
		f.take(f.demand(caller, 1))
	}
	login, err := rules.PerMinute(5).Exact(0)
	if err != nil {
		t.Fatal(err)
	}
	passed := 0
	for range 1_000 {
		d := f.demand(1_000_000, 1)
		d.Bands = []store.ExactBand{login}
		if f.take(d).Admitted() {
			passed++
		}
	}
	if passed != 5 {
		t.Errorf("%d of 1,000 passed a limit of 5", passed)
	}
}

// A request takes from a bucket that it evicted itself to make room for
// another.
func TestEvict_OwnBucket(t *testing.T) {
	const old, light, fresh = 0, 1, 2
	for _, c := range []struct {
		name  string
		order []int
	}{
		{"which stands after the new one", []int{fresh, light}},
		{"which stands before the new one", []int{light, fresh}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, 2, rules.PerHour(100))
			f.take(f.demand(old, 10))
			f.take(f.demand(light, 1)) // the nearest to full
			out := f.take(f.demand(c.order[0], 50), f.demand(c.order[1], 50))
			if !out.Admitted() {
				t.Fatal("rejected")
			}
			for caller, want := range []int64{100, 49, 50} {
				if got := f.left(caller); got != want {
					t.Errorf("caller %d has %d left, want %d", caller, got, want)
				}
			}
		})
	}
}

func TestSettle_EvictedBucket(t *testing.T) {
	f := newFixture(t, 1, rules.PerHour(100))
	d := f.demand(0, 10)
	takes := store.NewTakes([]store.Demand{d}, f.take(d))
	f.take(f.demand(1, 20))
	// It is full again: nothing comes back, and a charge is not forgotten.
	if s, err := f.Settle(t.Context(), takes, takes.Same(0)); err != nil || s[0] != (store.Settlement{}) {
		t.Errorf("given back %+v, %v; want nothing", s, err)
	}
	if s, err := f.Settle(t.Context(), takes, takes.Same(60)); err != nil || s[0] != (store.Settlement{Charged: 50}) {
		t.Errorf("charged %+v, %v; want 50", s, err)
	}
	if got := f.left(0); got != 50 {
		t.Errorf("%d left, want 50", got)
	}
}
