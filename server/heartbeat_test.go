package server_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// metric is the value of a metric without labels, as text.
func (r *running) metric(t testing.TB, name string) string {
	t.Helper()
	response, err := r.client.Get(r.adminURL() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatal(response.Status, err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Servers count each other, apply their share of the level that Redis last
// reported while it is away, and charge it afterwards.
func TestFallback_ShareOfFleet(t *testing.T) {
	redis := testenv.StartStandalone(t, testenv.Config{})
	// Without leases: what is left of a slice would pass too.
	settings := []string{"redis.timeout=1s", "redis.uri=" + redis.URI(), "redis.leases=off", "rules.file=" + rulesFile(t, 100), "reload.strategy=POLLING"}
	one, other := start(t, settings...), start(t, settings...)
	for _, r := range []*running{one, other} {
		testenv.Eventually(t, "both are counted", func() bool { return r.metric(t, "fluxgate_fleet_servers") == "2" })
	}
	record, err := redis.Do(t.Context(), "HVALS", "fluxgate:gateways")
	entries, _ := record.([]any)
	if err != nil || len(entries) != 2 || strings.Trim(fmt.Sprint(entries[0]), "0123456789") != "" {
		t.Errorf("the record of the gateways has %q, %v", record, err)
	}
	for range 50 {
		one.check(t, "ada")
	}
	if err := redis.Freeze(); err != nil {
		t.Fatal(err)
	}
	allowed := 0
	for range 30 {
		if one.check(t, "ada")["allowed"] == true {
			allowed++
		}
	}
	if err := redis.Thaw(); err != nil {
		t.Fatal(err)
	}
	if allowed != 25 {
		t.Errorf("%d requests pass without Redis, want half of the 50 that were left", allowed)
	}
	testenv.Eventually(t, "Redis decides and was charged", func() bool {
		return one.check(t, "ada")["degraded"] == nil && one.metric(t, "fluxgate_fallback_pending_tokens") == "0"
	})
	if got := one.metric(t, "fluxgate_fallback_admitted_tokens_total"); got != "25" {
		t.Errorf("%s tokens admitted, want 25", got)
	}
}

// A server that stops before Redis was charged logs how many tokens it was not
// charged for.
func TestFallback_StopsBeforeCharge(t *testing.T) {
	redis := testenv.StartStandalone(t, testenv.Config{})
	r, log := startLogged(t, shortTimeout, "redis.uri="+redis.URI(), "rules.file="+rulesFile(t, 100), "reload.strategy=POLLING")
	if err := redis.Freeze(); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		r.check(t, "ada")
	}
	if err := r.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if lines := log.Lines("server stopped before it debited tokens"); len(lines) != 1 || !strings.Contains(lines[0], "tokens=5") {
		t.Errorf("logged %q", lines)
	}
}
