// Package load sends requests to servers, for the figures that measure them: calls of Envoy's
// rate limit protocol, and HTTP requests by wrk. It measures the processor time that a request
// takes in the server and in its Redis.
package load

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/bench/servers"
	"github.com/fluxgate/fluxgate/internal/testenv"
)

// Service is a server under load.
type Service struct {
	Name string
	*servers.Server
	Redis  *testenv.Server // its own, or nil if it has none
	Counts string          // the command by which it counts for one limit in Redis
}

// Load is what a service did.
type Load struct {
	Requests      int
	PerSecond     float64
	P50, P99, Far time.Duration // Far is the 99.9th percentile of calls, and not measured by wrk
	CPU           time.Duration // of the service for each request
	Redis         time.Duration // the same of its Redis
}

func (l Load) String() string {
	return fmt.Sprintf("%.0f/s p50 %v p99 %v p999 %v cpu %v redis %v", l.PerSecond, l.P50, l.P99, l.Far, l.CPU, l.Redis)
}

// measure runs a load of so many limits for each request, and adds what the service used. A
// request that was not counted in Redis fails the test: it is cheaper than others.
func (s *Service) measure(tb testing.TB, limits int, run func() Load) Load {
	tb.Helper()
	before, cpu, redis := s.counted(tb), CPU(tb, s.Pid()), s.redisCPU(tb)
	l := run()
	if counted := s.counted(tb) - before; s.Redis != nil && counted < l.Requests*limits || l.Requests == 0 {
		tb.Fatalf("%s: %d requests were counted %d times by %d limits", s.Name, l.Requests, counted, limits)
	}
	n := time.Duration(l.Requests)
	l.CPU, l.Redis = (CPU(tb, s.Pid())-cpu)/n, (s.redisCPU(tb)-redis)/n
	return l
}

// counted returns how often Redis has counted a request for a limit.
func (s *Service) counted(tb testing.TB) (calls int) {
	tb.Helper()
	if s.Redis == nil {
		return 0
	}
	stats, err := s.Redis.Info(tb.Context(), "commandstats")
	if err != nil {
		tb.Fatal(err)
	}
	if line := stats["cmdstat_"+s.Counts]; line != "" {
		if _, err := fmt.Sscanf(line, "calls=%d,", &calls); err != nil {
			tb.Fatal(err)
		}
	}
	return calls
}

func (s *Service) redisCPU(tb testing.TB) time.Duration {
	tb.Helper()
	if s.Redis == nil {
		return 0
	}
	return CPU(tb, s.Redis.Pid())
}

// CPU returns the processor time of a process in user and system mode.
func CPU(tb testing.TB, pid int) time.Duration {
	tb.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		tb.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name may have spaces
	fields := strings.Fields(rest)
	var ticks int
	for _, i := range []int{14, 15} { // their numbers in proc(5), where ) ends field 2
		n, err := strconv.Atoi(fields[i-3])
		if err != nil {
			tb.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

const (
	rounds = 7
	slice  = 3 * time.Second // wrk knows whole seconds only
)

// Run is a load that runs for a while.
type Run func(length time.Duration) Load

// Alternate runs loads by turns and returns those of each, round by round. A first round
// that does not count creates the counters.
func Alternate(tb testing.TB, runs ...Run) [][]Load {
	tb.Helper()
	all := make([][]Load, len(runs))
	for round := range figure.Rounds(rounds) + 1 {
		for i, run := range runs {
			l := run(figure.For(slice))
			if round > 0 {
				all[i] = append(all[i], l)
			}
		}
	}
	return all
}

// Ratio returns the median of the ratios of two loads, round by round.
func Ratio[N ~int64 | float64](subject, control []Load, of func(Load) N) float64 {
	ratios := make([]float64, len(subject))
	for i := range ratios {
		ratios[i] = float64(of(subject[i])) / float64(of(control[i]))
	}
	return figure.MedianOf(ratios)
}

// Median returns the median of a value.
func Median[N ~int64 | float64](loads []Load, of func(Load) N) float64 {
	values := make([]float64, len(loads))
	for i := range loads {
		values[i] = float64(of(loads[i]))
	}
	return figure.MedianOf(values)
}

// CPUOf returns the processor time of the service, for [Ratio] and [Median].
func CPUOf(l Load) time.Duration { return l.CPU }

// RedisOf returns that of Redis.
func RedisOf(l Load) time.Duration { return l.Redis }

// TotalOf returns that of both.
func TotalOf(l Load) time.Duration { return l.CPU + l.Redis }

// PerSecondOf returns the throughput.
func PerSecondOf(l Load) float64 { return l.PerSecond }
