package bare_test

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/bench/load"
	"github.com/fluxgate/fluxgate/bench/servers"
	"github.com/fluxgate/fluxgate/internal/testenv"
)

// parts are what a stack belongs to: the innermost function with one of the prefixes decides.
var parts = []struct {
	name     string
	prefixes []string
}{
	{"allocation and collection", []string{"runtime.mallocgc", "runtime.gcBgMarkWorker", "runtime.bgsweep", "runtime.gcAssist", "runtime.gcStart"}},
	{"Redis client", []string{"github.com/redis/go-redis"}},
	{"store: queue and script calls", []string{"github.com/fluxgate/fluxgate/store/redisstore"}},
	{"metrics and live numbers", []string{
		"github.com/fluxgate/fluxgate/server/telemetry", "github.com/fluxgate/fluxgate/server/insight",
		"github.com/fluxgate/fluxgate/internal/meter", "github.com/prometheus",
	}},
	{"engine", []string{"github.com/fluxgate/fluxgate.", "github.com/fluxgate/fluxgate/internal", "github.com/fluxgate/fluxgate/store"}},
	{"service", []string{"github.com/fluxgate/fluxgate/server"}},
	{"transport", []string{"google.golang.org/grpc", "golang.org/x/net/http2", "net/http"}},
}

const scheduling = "scheduler, timers and system calls" // no function with one of the prefixes

// profileFigures logs where a server spends its processor time, over gRPC and HTTP.
func profileFigures(t *testing.T) {
	profile := func(setting string, run func(*load.Service) load.Run) {
		program, file := servers.Profiled(t)
		redis := testenv.StartStandalone(t, testenv.Config{})
		server := servers.Start(t, program, redis, "redis.leases=off", setting)
		loaded := run(&load.Service{Name: "FluxGate, profiled", Server: server, Redis: redis, Counts: "psetex"})(figure.For(20 * time.Second))
		if err := server.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		logProfile(t, file, loaded.CPU)
	}
	profile("rules.envoy-files="+servers.RulesFile(t, load.Plenty), func(s *load.Service) load.Run {
		return s.Calling(t, load.NewCalls(t, 1), 0)
	})
	profile("rules.file="+servers.RulesFile(t, oneRule), func(s *load.Service) load.Run {
		return s.Posting(t, "http://"+s.HTTP+"/v1/check", check, 1)
	})
}

// logProfile logs the share of each part in a profile, and of the processor time of a request,
// as a table of Markdown.
func logProfile(t *testing.T, file string, cost time.Duration) {
	t.Helper()
	traces, err := exec.CommandContext(t.Context(), "go", "tool", "pprof", "-traces", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	var total time.Duration
	times := map[string]time.Duration{}
	for trace := range strings.SplitSeq(string(traces), "-----------+") {
		spent, stack := readTrace(trace)
		times[partOf(stack)] += spent
		total += spent
	}
	if total == 0 {
		t.Fatalf("the profile is empty: %s", traces)
	}
	var table bytes.Buffer
	for _, name := range slices.SortedFunc(maps.Keys(times), func(a, b string) int { return cmp.Compare(times[b], times[a]) }) {
		share := float64(times[name]) / float64(total)
		fmt.Fprintf(&table, "| %s | %.0f %% | %.1f µs |\n", name, 100*share, share*float64(cost)/1_000)
	}
	t.Logf("| part | share | each call |\n|---|---|---|\n%s", &table)
}

// readTrace reads a stack of go tool pprof -traces: the time and the innermost function, then
// its callers.
func readTrace(text string) (spent time.Duration, stack []string) {
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) == 2 && spent == 0 {
			spent, _ = time.ParseDuration(fields[0]) // else it is a line before the first stack
			fields = fields[1:]
		}
		if spent > 0 && len(fields) > 0 {
			stack = append(stack, fields[0])
		}
	}
	return spent, stack
}

func partOf(stack []string) string {
	has := func(function string, prefixes []string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(function, p) })
	}
	if slices.ContainsFunc(stack, func(f string) bool { return has(f, parts[0].prefixes) }) {
		return parts[0].name
	}
	for _, function := range stack {
		for _, p := range parts[1:] {
			if has(function, p.prefixes) {
				return p.name
			}
		}
	}
	return scheduling
}
