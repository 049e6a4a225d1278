package model

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

func byKey(r rules.Rule) rules.Rule {
	r.Scope = rules.ScopeAPIKey
	return r
}

func grouped(r rules.Rule, priority int) rules.Rule {
	r.Group, r.Priority = "group", priority
	return r
}

func alternative(id string, period rules.Period) rules.Rule {
	r := counting(strict(id, rules.Band{Kind: rules.Quota, Capacity: 3, Period: period}))
	r.Mode = rules.ModeAlternative
	return r
}

var denies = rules.Rule{ID: "deny", Action: rules.ActionDeny, Paths: []string{pathDenied}}

// fleetScenes are those of shares, API keys, clocks and requests that are decided together.
var fleetScenes = map[string]scene{
	"limits": scenes["limits"], "window": scenes["window"], "outage": scenes["outage"],
	"cold start": {gateways: 2, versions: rulesOf(strict("r", hour, plan)), ops: []Op{
		{Kind: OpFault, Gateway: All, Fault: NotSent, Span: 5 * time.Second}, after(500*time.Millisecond, requests)}},
	"keys": {gateways: 2, versions: rulesOf(byKey(strict("r", warned))), overrides: [][]Override{{{Rule: "r", Caller: "a", Times: 2_000}}}, ops: []Op{
		after(time.Second, requests), {Kind: OpCheck, At: 5 * time.Second, Gateway: All, Caller: "a", N: 4, Span: time.Millisecond, Actual: 12, Lasts: time.Millisecond}}},
	"groups": {gateways: 1, versions: rulesOf(grouped(strict("r", burst), 2), grouped(strict("s", plan), 1), denies), ops: []Op{
		requests, {Kind: OpCheck, Path: pathDenied, Caller: "a", N: 2, Actual: 1}}},
	"together": {gateways: 1, versions: rulesOf(strict("r", burst), denies), ops: []Op{
		{Kind: OpCheck, Caller: "a", N: 5, Span: time.Second, With: 3, Actual: 1}, {Kind: OpCheck, At: 2 * time.Second, Caller: "a", N: 2, With: 3, Denied: true, Actual: 1}}},
	"slots": scenes["slots"], "overdraft": scenes["overdraft"],
	"debt": {gateways: 1, versions: rulesOf(overdraft(strict("r", rules.Band{Kind: rules.Quota, Capacity: 10, Period: "month"}))), ops: []Op{
		{Kind: OpCheck, Caller: "a", N: 2, Span: time.Second, Cost: 8, Actual: 8}}},
	"alternatives": {gateways: 1, versions: rulesOf(alternative("r", "day"), alternative("s", "minute")), ops: []Op{{Kind: OpCheck, Caller: "a", N: 6, Span: time.Second, Actual: 1}}},
	"gone":         {gateways: 1, versions: rulesOf(strict("r", burst)), ops: []Op{{Kind: OpCheck, Caller: "a", Gone: true, Actual: 1}}},
}

