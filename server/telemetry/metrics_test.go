package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/meter"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/insight"
	"github.com/fluxgate/fluxgate/server/telemetry"
	"github.com/fluxgate/fluxgate/store"
)

// Rates of these outcomes have a value at the first of them, since they are 0 from the first decision on.
func TestMetrics_CountedFromZero(t *testing.T) {
	w := newWorld(t, telemetry.Config{})
	fluxgate.Must(w.engine.Check(t.Context(), &fluxgate.Request{Path: "/none"}))
	got := scrape(t, w.metrics)
	for _, series := range []string{
		`fluxgate_decisions_total{allowed="true",outcome="allowed",rule_set="api",source="store"}`,
		`fluxgate_decisions_total{allowed="false",outcome="limited",rule_set="api",source="store"}`,
		`fluxgate_decisions_total{allowed="false",outcome="store-failure",rule_set="api",source="none"}`,
	} {
		if n, ok := got[series]; !ok || n != 0 {
			t.Errorf("%s is %v, %v", series, n, ok)
		}
	}
}

// Every outcome is counted.
func TestMetrics_Outcomes(t *testing.T) {
	w := newWorld(t, telemetry.Config{WaitSlots: 10, Version: "1.2.3"})
	w.exercise(t)
	got := scrape(t, w.metrics)
	for series, want := range map[string]float64{
		`fluxgate_decisions_total{allowed="true",outcome="allowed",rule_set="api",source="store"}`:          9, // 5 api, 2 wait, 2 user
		`fluxgate_decisions_total{allowed="false",outcome="limited",rule_set="api",source="store"}`:         2,
		`fluxgate_decisions_total{allowed="false",outcome="denied",rule_set="api",source="none"}`:           1,
		`fluxgate_decisions_total{allowed="true",outcome="exempt",rule_set="api",source="none"}`:            1,
		`fluxgate_decisions_total{allowed="true",outcome="no-rule",rule_set="api",source="none"}`:           1,
		`fluxgate_decisions_total{allowed="true",outcome="no-rule-set",rule_set="unknown",source="none"}`:   1,
		`fluxgate_decisions_total{allowed="false",outcome="error",rule_set="unknown",source="none"}`:        1,
		`fluxgate_decisions_total{allowed="false",outcome="missing-identity",rule_set="api",source="none"}`: 1,
		`fluxgate_decisions_total{allowed="false",outcome="cost-too-high",rule_set="api",source="store"}`:   1,
		`fluxgate_decisions_total{allowed="false",outcome="store-failure",rule_set="api",source="none"}`:    1,
		`fluxgate_decisions_total{allowed="true",outcome="store-failure",rule_set="api",source="none"}`:     1,
		`fluxgate_rule_decisions_total{outcome="allowed",rule="api-ip",rule_set="api"}`:                     5,
		`fluxgate_rule_decisions_total{outcome="limited",rule="api-ip",rule_set="api"}`:                     2,
		`fluxgate_rule_decisions_total{outcome="store-failure",rule="api-closed",rule_set="api"}`:           1,
		`fluxgate_shadow_rejections_total{rule="api-trial",rule_set="api"}`:                                 6, // the first fits; once a request, not once a band
		`fluxgate_near_limit_total{rule="api-ip",rule_set="api"}`:                                           2, // 1 and 0 of 5
		`fluxgate_near_limit_total{rule="api-user",rule_set="api"}`:                                         0,
		`fluxgate_peeks_total`:                                                     1,
		`fluxgate_store_failures_total`:                                            2,
		`fluxgate_degraded_decisions_total`:                                        2,
		`fluxgate_settled_tokens_total{direction="returned"}`:                      6,
		`fluxgate_settled_tokens_total{direction="charged"}`:                       0,
		`fluxgate_settlements_total{result="ok"}`:                                  1,
		`fluxgate_settlements_total{result="failed"}`:                              1,
		`fluxgate_waiting`:                                                         0,
		`fluxgate_waiting_limit`:                                                   10,
		`fluxgate_wait_seconds_count`:                                              1,
		`fluxgate_decision_duration_seconds_count`:                                 20, // all but the error, the peek included
		`fluxgate_http_requests_total{code="200",method="POST",route="/v1/check"}`: 1,
		`fluxgate_grpc_calls_total{code="OK",method="/service/Call"}`:              1,
		`fluxgate_grpc_calls_total{code="Unavailable",method="/service/Call"}`:     1,
		`fluxgate_grpc_call_duration_seconds_count{method="/service/Call"}`:        2,
		`fluxgate_rules_revision{rule_set="api"}`:                                  1,
		`fluxgate_rules{rule_set="api"}`:                                           8,
	} {
		if value, ok := got[series]; !ok || value != want {
			t.Errorf("%s is %v (there: %v), want %v", series, value, ok, want)
		}
	}
	for series := range got {
		for _, theirs := range []string{"caller", "ada", "eve", "192.0.2"} {
			if strings.Contains(series, theirs) {
				t.Errorf("%s has a label that is the caller's", series)
			}
		}
	}
}

