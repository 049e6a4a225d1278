package server_test

import (
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// rareMetrics are those that exist after an event only.
var rareMetrics = []string{
	"fluxgate_shadow_rejections_total", "fluxgate_grpc_calls_total", "fluxgate_grpc_call_duration_seconds",
	"fluxgate_store_node_latency_seconds", "fluxgate_warnings_total",
}

// docs/metrics.md has the metrics that a server with every feature exposes, and
// the values of listener that it has.
func TestDocs_Metrics(t *testing.T) {
	r := start(t, "redis.uri="+testenv.SharedStandalone(t).URI(), "redis.prefix=docs-metrics", "wait-for-refill.enabled=true",
		"server.grpc=127.0.0.1:0", "server.metrics=127.0.0.1:0", "rules.file="+rulesFile(t, 5))
	r.check(t, "ada")
	text, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(fluxgate_[a-z_]+)").FindAllStringSubmatch(string(text), -1) {
		documented[row[1]] = true
	}
	scrape := r.do(t, http.MethodGet, "/metrics", "").body
	exposed := map[string]bool{}
	for _, line := range regexp.MustCompile(`(?m)^# TYPE (fluxgate_\w+) `).FindAllStringSubmatch(scrape, -1) {
		exposed[line[1]] = true
		if !documented[line[1]] {
			t.Errorf("the server exposes %s, which is not in docs/metrics.md", line[1])
		}
	}
	for name := range documented {
		if !exposed[name] && !slices.Contains(rareMetrics, name) {
			t.Errorf("docs/metrics.md has %s, which the server does not expose", name)
		}
	}
	_, row, _ := strings.Cut(string(text), "\n| `listener` |")
	row, _, _ = strings.Cut(row, "\n")
	for _, l := range regexp.MustCompile(`listener="(\w+)"`).FindAllStringSubmatch(scrape, -1) {
		if !strings.Contains(row, "`"+l[1]+"`") {
			t.Errorf("docs/metrics.md does not have the listener %s: %s", l[1], row)
		}
	}
}
