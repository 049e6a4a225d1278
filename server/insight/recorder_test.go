package insight_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/meter"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/insight"
	"github.com/fluxgate/fluxgate/store"
)

// sums adds up a series: the requests, and how many steps are known.
func sums(s *admin.Series, step int) (out [6]float64, known int) {
	for i, series := range [][]*float64{s.Allowed, s.Limited, s.Denied, s.Degraded, s.Waiting, s.Shadow} {
		for _, v := range series {
			if v != nil {
				out[i] += *v * float64(step)
				known++
			}
		}
	}
	return out, known / 6
}

// failing is a store that cannot decide.
type failing struct{ store.Store }

func (failing) Take(context.Context, []store.Demand, *store.Outcome) error {
	return store.ErrNotSent
}

// Every outcome is counted once for the request, and under each rule that it concerns.
func TestRecorder_Outcomes(t *testing.T) {
	with := func(r rules.Rule, change func(*rules.Rule)) rules.Rule {
		change(&r)
		return r
	}
	shadow := with(perUser("shadow", 1), func(r *rules.Rule) { r.Mode = rules.ModeShadow })
	deny := rules.Rule{ID: "deny", Action: rules.ActionDeny}
	exempt := rules.Rule{ID: "exempt", Action: rules.ActionAllow}
	waits := with(perUser("waits", 1), func(r *rules.Rule) {
		r.OnLimitExceed, r.Bands = rules.WaitForRefill, []rules.Band{rules.PerSecond(1)}
	})
	refuses := with(perUser("refuses", 1), func(r *rules.Rule) { r.OnMissingIdentity = rules.MissingRefuse })
	closed := with(perUser("closed", 9), func(r *rules.Rule) { r.OnFailure = rules.FailClosed })
	opened := with(perUser("open", 9), func(r *rules.Rule) { r.OnFailure = rules.FailOpen })
	for _, c := range []struct {
		name   string
		rules  []rules.Rule
		req    fluxgate.Request
		broken bool
		// The sums of 4 requests: allowed, limited, denied, degraded, waiting, shadow.
		want   [6]float64
		byRule map[string][6]float64
	}{
		{"limited", []rules.Rule{perUser("r", 3)}, fluxgate.Request{}, false, [6]float64{3, 1}, map[string][6]float64{"r": {3, 1}}},
		{"limited by one of two", []rules.Rule{perUser("r", 3), perUser("s", 9)}, fluxgate.Request{}, false, [6]float64{3, 1}, map[string][6]float64{"r": {3, 1}, "s": {3}}},
		{"too costly", []rules.Rule{perUser("r", 3)}, fluxgate.Request{Cost: 4}, false, [6]float64{0, 4}, map[string][6]float64{"r": {0, 4}}},
		{"shadow", []rules.Rule{shadow}, fluxgate.Request{}, false, [6]float64{4, 0, 0, 0, 0, 3}, map[string][6]float64{"shadow": {1, 0, 0, 0, 0, 3}}},
		{"denied", []rules.Rule{deny}, fluxgate.Request{}, false, [6]float64{0, 0, 4}, map[string][6]float64{"deny": {0, 0, 4}}},
		{"exempt", []rules.Rule{exempt}, fluxgate.Request{}, false, [6]float64{4}, map[string][6]float64{"exempt": {4}}},
		{"no rule", nil, fluxgate.Request{}, false, [6]float64{4}, nil},
		{"no rule set", nil, fluxgate.Request{RuleSet: "made-up"}, false, [6]float64{4}, nil},
		{"waiting", []rules.Rule{waits}, fluxgate.Request{}, false, [6]float64{4, 0, 0, 0, 3}, map[string][6]float64{"waits": {4, 0, 0, 0, 3}}},
		{"without an identity", []rules.Rule{refuses}, fluxgate.Request{UserID: "-"}, false, [6]float64{0, 0, 4}, map[string][6]float64{"refuses": {0, 0, 4}}},
		{"fails closed", []rules.Rule{closed}, fluxgate.Request{}, true, [6]float64{0, 0, 4, 4}, map[string][6]float64{"closed": {0, 0, 4, 4}}},
		{"fails open", []rules.Rule{opened}, fluxgate.Request{}, true, [6]float64{4, 0, 0, 4}, map[string][6]float64{"open": {4, 0, 0, 4}}},
		{"peeks", []rules.Rule{perUser("r", 3)}, fluxgate.Request{Peek: true}, false, [6]float64{}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var buckets store.Store = memory(t)
				if c.broken {
					buckets = failing{buckets}
				}
				n := start(t, buckets, insight.Config{}, []*rules.Set{set(t, "api", c.rules...)}, fluxgate.WithWaiting(10*time.Second, 10))
				switch c.req.UserID {
				case "":
					c.req.UserID = "u"
				case "-":
					c.req.UserID = ""
				}
				n.check(t, 4, c.req)
				time.Sleep(2*time.Second + 100*time.Millisecond) // not when a second ends
				live := n.live(t, insight.LiveQuery{}, everything)
				if got, _ := sums(&live.Series, live.StepSeconds); got != c.want {
					t.Errorf("requests are %v, want %v", got, c.want)
				}
				got := map[string][6]float64{}
				for _, r := range live.Rules {
					got[r.Rule] = [6]float64{10 * r.Allowed, 10 * r.Limited, 10 * r.Denied, 10 * r.Degraded, 10 * r.Waiting, 10 * r.Shadow}
				}
				if fmt.Sprint(got) != fmt.Sprint(c.byRule) && len(got)+len(c.byRule) > 0 {
					t.Errorf("rules have %v, want %v", got, c.byRule)
				}
			})
		})
	}
}

