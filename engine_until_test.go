package fluxgate_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store/storetest"
)

// From the moment of its until on, a rule is as if disabled: the next of its group applies.
func TestUntil(t *testing.T) {
	clock := storetest.NewClock()
	end := clock.Now().Add(time.Hour)
	raised := rule("raised", 9, 1_000)
	raised.Group, raised.Until = "plan", end
	usual := rule("usual", 1, 10)
	usual.Group = "plan"
	brief := rule("brief", 5, 500)
	brief.Until = end.Add(time.Minute)
	e := newEngine(t, newStore(t, clock.Now), ruleSet(t, raised, usual, brief))
	limits := func(want ...int64) {
		t.Helper()
		d, err := e.Check(t.Context(), &fluxgate.Request{})
		if err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		var got []int64
		for r := range d.Evaluated(&fluxgate.Request{}) {
			got = append(got, r.Rule.Bands[0].Capacity)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("limits %v, want %v", got, want)
		}
	}
	why := func(want fluxgate.Why) {
		t.Helper()
		_, verdicts, err := e.Effective(t.Context(), &fluxgate.Request{})
		if err != nil || verdicts[0].Rule.ID != "raised" || verdicts[0].Why != want || verdicts[0].Applies != (want == "") {
			t.Fatal(verdicts, err)
		}
	}
	limits(1_000, 500)
	clock.Advance(time.Hour - time.Microsecond)
	limits(1_000, 500)
	why("")
	clock.Advance(time.Microsecond)
	limits(500, 10)
	why(fluxgate.WhyExpired)
	clock.Advance(time.Minute)
	limits(10)
	clock.Advance(-time.Minute) // the clock of the store steps back
	limits(500, 10)
	clock.Advance(-time.Hour)
	limits(1_000, 500)

	clock.Advance(3 * time.Hour)
	all, each, err := e.CheckAll(t.Context(), []fluxgate.Request{{}})
	if err != nil || !all.Allowed || each[0].Limit != 10 {
		t.Error(all, each, err)
	}
}

// The first request after the end of a rule costs what any other costs, however many rules there
// are.
func TestUntil_NothingIsCompiled(t *testing.T) {
	const ends = 20
	clock := storetest.NewClock()
	list := make([]rules.Rule, 3_000)
	for i := range list {
		list[i] = rule(fmt.Sprint("r", i), 0, 1_000_000)
		list[i].Scope, list[i].When.Users = rules.ScopeUser, []string{fmt.Sprint("user", i)}
		if i < ends {
			list[i].Until = clock.Now().Add(time.Duration(i+1) * time.Minute)
		}
	}
	e := newEngine(t, newStore(t, clock.Now), ruleSet(t, list...))
	request := func() {
		if d, err := e.Check(t.Context(), &fluxgate.Request{UserID: "user50"}); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
	}
	request()
	if n := testing.AllocsPerRun(ends-1, func() {
		clock.Advance(time.Minute)
		request()
	}); n > 100 {
		t.Errorf("a request after the end of a rule allocates %v times", n)
	}
}

// The periods of quotas follow the clock of the store, so that tests can move it.
func TestQuota_ClockOfTheStore(t *testing.T) {
	g := newGate(t, []rules.Rule{{ID: "day", Bands: []rules.Band{{Kind: rules.Quota, Period: "day", Capacity: 2}}}})
	for day := range 3 {
		for i := range 3 {
			d, err := g.Check(t.Context(), &fluxgate.Request{})
			if err != nil || d.Allowed != (i < 2) {
				t.Fatalf("day %d, request %d: %v %v", day, i, d, err)
			}
		}
		g.clock.Advance(24 * time.Hour)
	}
}
