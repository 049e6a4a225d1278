package redisstore

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
)

// BenchmarkWarnAt is a strict decision on a quota that is above its thresholds. It reports the CPU
// time of this process as a multiple of that without thresholds, the median of interleaved rounds.
func BenchmarkWarnAt(b *testing.B) {
	buckets := openStore(b, testenv.SharedStandalone(b).URI(), Config{Timeout: time.Second})
	var rounds [2]func() time.Duration
	for i, warnAt := range []rules.Percents{{}, {80, 100}} {
		rule := rules.Rule{ID: fmt.Sprint("r", i), Scope: rules.ScopeUser, Consistency: rules.ConsistencyStrict, Bands: []rules.Band{
			{Kind: rules.Quota, Capacity: 1_000_000_000, Period: "month", WarnAt: warnAt},
		}}
		set := fluxgate.Static(fluxgate.Must(rules.NewSet("bench", rule)))
		engine := fluxgate.Must(fluxgate.New(buckets, set, fluxgate.WithRuleSet("bench")))
		user := fmt.Sprint(time.Now().UnixNano())
		check := func(cost int64) {
			if d, err := engine.Check(b.Context(), &fluxgate.Request{UserID: user, Cost: cost}); err != nil || !d.Allowed || d.Degraded {
				b.Fatal(d.Reason, d.Degraded, err)
			}
		}
		check(900_000_000)
		rounds[i] = func() time.Duration {
			began := cpuTime(b)
			for range 500 {
				check(1)
			}
			return cpuTime(b) - began
		}
	}
	var ratios []float64
	for b.Loop() {
		without := rounds[0]()
		ratios = append(ratios, float64(rounds[1]())/float64(without))
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "x-cpu")
}

// cpuTime is that of this process.
func cpuTime(t testing.TB) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
