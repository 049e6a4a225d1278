package memstore_test

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"net/netip"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
	"github.com/fluxgate/fluxgate/store/storetest"
)

var seed = maphash.MakeSeed()

// under is a demand for one token of a caller's bucket under another rule.
func (f *fixture) under(ruleSet, rule string, b rules.Band, caller int) store.Demand {
	f.Helper()
	exact, err := b.Exact(0)
	if err != nil {
		f.Fatal(err)
	}
	d := f.demand(caller, 1)
	binary.LittleEndian.PutUint64(d.Key.ID[8:], maphash.String(seed, ruleSet+"/"+rule)^uint64(caller))
	d.Key.RuleSet, d.Key.Rule, d.Bands = ruleSet, rule, []store.ExactBand{exact}
	return d
}

// passes counts how many of the requests are admitted.
func (f *fixture) passes(requests int, next func(i int) store.Demand) (passed int) {
	f.Helper()
	for i := range requests {
		if f.take(next(i)).Admitted() {
			passed++
		}
	}
	return passed
}

// bounds are a store of one shard and one of several.
var bounds = []int{1_000, 5_000}

// login is a short limit, as the one that a flood of a long one would evict.
var login = rules.PerMinute(5)

// A caller that used up a short limit stays limited, however many callers of a
// long limit come after it: of another rule, or of the rule of the same name in
// another rule set.
func TestShare_LimitFirst(t *testing.T) {
	for _, most := range bounds {
		for _, flood := range [][2]string{{"set", "export"}, {"other", "login"}} {
			t.Run(fmt.Sprint(flood, " of ", most), func(t *testing.T) {
				f := newFixture(t, most, rules.PerDay(10))
				attacker := f.under("set", "login", login, -1)
				passed := f.passes(10, func(int) store.Demand { return attacker })
				for round := range 20 {
					f.passes(most/2, func(i int) store.Demand {
						return f.under(flood[0], flood[1], rules.PerDay(10), round*most+i)
					})
					passed += f.passes(5, func(int) store.Demand { return attacker })
				}
				if passed != 5 {
					t.Errorf("%d requests passed a limit of 5 during a flood of another rule", passed)
				}
			})
		}
	}
}

// Callers of a short limit are counted in a store that callers of a long limit
// filled before: one caller, callers of one rule that alternate, and callers
// of two rules that alternate.
func TestShare_FloodFirst(t *testing.T) {
	for _, most := range bounds {
		for _, c := range []struct {
			name    string
			callers []string // their rules
		}{
			{"one caller", []string{"login"}},
			{"two callers alternate", []string{"login", "login"}},
			{"three callers alternate", []string{"login", "login", "login"}},
			{"callers of two rules alternate", []string{"login", "signup"}},
		} {
			t.Run(fmt.Sprint(c.name, " of ", most), func(t *testing.T) {
				f := newFixture(t, most, rules.PerDay(10))
				// All tokens at once: nothing is further from full.
				for caller := range 2 * most {
					f.take(f.demand(caller, 10))
				}
				passed := f.passes(100*len(c.callers), func(i int) store.Demand {
					who := i % len(c.callers)
					return f.under("set", c.callers[who], login, -1-16*who) // in one shard
				})
				if want := 5 * len(c.callers); passed != want {
					t.Errorf("%d requests passed limits of %d", passed, want)
				}
			})
		}
	}
}

// Rules that are flooded keep their shares, in whatever order their callers
// come, and a rule that needs less than its share keeps all it has. The rules
// of two rule sets are different rules even if their ids are the same.
func TestShare_Equal(t *testing.T) {
	type name struct{ ruleSet, rule string }
	floods := []name{{"a", "x"}, {"a", "y"}, {"b", "x"}}
	for _, most := range bounds {
		t.Run(fmt.Sprint("of ", most), func(t *testing.T) {
			f := newFixture(t, most, rules.PerMinute(1))
			share, modest := most/4, most/10
			limited := func(of name, caller int) bool {
				f.clock.Advance(time.Microsecond) // the last ones are the furthest from full
				band := rules.PerDay(1)
				if of.rule == "modest" {
					band = rules.PerMinute(1)
				}
				return !f.take(f.under(of.ruleSet, of.rule, band, caller)).Admitted()
			}
			for caller := range modest {
				limited(name{"b", "modest"}, caller)
			}
			for _, flood := range floods { // one after the other, then together
				for caller := range 2 * most {
					limited(flood, 1_000_000+caller)
				}
			}
			for caller := range 2 * most {
				for _, flood := range floods {
					limited(flood, 2_000_000+caller)
				}
			}
			for caller := range modest {
				if !limited(name{"b", "modest"}, caller) {
					t.Fatalf("caller %d of the rule below its share was forgotten", caller)
				}
			}
			for _, flood := range floods {
				kept := 0
				for caller := 2*most - share*95/100; caller < 2*most; caller++ { // hashes spread unevenly
					if limited(flood, 2_000_000+caller) {
						kept++
					}
				}
				if kept != share*95/100 {
					t.Errorf("rule %s of %s keeps %d of its last %d buckets; its share is %d", flood.rule, flood.ruleSet, kept, share*95/100, share)
				}
			}
		})
	}
}