// The time that a request is held does not count as time to decide.
func TestMetrics_HeldTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMetrics(t)
		for _, c := range []struct {
			takes, held time.Duration
			peek        bool
		}{
			{takes: time.Hour + time.Second, held: time.Hour},
			{takes: 2 * time.Second, held: time.Hour, peek: true}, // a peek is not held
		} {
			limiter := m.Limiter(&answers{takes: c.takes, d: fluxgate.Decision{Allowed: true, Reason: fluxgate.ReasonOK, Wait: c.held}})
			if _, err := limiter.Check(t.Context(), &fluxgate.Request{Peek: c.peek}); err != nil {
				t.Fatal(err)
			}
		}
		got := scrape(t, m)
		if n, sum := got["fluxgate_decision_duration_seconds_count"], got["fluxgate_decision_duration_seconds_sum"]; n != 2 || sum != 3 {
			t.Errorf("%v decisions in %v s, want 2 in 3", n, sum)
		}
	})
}

// answers is a limiter that always says the same.
type answers struct {
	meter.Limiter
	d     fluxgate.Decision
	err   error
	takes time.Duration
}

func (a answers) Check(context.Context, *fluxgate.Request) (fluxgate.Decision, error) {
	time.Sleep(a.takes) // of a clock that is not real
	return a.d, a.err
}

func (answers) Extend(context.Context, *fluxgate.Receipt) error { return nil }

func (a answers) Settle(context.Context, *fluxgate.Receipt, int64) (store.Settlement, error) {
	return store.Settlement{}, a.err
}

func (a answers) SettleUsage(context.Context, *fluxgate.Receipt, *fluxgate.Usage) (map[string]store.Settlement, error) {
	return nil, a.err
}

// Requests that wait are counted while they wait.
func TestMetrics_Waiting(t *testing.T) {
	w := newWorld(t, telemetry.Config{WaitSlots: 10})
	w.check(t, fluxgate.Request{Path: "/long"})
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	ended.Go(func() {
		if _, err := w.limiter.Check(ctx, &fluxgate.Request{Path: "/long"}); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that left got %v", err)
		}
	})
	testenv.Eventually(t, "a request to be held", func() bool { return scrape(t, w.metrics)["fluxgate_waiting"] == 1 })
	cancel()
	ended.Wait()
	got := scrape(t, w.metrics)
	if got["fluxgate_waiting"] != 0 {
		t.Errorf("%v wait after the only one has gone", got["fluxgate_waiting"])
	}
	if n := got[`fluxgate_decisions_total{allowed="false",outcome="canceled",rule_set="api",source="none"}`]; n != 1 {
		t.Errorf("%v callers were counted as gone, want 1", n)
	}
}

