package storetest

import (
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

var rejectionChecks = []Check{
	{"I3 a rejection takes nothing and moves no time", rejectionChangesNothing},
	{"I3 a peek changes nothing", peekChangesNothing},
}

var atomicChecks = []Check{
	{"I4 a request takes from every band or from none", allBandsOrNone},
	{"I4 a request takes from every rule or from none", allRulesOrNone},
	{"I4 a shadow rule takes where it fits and never vetoes", shadowNeverVetoes},
	{"I4 a shadow rule takes nothing when an enforced one vetoes", shadowTakesNothingWhenVetoed},
	{"I4 a shadow rule takes its tokens and its slot, or neither", shadowTakesBothOrNeither},
}

func rejectionChangesNothing(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.demand(1, band("", 5, 5, 10*time.Second)) // a token every 2 s
	f.drain(d)
	// Ask at odd moments for two seconds less a microsecond.
	elapsed := time.Duration(0)
	for step := 7 * time.Millisecond; elapsed+step < 2*time.Second; elapsed += step {
		f.Advance(step)
		out := f.mustReject(d)
		if want := 2*time.Second - elapsed - step; out.Results[0].Wait != want {
			t.Fatalf("after %v a rejected request would fit in %v, want %v", elapsed+step, out.Results[0].Wait, want)
		}
		if want := 10*time.Second - elapsed - step; out.Results[0].Bands[0].FullAfter != want {
			t.Fatalf("after %v the bucket is full in %v, want %v", elapsed+step, out.Results[0].Bands[0].FullAfter, want)
		}
	}
	f.Advance(2*time.Second - elapsed - time.Microsecond)
	f.mustReject(d)
	f.Advance(time.Microsecond)
	f.mustTake(d)
}

func peekChangesNothing(t testing.TB, b Backend) {
	f := newFixture(t, b)
	d := f.demand(3, band("", 5, 1, time.Second))
	for range 10 {
		if out := f.peek(d); !out.Admitted() || out.Results[0].Bands[0].Remaining != 5 {
			t.Fatalf("a peek at a full bucket of 5 says %+v", out)
		}
	}
	f.mustTake(d)
	for range 10 {
		f.Advance(10 * time.Millisecond)
		if out := f.peek(d); out.Admitted() || out.Results[0].Bands[0].Remaining != 2 {
			t.Fatalf("a peek for 3 of 2 tokens says %+v", out)
		}
	}
	f.Advance(900 * time.Millisecond)
	f.mustTake(d)
}

func allBandsOrNone(t testing.TB, b Backend) {
	f := newFixture(t, b)
	// The empty band is first, in the middle and last.
	for empty := range 3 {
		bands := []rules.Band{band("a", 50, 50, time.Hour), band("b", 50, 50, time.Hour), band("c", 50, 50, time.Hour)}
		bands[empty].Capacity, bands[empty].RefillTokens = 2, 2
		d := f.demand(1, bands...)
		f.mustTake(d)
		f.mustTake(d)
		for range 20 {
			f.mustReject(d)
		}
		d.Cost = 0
		for i, left := range f.peek(d).Results[0].Bands {
			want := int64(48)
			if i == empty {
				want = 0
			}
			if left.Remaining != want {
				t.Errorf("band %d is empty; band %d has %d left after 2 of 22 requests passed, want %d", empty, i, left.Remaining, want)
			}
		}
	}
}

func allRulesOrNone(t testing.TB, b Backend) {
	f := newFixture(t, b)
	for empty := range 3 {
		demands := make([]store.Demand, 3)
		for i := range demands {
			capacity := int64(50)
			if i == empty {
				capacity = 2
			}
			demands[i] = f.demand(1, band("", capacity, capacity, time.Hour))
		}
		f.mustTake(demands...)
		f.mustTake(demands...)
		for range 20 {
			out := f.mustReject(demands...)
			for i := range demands {
				if want := i != empty; (out.Results[i].Status == store.OK) != want {
					t.Errorf("rule %d is empty; rule %d says %v", empty, i, out.Results[i].Status)
				}
			}
		}
		for i := range demands {
			want := int64(48)
			if i == empty {
				want = 0
			}
			if left := f.remaining(demands[i]); left != want {
				t.Errorf("rule %d is empty; rule %d has %d left after 2 of 22 requests passed, want %d", empty, i, left, want)
			}
		}
	}
}

func shadowNeverVetoes(t testing.TB, b Backend) {
	f := newFixture(t, b)
	enforced := f.demand(1, band("", 10, 1, time.Hour))
	shadow := f.demand(1, band("", 3, 1, time.Hour))
	shadow.Shadow = true
	for i := range 10 {
		out := f.mustTake(shadow, enforced)
		want := store.OK
		if i >= 3 {
			want = store.Rejected
		}
		if got := out.Results[0].Status; got != want {
			t.Errorf("request %d: the shadow rule of 3 says %v, want %v", i, got, want)
		}
	}
	if left := f.remaining(shadow); left != 0 {
		t.Errorf("the shadow rule has %d left, want 0: it takes where it fits", left)
	}
	if left := f.remaining(enforced); left != 0 {
		t.Errorf("the enforced rule has %d left, want 0", left)
	}
}

func shadowTakesNothingWhenVetoed(t testing.TB, b Backend) {
	f := newFixture(t, b)
	enforced := f.demand(1, band("", 1, 1, time.Hour))
	shadow := f.demand(1, band("", 10, 1, time.Hour))
	shadow.Shadow = true
	f.mustTake(shadow, enforced)
	for range 5 {
		f.mustReject(shadow, enforced)
		f.mustReject(enforced, shadow)
	}
	if left := f.remaining(shadow); left != 9 {
		t.Errorf("the shadow rule has %d left after one request passed, want 9", left)
	}
}

// shadowTakesBothOrNeither: a store may keep tokens and slots apart. The other demands are in
// other shards of one that has any.
func shadowTakesBothOrNeither(t testing.TB, b Backend) {
	for _, c := range []struct{ tokens, slots int64 }{{2, 5}, {5, 2}} {
		f := newFixture(t, b)
		shadow := f.demand(1, band("tokens", c.tokens, 1, 24*time.Hour),
			rules.Band{Label: "slots", Kind: rules.Concurrency, Capacity: c.slots, Hold: time.Hour})
		shadow.Shadow = true
		demands := []store.Demand{shadow}
		for range 8 {
			demands = append(demands, f.demand(1, band("", 100, 1, time.Hour)))
		}
		for n := range int64(5) {
			demands[0] = again(shadow)
			out := f.mustTake(demands...)
			if fits := out.Results[0].Status == store.OK; fits != (n < 2) {
				t.Errorf("request %d of %d tokens and %d slots fits: %t", n, c.tokens, c.slots, fits)
			}
			free := again(shadow)
			free.Cost = 0
			left, taken := f.peek(free).Results[0].Bands, min(2, n+1)
			if left[0].Remaining != c.tokens-taken || left[1].Remaining != c.slots-taken {
				t.Errorf("after request %d %d of %d tokens and %d of %d slots are left, want %d and %d",
					n, left[0].Remaining, c.tokens, left[1].Remaining, c.slots, c.tokens-taken, c.slots-taken)
			}
		}
	}
}