// A rule that has reached its share takes no more from others, even from a rule
// that is above its own.
func TestShare_Reached(t *testing.T) {
	f := newFixture(t, 12, rules.PerDay(10))
	for caller := range 2 {
		f.take(f.under("set", "small", login, caller))
	}
	for caller := range 10 {
		f.take(f.demand(caller, 1+int64(caller/4))) // the first four are nearest to full
	}
	for caller := range 20 {
		f.take(f.under("set", "late", rules.PerDay(10), 100+caller))
	}
	// Three rules, four each: the late one got no more than that.
	for caller := range 10 {
		want := 9 - int64(caller/4)
		if caller < 4 {
			want = 10 // evicted
		}
		if left := f.left(caller); left != want {
			t.Errorf("caller %d has %d left, want %d", caller, left, want)
		}
	}
}

// A full bucket is dropped before any other, whatever its rule.
func TestShare_FullBucketsGoFirst(t *testing.T) {
	f := newFixture(t, 4, rules.PerDay(10))
	for caller := range 2 {
		f.take(f.demand(caller, 5))
		f.take(f.under("set", "other", rules.PerSecond(1), caller))
	}
	f.clock.Advance(2 * time.Second)
	f.take(f.demand(2, 5)) // its rule is at its share
	for caller := range 3 {
		if left := f.left(caller); left != 5 {
			t.Errorf("caller %d has %d left, want 5", caller, left)
		}
	}
	if evicted := f.Stats().Evicted; evicted != 0 {
		t.Errorf("%d buckets evicted while there were full ones", evicted)
	}
}

// With more rules than room every new bucket is still stored, and the bound
// holds.
func TestShare_MoreRulesThanRoom(t *testing.T) {
	const most, count = 50, 10_000
	f := newFixture(t, most, rules.PerDay(10))
	for i := range count {
		d := f.under("set", fmt.Sprint("rule-", i), login, i)
		if passed := f.passes(8, func(int) store.Demand { return d }); passed != 5 {
			t.Fatalf("%d requests passed rule %d, want 5", passed, i)
		}
		if got := f.Stats().Buckets; got > most {
			t.Fatalf("%d buckets are remembered, at most %d may be", got, most)
		}
	}
}

// The same through an engine: 100 logins of an address that may do 5 a minute,
// in between invented users of a rule with a daily limit.
func TestShare_ThroughAnEngine(t *testing.T) {
	clock := storetest.NewClock()
	store, err := memstore.New(memstore.Config{MaxBuckets: 2_000, Clock: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	set, err := rules.NewSet("shop",
		rules.Rule{ID: "login", Paths: []string{"/login"}, Scope: rules.ScopeIP, Bands: []rules.Band{login}},
		rules.Rule{ID: "export", Paths: []string{"/export"}, Scope: rules.ScopeUser, Bands: []rules.Band{rules.PerDay(10)}})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := fluxgate.New(store, fluxgate.Static(set))
	if err != nil {
		t.Fatal(err)
	}
	passed := 0
	for i := range 100 {
		d, err := engine.Check(t.Context(), &fluxgate.Request{Method: "POST", Path: "/login", IP: netip.MustParseAddr("203.0.113.7")})
		if err != nil {
			t.Fatal(err)
		}
		if d.Allowed {
			passed++
		}
		for user := range 500 {
			if _, err := engine.Check(t.Context(), &fluxgate.Request{Method: "GET", Path: "/export", UserID: fmt.Sprint("made up ", i, user)}); err != nil {
				t.Fatal(err)
			}
		}
		clock.Advance(time.Millisecond)
	}
	if passed != 5 {
		t.Errorf("%d of 100 logins passed a limit of 5", passed)
	}
}

// A bucket that is full and dropped between any two requests of its caller
// costs no allocation, neither for itself nor for its rule.
func TestShare_ComeAndGoAllocs(t *testing.T) {
	f := newFixture(t, 100, rules.PerSecond(1))
	demands := []store.Demand{f.demand(1, 1)}
	var out store.Outcome
	allocs := testing.AllocsPerRun(1_000, func() {
		f.clock.Advance(time.Second)
		if err := f.Peek(t.Context(), demands, &out); err != nil || f.Stats().Buckets != 0 {
			t.Fatal("the full bucket is not dropped", err)
		}
		if err := f.Take(t.Context(), demands, &out); err != nil || !out.Admitted() {
			t.Fatal(out.Admitted(), err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations per request", allocs)
	}
}
