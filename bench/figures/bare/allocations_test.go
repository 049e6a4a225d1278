package bare_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/bench/redisload"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
)

// allocationFigures counts what the engine and the store allocate for a decision that Redis
// makes, with as many callers as the other figures have.
func allocationFigures(t *testing.T, report *figure.Report) {
	rule := rules.Rule{ID: "one", Scope: rules.ScopeUser, Bands: []rules.Band{rules.PerDay(1_000)}}
	countAllocations(t, report, "bare-allocs-strict", rule)
	rule.Bands, rule.CountRefused = []rules.Band{{Kind: rules.Quota, Capacity: 1_000_000, Period: "hour"}}, true // as in Envoy's protocol
	countAllocations(t, report, "bare-allocs-strict-quota", rule)
}

func countAllocations(t *testing.T, report *figure.Report, name string, rule rules.Rule) {
	t.Helper()
	store := redisload.Open(t, testenv.StartStandalone(t, testenv.Config{}).URI())
	set := fluxgate.Must(rules.NewSet("api-limits", rule))
	engine := fluxgate.Must(fluxgate.New(store, fluxgate.Static(set)))
	users := make([]string, 10_000)
	for i := range users {
		users[i] = "user-" + strconv.Itoa(i)
	}
	reqs := slices.Repeat([]fluxgate.Request{{Method: "GET", Path: "/one"}}, callers)
	decide := func(ctx context.Context, caller, n int) error {
		reqs[caller].UserID = users[(caller*7919+n*31)%len(users)]
		d, err := engine.Check(ctx, &reqs[caller])
		if err == nil && d.Degraded {
			return errors.New("a decision was not made in Redis")
		}
		return err
	}
	redisload.RunFor(t, callers, figure.For(time.Second), decide) // to warm up
	for _, n := range []int{1, callers} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		length := figure.For(2 * time.Second)
		did := redisload.RunFor(t, n, length, decide)
		runtime.ReadMemStats(&after)
		each := float64(after.Mallocs-before.Mallocs) / float64(did.Decisions)
		if n == 1 {
			report.Print(name+"-lone", each, "")
			continue
		}
		report.AtMost(name, each, 2, "")
	}
}