var fleetVariants = map[string]variant{
	"a fallback has less than its share":                {"outage", LineShare, edit(0, kind(FallbackTook), func(f *Fact) { f.Buckets[0].Exact[1].Capacity /= 2 })},
	"a fallback refills too slowly":                     {"outage", LineShare, edit(0, kind(FallbackTook), func(f *Fact) { f.Buckets[0].Exact[0].Rate /= 2 })},
	"a fallback refuses what it has":                    {"cold start", LineShare, edit(3, kind(FallbackTook), func(f *Fact) { f.Buckets[0].Status, f.Buckets[0].Granted = store.Rejected, 0 })},
	"a settlement has the numbers of the rule":          {"keys", LineOverride, edit(0, kind(StoreSettled), func(f *Fact) { f.Buckets[0].Exact[0].Limit /= 2 })},
	"a warning has the numbers of the rule":             {"keys", LineOverride, edit(0, kind(StoreWarned), func(f *Fact) { f.Warning.Capacity = 50 })},
	"a refusal says too short a time":                   {"limits", LineTimes, edit(0, refused, func(f *Fact) { f.Buckets[0].Bands[0].Wait -= 5 * time.Millisecond })},
	"a refusal says too long a time":                    {"limits", LineTimes, edit(0, refused, func(f *Fact) { f.Buckets[0].Bands[0].Wait += 5 * time.Millisecond })},
	"a window says that it is full too early":           {"window", LineTimes, edit(9, ok, func(f *Fact) { f.Buckets[0].Bands[0].FullAfter -= time.Second })},
	"a quota says that it is full too late":             {"limits", LineTimes, edit(9, ok, func(f *Fact) { f.Buckets[0].Bands[1].FullAfter += time.Second })},
	"a quota in debt says that it is full too late":     {"debt", LineTimes, edit(0, owing, func(f *Fact) { f.Buckets[0].Bands[0].FullAfter += 24 * time.Hour })},
	"a quota in debt says that it is full too early":    {"debt", LineTimes, edit(0, owing, func(f *Fact) { f.Buckets[0].Bands[0].FullAfter -= 24 * time.Hour })},
	"a quota says that refused hits outlive its period": {"alternatives", LineTimes, edit(0, refused, func(f *Fact) { f.Buckets[0].Bands[0].FullAfter += 24 * time.Hour })},
	"slots say that they are free too late":             {"slots", LineTimes, edit(0, refused, func(f *Fact) { f.Buckets[0].Bands[0].FullAfter += 100 * time.Millisecond })},
	"slots say that they are free too early":            {"slots", LineTimes, edit(0, refused, func(f *Fact) { f.Buckets[0].Bands[0].FullAfter -= 100 * time.Millisecond })},
	"a request waits too long for a slot":               {"slots", LineTimes, edit(0, refused, func(f *Fact) { f.Buckets[0].Bands[0].Wait += time.Second })},
	"a refused overdraft waits as before its debit":     {"overdraft", LineTimes, edit(0, refused, func(f *Fact) { f.Buckets[0].Bands[0].Wait -= 18 * time.Minute })},
	"alternatives wait for the last":                    {"alternatives", LineTimes, edit(0, limited, func(f *Fact) { f.RetryAfter = f.Rules[0].Bands[0].Wait })},
	"a decision says another time": {"limits", LineTimes, edit(0, func(f *Fact) bool {
		return f.Kind == Decided && !f.Allowed && f.RetryAfter > 0 && f.Source == store.FromStore
	},
		func(f *Fact) { f.RetryAfter *= 2 })},
	"a period is that of a wrong clock": {"limits", LineClock, edit(3, ok, wrongPeriod)},
	"a settlement is lost with its caller": {"gone", LineSettlement, func(facts []Fact) []Fact {
		return slices.DeleteFunc(facts, func(f Fact) bool { return f.Kind == StoreSettled })
	}},
	"a request fails": {"together", LineDecision, edit(0, kind(Decided), func(f *Fact) { f.Err = errors.New("65 demands") })},
	"a request is allowed with one that is denied": {"together", LineDecision, edit(0, denied, func(f *Fact) { f.Allowed, f.Reason = true, fluxgate.ReasonOK })},
	"a rule that denies does not":                  {"groups", LineDecision, edit(0, denied, func(f *Fact) { f.Allowed, f.Reason = true, fluxgate.ReasonOK })},
	"two rules of a group apply": {"groups", LineDecision, edit(0, decidedAfter(0), func(f *Fact) {
		s := strict("s", plan)
		f.Rules = append(f.Rules, RuleFact{Rule: &s, Bucket: "s@USER_ID=a"})
	})},
	"a bucket of another caller is taken from as well": {"together", LineOnce, edit(0, ok, func(f *Fact) { f.Buckets[1].Bucket = f.Buckets[0].Bucket })},
}

// owing is a take that leaves a quota in debt, and limited a decision that the store has rejected.
func owing(f *Fact) bool   { return ok(f) && f.Buckets[0].Bands[0].Owed > 0 }
func limited(f *Fact) bool { return f.Kind == Decided && f.Reason == fluxgate.ReasonLimited }

func denied(f *Fact) bool { return f.Kind == Decided && f.Reason == fluxgate.ReasonDenied }

// wrongPeriod says that the period of a quota is that of an hour later.
func wrongPeriod(f *Fact) {
	for k := range f.Buckets[0].Exact {
		for n := range f.Buckets[0].Exact[k].Edges {
			f.Buckets[0].Exact[k].Edges[n] += (30 * time.Minute).Microseconds()
		}
	}
}

func TestVariants_FleetsUnbroken(t *testing.T) {
	for name, s := range fleetScenes {
		t.Run(name, func(t *testing.T) {
			h := s.history()
			for _, v := range Check(h, Run(t, h)) {
				t.Error(v)
			}
		})
	}
}

func TestVariants_Fleets(t *testing.T) {
	for name, v := range fleetVariants {
		t.Run(name, func(t *testing.T) {
			s := fleetScenes[v.scene]
			h := s.history()
			facts := v.broke(Run(t, h))
			if facts == nil {
				t.Fatal("the scene has no place for this fault")
			}
			var lines []Line
			for _, v := range Check(h, facts) {
				lines = append(lines, v.Line)
			}
			if !slices.Contains(lines, v.line) {
				t.Errorf("line %s does not reject it, but %v", v.line, lines)
			}
		})
	}
}
