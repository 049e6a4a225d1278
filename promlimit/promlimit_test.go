package promlimit_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/promlimit"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/telemetry"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// away is a store that is unavailable for the path /away.
type away struct{ store.Store }

func (a away) Take(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
	if demands[0].Key.Rule == "away" {
		return store.ErrNotSent
	}
	return a.Store.Take(ctx, demands, out)
}

func newStore(t *testing.T) store.Fallback {
	t.Helper()
	still := time.Now()
	s, err := memstore.New(memstore.Config{Clock: func() time.Time { return still }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// exercise makes the decisions that metrics tell apart. It returns the engine.
func exercise(t *testing.T, observer fluxgate.Observer) *fluxgate.Engine {
	t.Helper()
	set := fluxgate.Must(rules.NewSet("api",
		rules.Rule{ID: "few", Paths: []string{"/few"}, Bands: []rules.Band{rules.PerHour(3)}},
		rules.Rule{ID: "trial", Paths: []string{"/few"}, Mode: rules.ModeShadow, Bands: []rules.Band{rules.PerHour(1)}},
		rules.Rule{ID: "away", Paths: []string{"/away"}, Bands: []rules.Band{rules.PerHour(100)}},
		rules.Rule{ID: "wait", Paths: []string{"/wait"}, OnLimitExceed: rules.WaitForRefill, Bands: []rules.Band{
			{Capacity: 1, Refill: time.Millisecond}}},
	))
	engine := fluxgate.Must(fluxgate.New(away{newStore(t)}, fluxgate.Static(set), fluxgate.WithObserver(observer),
		fluxgate.WithFallback(newStore(t)), fluxgate.WithFallbackShare(1), fluxgate.WithWaiting(time.Second, 10)))
	for _, path := range []string{"/few", "/few", "/few", "/few", "/none", "/away", "/wait", "/wait"} {
		d := fluxgate.Must(engine.Check(t.Context(), &fluxgate.Request{Path: path}))
		if path == "/few" && d.Allowed {
			fluxgate.Must(engine.Settle(t.Context(), d.Receipt(), 1))
		}
	}
	fluxgate.Must(engine.Check(t.Context(), &fluxgate.Request{Path: "/few", Peek: true}))
	fluxgate.Must(engine.Check(t.Context(), &fluxgate.Request{RuleSet: "made-up"}))
	return engine
}

func scrape(t *testing.T, handler http.Handler) map[string]bool {
	t.Helper()
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	if answer.Code != http.StatusOK {
		t.Fatal(answer.Code, answer.Body)
	}
	lines := map[string]bool{}
	for line := range strings.Lines(answer.Body.String()) {
		lines[strings.TrimSpace(line)] = true
	}
	return lines
}

// A service and a server that decide the same have the same metrics, with their types and help texts.
func TestCollector_AsServer(t *testing.T) {
	registry, metrics := prometheus.NewPedanticRegistry(), promlimit.New("api")
	registry.MustRegister(metrics)
	metrics.Limiter(exercise(t, metrics))
	server := telemetry.New(telemetry.Config{RuleSet: "api", Logger: slog.New(slog.DiscardHandler)})
	server.WatchFallback(exercise(t, server).FallbackStats, func() int { return 0 })
	service, want := scrape(t, promhttp.HandlerFor(registry, promhttp.HandlerOpts{})), scrape(t, server.Handler())
	for line := range service {
		if !want[line] {
			t.Errorf("only the service has %s", line)
		}
	}
	for line := range want {
		for _, other := range []string{"fluxgate_build", "fluxgate_withdrawn_decisions", "go_", "process_", "promhttp"} {
			if strings.HasPrefix(strings.TrimPrefix(strings.TrimPrefix(line, "# HELP "), "# TYPE "), other) {
				service[line] = true
			}
		}
		if !service[line] {
			t.Errorf("only the server has %s", line)
		}
	}
	for _, line := range []string{
		`fluxgate_rule_decisions_total{outcome="limited",rule="few",rule_set="api"} 1`,
		`fluxgate_decisions_total{allowed="true",outcome="allowed",rule_set="api",source="fallback"} 1`,
		`fluxgate_decisions_total{allowed="true",outcome="no-rule-set",rule_set="unknown",source="none"} 1`,
		`fluxgate_settlements_total{result="ok"} 3`,
		`fluxgate_store_failures_total 1`,
		`fluxgate_degraded_decisions_total 1`,
		`fluxgate_fallback_admitted_tokens_total 1`,
		`fluxgate_wait_seconds_count 1`,
		`fluxgate_shadow_rejections_total{rule="trial",rule_set="api"} 3`,
		`fluxgate_peeks_total 1`,
	} {
		if !service[line] {
			t.Errorf("no line %s", line)
		}
	}
}

// Decisions of the limiter are timed.
func TestCollector_Limiter(t *testing.T) {
	registry, metrics := prometheus.NewRegistry(), promlimit.New("api")
	registry.MustRegister(metrics)
	limiter := metrics.Limiter(exercise(t, metrics))
	for range 3 {
		fluxgate.Must(limiter.Check(t.Context(), &fluxgate.Request{Path: "/none"}))
	}
	if lines := scrape(t, promhttp.HandlerFor(registry, promhttp.HandlerOpts{})); !lines["fluxgate_decision_duration_seconds_count 3"] {
		t.Error("3 decisions of the limiter were not timed")
	}
}

// Rules beyond 1,000 share a label.
func TestCollector_BoundedLabels(t *testing.T) {
	registry, metrics := prometheus.NewRegistry(), promlimit.New("api")
	registry.MustRegister(metrics)
	for i := range 1_100 {
		metrics.Decided(t.Context(), new(fluxgate.Request), &fluxgate.Decision{Reason: fluxgate.ReasonLimited, RuleID: fmt.Sprint("r", i)}, nil)
	}
	seen := 0
	lines := scrape(t, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	for line := range lines {
		if strings.HasPrefix(line, `fluxgate_rule_decisions_total{outcome="limited"`) {
			seen++
		}
	}
	if seen != 1_001 || !lines[`fluxgate_rule_decisions_total{outcome="limited",rule="other",rule_set="api"} 100`] {
		t.Errorf("%d rules have a label, want 1,000 and other", seen)
	}
}

// A program that serves metrics already grows by at most 1 MB, and gets neither gRPC nor
// OpenTelemetry nor the server.
func TestCollector_Size(t *testing.T) {
	testenv.SkipShort(t)
	root, folder := testenv.Root(t), t.TempDir()
	goTool := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = root
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	build := func(name, imports, register string) int64 {
		source, program := filepath.Join(folder, name+".go"), filepath.Join(folder, name)
		text := fmt.Sprintf("package main\n\nimport (\n\t\"net/http\"\n%s\n\t\"github.com/prometheus/client_golang/prometheus\"\n"+
			"\t\"github.com/prometheus/client_golang/prometheus/promhttp\"\n)\n\n"+
			"func main() {\n\tprometheus.MustRegister(%s)\n\tpanic(http.ListenAndServe(\":0\", promhttp.Handler()))\n}\n", imports, register)
		if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		goTool("build", "-trimpath", "-o", program, source)
		info, err := os.Stat(program)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	without := build("without", "", "")
	with := build("with", "\t\"github.com/fluxgate/fluxgate/promlimit\"", `promlimit.New("api")`)
	t.Logf("%d bytes, and %d more", without, with-without)
	if with-without > 1e6 || with <= without {
		t.Errorf("%d bytes grow by %d, want at most 1,000,000", without, with-without)
	}
	for name := range strings.Lines(goTool("list", "-deps", "./promlimit")) {
		for _, unwanted := range []string{"google.golang.org/grpc", "go.opentelemetry.io/", "github.com/fluxgate/fluxgate/server"} {
			if strings.HasPrefix(name, unwanted) {
				t.Errorf("the collector imports %s", name)
			}
		}
	}
}
