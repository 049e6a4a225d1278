package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/reload"
	"github.com/fluxgate/fluxgate/rules/rulestest/memrules"
	"github.com/fluxgate/fluxgate/server/telemetry"
)

// failing is a source that cannot be read while broken is set.
type failing struct {
	*memrules.Source
	broken atomic.Bool
}

func (f *failing) Revisions(ctx context.Context, ids []string) (map[string]rules.Head, error) {
	if f.broken.Load() {
		return nil, errors.New("the source is away")
	}
	return f.Source.Revisions(ctx, ids)
}

// The metrics show the state of the rules.
func TestWatchRules_Status(t *testing.T) {
	source := &failing{Source: memrules.New(memrules.Config{})}
	if _, err := source.Put(t.Context(), ruleSet(t, "api"), rules.Change{Author: "test"}); err != nil {
		t.Fatal(err)
	}
	before := float64(time.Now().Unix())
	reloader, err := reload.Start(t.Context(), source, reload.Config{RuleSets: []string{"api", "missing"}, Interval: time.Hour, Jitter: -1, StartWithoutRules: true})
	if err != nil {
		t.Fatal(err)
	}
	defer reloader.Close()
	m := telemetry.New(telemetry.Config{RuleSet: "missing"})
	m.WatchRules(reloader, 30*time.Second)
	for i := range 20 {
		if reloader.RuleSet(t.Context(), fmt.Sprint("callers-", i)) != nil {
			t.Fatal("there is a rule set that nobody made")
		}
	}
	source.broken.Store(true)
	if err := reloader.Reload(t.Context()); err == nil {
		t.Fatal("a source that is away was read")
	}
	low := reloader.Stats()
	got := scrape(t, m)
	high := reloader.Stats() // it may look by itself meanwhile
	for name, bounds := range map[string][2]uint64{
		"looks": {low.Looks, high.Looks}, "loads": {low.Loads, high.Loads}, "swaps": {low.Swaps, high.Swaps}, "failures": {low.Failures, high.Failures},
	} {
		if n := uint64(got["fluxgate_rules_"+name+"_total"]); n < bounds[0] || n > bounds[1] {
			t.Errorf("%d %s, want %v", n, name, bounds)
		}
	}
	for series, want := range map[string]float64{
		`fluxgate_rules_revision{rule_set="api"}`:                 1,
		`fluxgate_rules{rule_set="api"}`:                          8,
		`fluxgate_rules_error{rule_set="api"}`:                    1,
		`fluxgate_rules_source{rule_set="api",source="source"}`:   1,
		`fluxgate_rules_source{rule_set="missing",source="none"}`: 1,
		`fluxgate_rules_revision{rule_set="missing"}`:             0,
		`fluxgate_rule_sets{source="source"}`:                     1,
		`fluxgate_rule_sets{source="copy"}`:                       0,
		`fluxgate_rule_sets{source="none"}`:                       21,
		`fluxgate_rule_sets_failing`:                              22,
		`fluxgate_rules_polling_interval_seconds`:                 30,
		`fluxgate_rules_messages_total{result="malformed"}`:       0,
	} {
		if value, ok := got[series]; !ok || value != want {
			t.Errorf("%s is %v (there: %v), want %v", series, value, ok, want)
		}
	}
	for _, name := range []string{"loaded", "checked"} {
		if at := got["fluxgate_rules_"+name+`_timestamp_seconds{rule_set="api"}`]; at < before || at > before+600 {
			t.Errorf("rules were %s at %v, want soon after %v", name, at, before)
		}
	}
	for series := range got {
		if strings.Contains(series, "callers") {
			t.Errorf("%s has a label that is the caller's", series)
		}
	}

	source.broken.Store(false)
	testenv.Eventually(t, "no error to be told once the source can be read again", func() bool {
		if err := reloader.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := scrape(t, m)
		return got[`fluxgate_rules_error{rule_set="api"}`] == 0 && got["fluxgate_rule_sets_failing"] == 0
	})
}