// The last two minutes are kept. What was before the start is not known.
func TestRecorder_History(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memory(t), insight.Config{}, []*rules.Set{set(t, "api", perUser("r", 1_000_000))})
		time.Sleep(50*time.Second + 100*time.Millisecond)
		live := n.live(t, insight.LiveQuery{}, everything)
		if got, known := sums(&live.Series, live.StepSeconds); got[0] != 0 || known != 25 {
			t.Errorf("%v requests in %d known steps after 50 s", got, known)
		}
		for range 100 {
			n.check(t, 3, fluxgate.Request{UserID: "u"})
			time.Sleep(time.Second)
		}
		live = n.live(t, insight.LiveQuery{}, everything)
		got, known := sums(&live.Series, live.StepSeconds)
		if got[0] != 300 || known != 60 || live.StepSeconds != 2 || len(live.Series.Allowed) != 60 || *live.Series.Allowed[59] != 3 || *live.Series.Allowed[9] != 0 {
			t.Errorf("%v requests in %d known steps", got, known)
		}
		time.Sleep(30 * time.Minute)
		live = n.live(t, insight.LiveQuery{}, everything)
		if got, known = sums(&live.Series, live.StepSeconds); got[0] != 0 || known != 60 || len(live.Rules) != 0 {
			t.Errorf("half an hour later there are %v requests in %d steps", got, known)
		}
	})
}

// Quantiles are interpolated between the bounds of the histogram, and absent without
// requests.
func TestRecorder_Quantiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d atomic.Pointer[insight.Durations]
		decided := func(total uint64, counts ...uint64) {
			d.Store(&insight.Durations{Bounds: []float64{0.001, 0.01, 0.1}, Counts: counts, Total: total})
		}
		decided(0, 0, 0, 0)
		n := start(t, memory(t), insight.Config{Durations: func() insight.Durations { return *d.Load() }}, []*rules.Set{set(t, "api")})
		time.Sleep(6*time.Second + 100*time.Millisecond)
		decided(100, 90, 100, 100) // 90 within a millisecond, 10 within ten
		time.Sleep(2 * time.Second)
		decided(110, 90, 100, 100) // and ten beyond all bounds
		time.Sleep(2 * time.Second)
		s := n.live(t, insight.LiveQuery{}, everything).Series
		at := func(series []*float64, ago int) string {
			if v := series[len(series)-1-ago]; v != nil {
				return fmt.Sprint(*v)
			}
			return "none"
		}
		got := []string{at(s.P50Ms, 1), at(s.P99Ms, 1), at(s.P50Ms, 0), at(s.P99Ms, 0), at(s.P50Ms, 2)}
		if want := []string{"0.556", "9.1", "100", "100", "none"}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		fleet := n.Fleet(t.Context(), everything)
		if p50 := fleet.Servers[0].P50Ms; p50 == nil || *p50 != 0.611 {
			t.Errorf("over ten seconds the median is %v", p50)
		}
		time.Sleep(time.Minute)
		if fleet = n.Fleet(t.Context(), everything); fleet.Servers[0].P50Ms != nil {
			t.Errorf("without requests the median is %v", fleet.Servers[0].P50Ms)
		}
	})
}

// Callers are those of the last one to two minutes.
func TestRecorder_CallersOfLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memory(t), insight.Config{}, []*rules.Set{set(t, "api", perUser("r", 2))})
		time.Sleep(30*time.Second - time.Duration(time.Now().UnixNano())%time.Minute + time.Minute)
		n.check(t, 5, fluxgate.Request{UserID: "alice"})
		n.check(t, 4, fluxgate.Request{UserID: "bob"})
		show := func() (out string) {
			c := n.callers(t, insight.CallersQuery{}, everything)
			for _, of := range c.Callers {
				out += fmt.Sprintf("%s %s %d; ", of.Rule, of.Identity, of.Count)
			}
			return out
		}
		if got, want := show(), "r user alice 3; r user bob 2; "; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		time.Sleep(time.Minute)
		n.check(t, 5, fluxgate.Request{UserID: "bob"})
		if got, want := show(), "r user bob 7; r user alice 3; "; got != want {
			t.Errorf("a minute later %q, want %q", got, want)
		}
		if since := n.callers(t, insight.CallersQuery{}, everything).Since; time.Since(since) < time.Minute || time.Since(since) > 2*time.Minute {
			t.Errorf("since %v, now is %v", since, time.Now())
		}
		time.Sleep(time.Minute)
		if got, want := show(), "r user bob 5; "; got != want {
			t.Errorf("two minutes later %q, want %q", got, want)
		}
		n.recorder.Forget()
		if got := show(); got != "" {
			t.Errorf("after it forgot them: %q", got)
		}
	})
}

