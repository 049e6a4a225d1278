package benchmarks

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate/bench/redisload"
)

// The measures of speed.
const (
	measureRate   = "decisions_per_second"
	measureP99    = "p99_ms"
	measureCPU    = "redis_cpu_us_per_decision"
	measureFailed = "failed_percent" // errors and wrong decisions
)

// keysInTurn spreads the decisions of all callers over many keys.
func keysInTurn(prefix string) func(caller, n int) string {
	return func(caller, n int) string { return prefix + strconv.FormatUint(redisload.Place(caller, n), 10) }
}

func oneKey(prefix string) func(caller, n int) string {
	return func(int, int) string { return prefix }
}

// speed has all callers decide for a while. Every decision must be the wanted one.
func (m *measurement) speed(w *workload, length time.Duration, want bool, key func(caller, n int) string) map[string]float64 {
	m.Helper()
	var decided, failed atomic.Int64
	var reason atomic.Pointer[error]
	before := m.redisCPU()
	load := redisload.RunFor(m.T, callers, length, func(ctx context.Context, caller, n int) error {
		decided.Add(1)
		ok, err := m.allow(ctx, w, key(caller, n))
		if err == nil && ok != want {
			err = errors.New("a wrong decision")
		}
		if err != nil {
			failed.Add(1)
			reason.Store(&err)
		}
		return ctx.Err() // a failure is measured; a run that cannot end is none
	})
	if err := reason.Load(); err != nil {
		m.Logf("%s, %s: %d of %d requests failed: %v", m.name, w.name, failed.Load(), decided.Load(), *err)
	}
	good := 1 - float64(failed.Load())/float64(decided.Load())
	return map[string]float64{
		measureRate: load.PerSecond * good, measureP99: float64(load.P99.Microseconds()) / 1000,
		measureCPU:    float64((m.redisCPU() - before).Microseconds()) / float64(decided.Load()),
		measureFailed: 100 * (1 - good),
	}
}

// redisCPU is the processor time that Redis has used.
func (m *measurement) redisCPU() (used time.Duration) {
	m.Helper()
	info, err := m.redis.Info(m.Context(), "cpu")
	if err != nil {
		m.Fatal(err)
	}
	for _, field := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, err := strconv.ParseFloat(info[field], 64)
		if err != nil {
			m.Fatal(err)
		}
		used += time.Duration(seconds * float64(time.Second))
	}
	return used
}
