// Package chaos_test measures what faults do to callers: see make figures-chaos.
// Package internal/chaos injects them.
package chaos_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/internal/chaos"
	"github.com/fluxgate/fluxgate/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestFigures(t *testing.T) { figure.Run(t, func(report *figure.Report) { measure(t, report) }) }

func measure(t *testing.T, report *figure.Report) {
	t.Run("frozen", func(t *testing.T) { frozen(t, report) })
	t.Run("throughput", func(t *testing.T) { throughput(t, report) })
	t.Run("slow", func(t *testing.T) { slow(t, report) })
	t.Run("cluster", func(t *testing.T) { cluster(t, report) })
	t.Run("saturated", func(t *testing.T) { saturated(t, report) })
	t.Run("restart", func(t *testing.T) { restart(t, report) })
	t.Run("outage", func(t *testing.T) { outage(t, report) })
}

// frozen is Redis frozen under 64 callers with 2,000 requests a second.
func frozen(t *testing.T, report *figure.Report) {
	row := run(t, "Redis frozen under middleware", chaos.Load{})
	report.AtMost("chaos-frozen-p99-open-ms", float64(row.Open.Microseconds())/1_000, 2, " ms")
	seconds(report, "chaos-frozen-noticed-s", row.Noticed, 1)
	seconds(report, "chaos-frozen-recovered-s", normal(row), 2)
}

// throughput is Redis frozen under 64 callers that send as much as they can.
func throughput(t *testing.T, report *figure.Report) {
	healthy, away := chaos.FrozenThroughput(t, timing())
	t.Logf("%.0f a second with Redis, %.0f without", healthy, away)
	report.AtLeast("chaos-frozen-throughput", away/healthy, 1, "×")
}

func slow(t *testing.T, report *figure.Report) {
	row := run(t, "Redis slower by 150ms under middleware", chaos.Load{})
	seconds(report, "chaos-slow-150ms-noticed-s", row.Noticed, 1)
}

// cluster measures from the promotion of a replica on.
func cluster(t *testing.T, report *figure.Report) {
	row := run(t, "cluster: master frozen under middleware", chaos.Load{})
	seconds(report, "chaos-cluster-frozen-master-recovered-s", normal(row), 5)
}

// saturated compares with what is due without any loss of state.
func saturated(t *testing.T, report *figure.Report) {
	row := chaos.Saturated(t, 600, figure.For(10*time.Second))
	t.Log("\n" + chaos.Table([]chaos.Row{row}))
	report.AtMost("chaos-saturated-admitted", float64(row.Admitted)/float64(row.Due), 1, "×")
}

func restart(t *testing.T, report *figure.Report) {
	requests, lost := chaos.RollingRestart(t)
	report.Verdict("chaos-restart-lost", fmt.Sprintf("%d of %d", lost, requests), "0", lost == 0)
}

// outage is one of 30 s, and the minute after it.
func outage(t *testing.T, report *figure.Report) {
	admitted, due := chaos.Outage(t, figure.For(30*time.Second), figure.For(time.Minute))
	t.Logf("%d tokens admitted, %.0f due", admitted, due)
	report.AtMost("chaos-outage-admitted", float64(admitted)/due, 1.05, "×")
}

// timing is that of the chaos tests, which is short in a smoke test.
func timing() chaos.Timing {
	if figure.Smoke() {
		return chaos.Timing{Before: 500 * time.Millisecond, During: 2 * time.Second}
	}
	return chaos.Timing{}
}

func run(t *testing.T, name string, load chaos.Load) chaos.Row {
	t.Helper()
	row := chaos.Run(t, chaos.Find(t, name), load, timing())
	t.Log("\n" + chaos.Table([]chaos.Row{row}))
	return row
}

// normal is when both decisions and health were normal.
func normal(row chaos.Row) time.Duration {
	if row.Recovered < 0 || row.Up < 0 {
		return -1
	}
	return max(row.Recovered, row.Up)
}

// seconds prints a time, which is below 0 if it never came.
func seconds(report *figure.Report, name string, took time.Duration, bar float64) {
	if took < 0 {
		report.Verdict(name, "never", fmt.Sprintf("at most %v s", bar), false)
		return
	}
	report.AtMost(name, took.Seconds(), bar, " s")
}