// A caller that has replaced another is named at its next request, one with a place of its
// own at once.
func TestRecorder_NamesCallers(t *testing.T) {
	n := start(t, memory(t), insight.Config{}, []*rules.Set{set(t, "api", perUser("r", 1_000))})
	named := func(user string) bool {
		c := n.callers(t, insight.CallersQuery{Outcome: admin.CallersAllowed, Limit: 1_000}, everything)
		return slices.ContainsFunc(c.Callers, func(c admin.Caller) bool { return c.Identity == "user "+user })
	}
	n.check(t, 1, fluxgate.Request{UserID: "first"})
	if !named("first") {
		t.Error("a caller with one request has no name")
	}
	for i := range 600 { // more than there are places
		n.check(t, 2, fluxgate.Request{UserID: fmt.Sprint(i)})
	}
	n.check(t, 1, fluxgate.Request{UserID: "late"})
	if named("late") {
		t.Error("a caller that may be replaced next was named")
	}
	n.check(t, 1, fluxgate.Request{UserID: "late"})
	if !named("late") {
		t.Error("a caller with a second request has no name")
	}
}

// More rules than there are places share one.
func TestRecorder_ManyRules_NoRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var list []rules.Rule
		for i := range 1_100 {
			r := perUser(fmt.Sprint("r", i), 5)
			r.Paths = []string{fmt.Sprint("/", i)}
			list = append(list, r)
		}
		n := start(t, memory(t), insight.Config{}, []*rules.Set{set(t, "api", list...)})
		for i := range 1_100 {
			n.check(t, 1, fluxgate.Request{UserID: "u", Path: fmt.Sprint("/", i)})
		}
		time.Sleep(2*time.Second + 100*time.Millisecond)
		all := n.live(t, insight.LiveQuery{Limit: 2_000}, everything).Rules
		if others := slices.IndexFunc(all, func(r admin.RuleRates) bool { return r.Rule == "other" }); len(all) != 1_001 || others < 0 || all[others].Allowed != 10 {
			t.Errorf("%d rules, the others are at %d", len(all), others)
		}
		tenant := insight.View{RuleSet: func(string) bool { return true }, Identities: func(string) bool { return false }}
		if live := n.live(t, insight.LiveQuery{Limit: 2_000}, tenant); len(live.Rules) != 1_000 {
			t.Errorf("a tenant sees %d rules", len(live.Rules))
		}
	})
}

// More rule sets than there are places are only counted in total.
func TestRecorder_ManyRuleSets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sets []*rules.Set
		for i := range 101 {
			sets = append(sets, set(t, fmt.Sprint("s", i), perUser("r", 5)))
		}
		n := start(t, memory(t), insight.Config{}, sets)
		for _, s := range sets {
			n.check(t, 1, fluxgate.Request{UserID: "u", RuleSet: s.ID()})
		}
		time.Sleep(2*time.Second + 100*time.Millisecond)
		for ruleSet, want := range map[string]float64{"": 101, "s100": 0} {
			live := n.live(t, insight.LiveQuery{RuleSet: ruleSet}, everything)
			if got, _ := sums(&live.Series, 2); got[0] != want {
				t.Errorf("rule set %q has %v requests, want %v", ruleSet, got, want)
			}
		}
	})
}

// A decision is recorded without an allocation, also with more callers than a list holds.
func TestRecorder_Allocations(t *testing.T) {
	list := []rules.Rule{perUser("r", 1_000), perUser("s", 2)}
	n := start(t, memory(t), insight.Config{}, []*rules.Set{set(t, "api", list...)})
	type seen struct {
		req *fluxgate.Request
		d   fluxgate.Decision
	}
	var all []seen
	for i := range 3_000 { // more callers than a list holds
		req := &fluxgate.Request{UserID: fmt.Sprint("user-", i%1_000)}
		d, err := n.engine.Check(t.Context(), req)
		do(t, err)
		all = append(all, seen{req, d})
	}
	i := 0
	if got := testing.AllocsPerRun(10_000, func() {
		n.recorder.Count(all[i%len(all)].req, &all[i%len(all)].d, meter.OutcomeOf(&all[i%len(all)].d, nil))
		i++
	}); got != 0 {
		t.Errorf("%v allocations for a decision", got)
	}
}

func BenchmarkDecided(b *testing.B) {
	for name, users := range map[string]int{"few callers": 10, "many callers": 10_000} {
		b.Run(name, func(b *testing.B) {
			n := start(b, memory(b), insight.Config{}, []*rules.Set{set(b, "api", perUser("r", 1_000))})
			reqs, decisions := make([]fluxgate.Request, users), make([]fluxgate.Decision, users)
			for i := range users {
				reqs[i].UserID = fmt.Sprint("user-", i)
				var err error
				decisions[i], err = n.engine.Check(b.Context(), &reqs[i])
				do(b, err)
			}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					n.recorder.Count(&reqs[i%users], &decisions[i%users], meter.OutcomeOf(&decisions[i%users], nil))
				}
			})
		})
	}
}
