package warnings_test

import (
	"fmt"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

// callers is how many callers the decisions are for.
const callers = 100

// overhead compares a decision under a limit with warnAt with one without: the processor time
// of the engine and of Redis together. The callers are below their thresholds, and then above.
func overhead(t *testing.T, report *figure.Report) {
	redis := testenv.StartStandalone(t, testenv.Config{})
	store := fluxgate.Must(redisstore.Open(t.Context(), redis.URI(), redisstore.Config{Timeout: 10 * time.Second}))
	t.Cleanup(func() { do(t, store.Close()) })
	worst := 0.0
	for _, used := range []int64{1, 90} {
		decide := func(warnAt rules.Percents) func(n int) {
			name := fmt.Sprintf("used-%d-%d", used, warnAt[0])
			band := rules.Band{Label: "month", Kind: rules.Quota, Capacity: 10_000_000, Period: "month", WarnAt: warnAt}
			set := fluxgate.Must(rules.NewSet(name, rules.Rule{ID: "budget", Scope: rules.ScopeUser, Consistency: rules.ConsistencyStrict, Bands: []rules.Band{band}}))
			engine := fluxgate.Must(fluxgate.New(store, fluxgate.Static(set), fluxgate.WithRuleSet(name)))
			next, req := 0, fluxgate.Request{Method: "GET", Path: "/"}
			check := func(cost int64) {
				req.UserID, req.Cost = "user-"+strconv.Itoa(next%callers), cost
				next++
				if d, err := engine.Check(t.Context(), &req); err != nil || !d.Allowed || d.Degraded {
					t.Fatal(d, err)
				}
			}
			for range callers {
				check(used * band.Capacity / 100)
			}
			return func(n int) {
				for range n {
					check(1)
				}
			}
		}
		subject, control := decide(rules.Percents{80, 100}), decide(rules.Percents{})
		var ratios []float64
		for range figure.Rounds(61) {
			one := processorTime(t, redis, subject)
			ratios = append(ratios, one/processorTime(t, redis, control))
		}
		ratio := figure.MedianOf(ratios)
		t.Logf("%d %% used: %.3f×", used, ratio)
		worst = max(worst, ratio)
	}
	report.AtMost("warnings-overhead", worst, 1.03, "×")
}

// processorTime is what this process and Redis use for some decisions, in seconds.
func processorTime(t *testing.T, redis *testenv.Server, decide func(n int)) float64 {
	t.Helper()
	now := func() float64 {
		info, err := redis.Info(t.Context(), "cpu")
		do(t, err)
		var u syscall.Rusage
		do(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		total := time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
		for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
			seconds, err := strconv.ParseFloat(info[name], 64)
			do(t, err)
			total += seconds
		}
		return total
	}
	before := now()
	decide(2_000)
	return now() - before
}
