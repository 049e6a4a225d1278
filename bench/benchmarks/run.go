package benchmarks

import (
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/bench/servers"
	"github.com/fluxgate/fluxgate/internal/testenv"
)

// callers call at the same time.
const callers = 64

// size is how long a run takes.
type size struct {
	rounds    int
	slice     time.Duration // of one contender under one workload
	saturated time.Duration // of one caller that asks for more than its limit
	phases    int           // such callers, which start at different times of a second
	ratelimit bool          // envoyproxy/ratelimit too, which takes a minute to build
}

var (
	full  = size{rounds: 5, slice: time.Second, saturated: 3 * time.Second, phases: 8, ratelimit: true}
	small = size{rounds: 1, slice: 20 * time.Millisecond, saturated: 150 * time.Millisecond, phases: 1}
)

// run measures all contenders in alternating rounds, on one Redis that is flushed before
// each measurement.
func run(t *testing.T, s size) results {
	t.Helper()
	redis := testenv.StartStandalone(t, testenv.Config{})
	contenders := []contender{strict(t, redis), leases(t, redis), redisRate(t, redis), throttledLimiter(t, redis), httpRate(t, redis), fluxgateServer(t, redis)}
	if s.ratelimit {
		contenders = append(contenders, envoyRatelimit(t, redis))
	}
	all := machine(t, redis)
	for round := range s.rounds {
		for _, w := range workloads {
			for i := range contenders {
				c := &contenders[(i+round)%len(contenders)] // another one is first in each round
				if _, err := redis.Do(t.Context(), "FLUSHALL"); err != nil {
					t.Fatal(err)
				}
				// No caller of an earlier measurement has these keys, whatever is
				// remembered in memory.
				m := &measurement{T: t, contender: c, redis: redis, prefix: w.name + "-" + strconv.Itoa(round) + "-"}
				for measure, value := range m.measure(w, s) {
					all = append(all, result{w.name, c.name, measure, round + 1, strconv.FormatFloat(value, 'f', 3, 64)})
				}
			}
		}
		t.Logf("round %d of %d", round+1, s.rounds)
	}
	return all
}

// measurement measures one contender once.
type measurement struct {
	*testing.T
	*contender
	redis  *testenv.Server
	prefix string // of its keys
}

func (m *measurement) measure(w *workload, s size) map[string]float64 {
	m.Helper()
	switch w {
	case cold:
		return m.speed(w, s.slice, true, keysInTurn(m.prefix))
	case hot:
		return m.speed(w, s.slice, true, oneKey(m.prefix))
	case blocked:
		for range 2 * w.limits[0].tokens {
			m.decide(w, m.prefix)
		}
		return m.speed(w, s.slice, false, oneKey(m.prefix))
	case saturated:
		return m.saturate(w, s)
	default:
		return map[string]float64{measureLeaked: float64(m.leaked(w))}
	}
}

// decide decides one request.
func (m *measurement) decide(w *workload, keys ...string) bool {
	m.Helper()
	ok, err := m.allow(m.Context(), w, keys...)
	if err != nil {
		m.Fatalf("%s: %v", m.name, err)
	}
	return ok
}

// machine returns what the numbers depend on.
func machine(t *testing.T, redis *testenv.Server) (all results) {
	t.Helper()
	info, err := redis.Info(t.Context(), "server")
	if err != nil {
		t.Fatal(err)
	}
	add := func(name, value string) { all = append(all, result{"machine", "", name, 0, value}) }
	add("date", figure.Today())
	add("cores", strconv.Itoa(runtime.NumCPU()))
	add("system", runtime.GOOS+"/"+runtime.GOARCH)
	add("Go", strings.TrimPrefix(runtime.Version(), "go"))
	add("Redis", info["redis_version"])
	modules, err := exec.CommandContext(t.Context(), "go", "list", "-m", "github.com/go-redis/redis_rate/v10",
		"github.com/throttled/throttled/v2", "github.com/go-chi/httprate", "github.com/go-chi/httprate-redis").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(modules)) {
		module, version, _ := strings.Cut(strings.TrimSpace(line), " ")
		add(module, version)
	}
	add("github.com/envoyproxy/ratelimit", servers.RatelimitVersion)
	return all
}