// Labels are bounded.
func TestMetrics_BoundedLabels(t *testing.T) {
	const sets, most, mostRules = 20, 5, 7
	w := newWorld(t, telemetry.Config{RuleSet: "api", MaxRuleSets: most, MaxRules: mostRules})
	for i := range sets {
		id := fmt.Sprint("set", i)
		if _, err := w.source.Put(t.Context(), ruleSet(t, id), rules.Change{Author: "test"}); err != nil {
			t.Fatal(err)
		}
		w.check(t, fluxgate.Request{RuleSet: id, Path: "/api/x"})
		w.check(t, fluxgate.Request{RuleSet: id, Path: "/closed"})
		w.check(t, fluxgate.Request{RuleSet: fmt.Sprint("unknown", i), Path: "/closed"})
	}
	seenSets, seenRules := map[string]bool{}, map[string]bool{}
	total, ruleTotal := 0.0, 0.0
	for series, value := range scrape(t, w.metrics) {
		if set, ok := labelOf(series, "rule_set"); ok {
			seenSets[set] = true
		}
		if rule, ok := labelOf(series, "rule"); ok {
			seenRules[rule] = true
		}
		if strings.HasPrefix(series, "fluxgate_decisions_total") {
			total += value
		}
		if strings.HasPrefix(series, "fluxgate_rule_decisions_total") {
			ruleTotal += value
		}
	}
	if len(seenSets) != most+2 || !seenSets["other"] || !seenSets["unknown"] {
		t.Errorf("rule sets in labels: %v, want %d and other and unknown", seenSets, most)
	}
	if len(seenRules) != mostRules+1 || !seenRules["other"] {
		t.Errorf("rules in labels: %v, want %d and other", seenRules, mostRules)
	}
	if total != 3*sets || ruleTotal != 2*sets {
		t.Errorf("%v decisions and %v of rules were counted, want %d and %d", total, ruleTotal, 3*sets, 2*sets)
	}
}

// labelOf is the value of a label in a series.
func labelOf(series, label string) (string, bool) {
	for _, before := range []string{"{", ","} {
		if _, rest, ok := strings.Cut(series, before+label+`="`); ok {
			value, _, _ := strings.Cut(rest, `"`)
			return value, true
		}
	}
	return "", false
}

// Concurrent decisions are all counted.
func TestMetrics_Concurrent(t *testing.T) {
	w := newWorld(t, telemetry.Config{})
	const callers, each = 8, 500
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for i := range each {
				d := fluxgate.Decision{Allowed: true, Reason: fluxgate.ReasonOK, RuleID: fmt.Sprint("r", i%50), Band: "b", Limit: 10, Remaining: 9}
				w.metrics.Decided(t.Context(), &fluxgate.Request{RuleSet: fmt.Sprint("s", (i+c)%20)}, &d, nil)
			}
		})
	}
	all.Wait()
	sum, ruleSum := 0.0, 0.0
	for series, value := range scrape(t, w.metrics) {
		if strings.HasPrefix(series, "fluxgate_decisions_total{") {
			sum += value
		}
		if strings.HasPrefix(series, "fluxgate_rule_decisions_total{") {
			ruleSum += value
		}
	}
	if sum != callers*each || ruleSum != callers*each {
		t.Errorf("%v decisions and %v of rules were counted, want %d", sum, ruleSum, callers*each)
	}
}

// Metrics are the same with live numbers and without them.
func TestMetrics_LiveNumbers(t *testing.T) {
	without := newWorld(t, telemetry.Config{})
	var with *world
	with = newWorld(t, telemetry.Config{Recorder: insight.NewRecorder(insight.RecorderConfig{
		RuleSet: "api", Engine: func() *fluxgate.Engine { return with.engine },
	})})
	without.exercise(t)
	with.exercise(t)
	got, want := scrape(t, with.metrics), scrape(t, without.metrics)
	compared := 0
	for series, value := range want {
		if !strings.Contains(series, "{") || !strings.Contains(series, "rule_set=") || strings.Contains(series, "_timestamp_") {
			continue
		}
		compared++
		if n, ok := got[series]; !ok || n != value {
			t.Errorf("%s is %v with live numbers (there: %v), %v without", series, n, ok, value)
		}
	}
	if len(got) != len(want) || compared < 20 {
		t.Errorf("%d series with live numbers, %d without; %d compared", len(got), len(want), compared)
	}
}
