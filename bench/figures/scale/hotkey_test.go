package scale_test

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/bench/redisload"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store/lease"
)

// hotKeyFigures measure one bucket that all gateways use, with a limit above what they
// can ask for.
func hotKeyFigures(t *testing.T, report *figure.Report) {
	server := testenv.StartStandalone(t, testenv.Config{})
	leased, strict := openFleet(t, server.URI())
	d := demand(t, 1, rules.PerSecond(1_000_000_000))
	type sample struct{ perSecond, cpu, calls float64 }
	run := func(fleet []gateway) sample {
		takers := newTakers(fleet, redisload.Callers, d)
		cpu, before := cpuSeconds(t, server), calls(fleet)
		decisions := make([]int64, len(takers))
		load := redisload.Run(t, func(ctx context.Context, i, _ int) error {
			decisions[i]++
			ok, err := takers[i].take(ctx)
			if err == nil && !ok {
				t.Errorf("refused below the limit: %+v", takers[i].out.Results)
			}
			return err
		})
		n := float64(sum(decisions))
		return sample{load.PerSecond, (cpuSeconds(t, server) - cpu) / n * 1e6, float64(calls(fleet)-before) / n * 1000}
	}
	var cpu, throughput, perThousand []float64
	for round := range figure.Rounds(7) + 1 {
		with, without := run(leased), run(strict)
		t.Logf("leased %.0f/s, %.4f µs of Redis and %.2f calls per 1,000; strict %.0f/s, %.2f µs", with.perSecond, with.cpu, with.calls, without.perSecond, without.cpu)
		if round > 0 {
			cpu, throughput = append(cpu, with.cpu/without.cpu), append(throughput, with.perSecond/without.perSecond)
			perThousand = append(perThousand, with.calls)
		}
	}
	report.AtMost("scale-hot-key-redis-cpu-per-decision", figure.MedianOf(cpu), 0.05, "×")
	report.AtLeast("scale-hot-key-throughput", figure.MedianOf(throughput), 4, "×")
	report.AtMost("scale-hot-key-store-calls-per-1000", figure.MedianOf(perThousand), 10, "")
	report.AtMost("scale-hot-key-over-bound", overBound(t, leased), 0, "")
}

// overBound is how many tokens a bucket admits beyond its bound, with demand above the
// limit and gateways that rest and return.
func overBound(t *testing.T, fleet []gateway) float64 {
	t.Helper()
	const limit = 20_000
	d := demand(t, 2, rules.PerSecond(limit))
	rates := slices.Repeat([]float64{2 * limit / fleetSize}, fleetSize)
	all := slices.Concat(paced(t, fleet, d, rates, 6*time.Second, func(gateway int, now time.Duration) bool {
		return gateway == 0 && now > 2*time.Second // it dies
	})...)
	slices.Sort(all)
	// A bucket of the capacity and of what comes back in the lease time must hold what
	// was admitted.
	largest := limit + limit*lease.Time.Seconds()
	used, last, worst := 0.0, time.Duration(0), 0.0
	for _, at := range all {
		used = max(0, used-(at-last).Seconds()*limit) + 1
		last = at
		worst = max(worst, used-largest)
	}
	t.Logf("%d admitted in 6 s; the bucket of %.0f tokens was exceeded by %.1f", len(all), largest, worst)
	return worst
}

func sum(values []int64) (n int64) {
	for _, v := range values {
		n += v
	}
	return n
}

// cpuSeconds is what a server has used.
func cpuSeconds(t *testing.T, server *testenv.Server) float64 {
	t.Helper()
	info, err := server.Info(t.Context(), "cpu")
	if err != nil {
		t.Fatal(err)
	}
	total := 0.0
	for _, field := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, err := strconv.ParseFloat(info[field], 64)
		if err != nil {
			t.Fatal(err)
		}
		total += seconds
	}
	return total
}
