package telemetry_test

import (
	"bytes"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/server/telemetry"
)

// promtool runs the real one. A machine without it fails the test: a green run
// means that it ran.
func promtool(t *testing.T, input string, args ...string) string {
	t.Helper()
	testenv.SkipShort(t)
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatalf("promtool is needed (Debian: apt-get install prometheus): %v", err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Stdin = strings.NewReader(input)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, &out)
	}
	return out.String()
}

// Promtool accepts the metrics.
func TestPromtool_Metrics(t *testing.T) {
	w := newWorld(t, telemetry.Config{WaitSlots: 10})
	w.watchEverything(t)
	w.exercise(t)
	if out := promtool(t, scrapeText(t, w.metrics), "check", "metrics"); strings.TrimSpace(out) != "" {
		t.Errorf("promtool says:\n%s", out)
	}
}

// Promtool accepts what we ship.
func TestPromtool_Rules(t *testing.T) {
	for _, c := range []struct {
		want string
		args []string
	}{
		{"SUCCESS", []string{"check", "rules", deployed + "prometheus/alerts.yaml"}},
		{"SUCCESS", []string{"check", "config", deployed + "prometheus/prometheus.yaml"}},
		{"SUCCESS", []string{"test", "rules", deployed + "prometheus/alerts_test.yaml", deployed + "prometheus/alerts_outages_test.yaml"}},
	} {
		out := promtool(t, "", c.args...)
		if !strings.Contains(out, c.want) || strings.Contains(out, "FAILED") {
			t.Errorf("promtool %s:\n%s", strings.Join(c.args, " "), out)
		}
		_, _ = io.WriteString(t.Output(), out)
	}
}
