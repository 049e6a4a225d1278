package telemetry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/server/telemetry"
)

// prometheus is a real one that scrapes one server and has our alert rules.
type prometheus struct {
	url    string
	client *http.Client
}

func startPrometheus(t *testing.T, target string) *prometheus {
	t.Helper()
	testenv.SkipShort(t)
	path, err := exec.LookPath("prometheus")
	if err != nil {
		t.Fatalf("prometheus is needed (Debian: apt-get install prometheus): %v", err)
	}
	rules, err := filepath.Abs(deployed + "prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := fmt.Sprintf(`
global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 500ms}
rule_files: [%q]
scrape_configs: [{job_name: fluxgate, static_configs: [{targets: [%q]}]}]
`, rules, target)
	file := filepath.Join(dir, "prometheus.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	p := &prometheus{client: &http.Client{Transport: transport, Timeout: 20 * time.Second}}
	for try := range 3 { // another process may be faster to take the port
		if p.start(t, path, file, filepath.Join(dir, fmt.Sprint("data", try))) {
			return p
		}
	}
	t.Fatal("prometheus does not start")
	return nil
}

// start starts the program and waits until it is ready, or has ended.
func (p *prometheus) start(t *testing.T, path, config, data string) bool {
	t.Helper()
	addr := testenv.FreeAddr(t)
	var log testenv.LogBuffer
	cmd := exec.Command(path, "--config.file="+config, "--storage.tsdb.path="+data, "--web.listen-address="+addr, "--log.level=warn")
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("prometheus said:\n%s", log.String())
		}
	})
	p.url = "http://" + addr
	ready := false
	testenv.Eventually(t, "prometheus to be ready", func() bool {
		select {
		case <-ended:
			return true
		default:
		}
		_, err := p.get(t.Context(), "/-/ready")
		ready = err == nil
		return ready
	})
	return ready
}

func (p *prometheus) get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	res, err := p.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, body)
	}
	return body, err
}

// query is the values that an expression has now.
func (p *prometheus) query(t *testing.T, expr string) []string {
	t.Helper()
	body, err := p.get(t.Context(), "/api/v1/query?query="+url.QueryEscape(expr))
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	var answer struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		t.Fatalf("%s: %v\n%s", expr, err, body)
	}
	var values []string
	for _, r := range answer.Data.Result {
		values = append(values, fmt.Sprint(r.Value[1]))
	}
	return values
}

// A real Prometheus scrapes all metrics.
func TestPrometheus_Scrape(t *testing.T) {
	t.Parallel() // it mostly waits
	w := newWorld(t, telemetry.Config{WaitSlots: 10, Version: "1.2.3"})
	w.watchEverything(t)
	w.exercise(t)
	server := httptest.NewServer(w.metrics.Handler())
	defer server.Close()
	p := startPrometheus(t, strings.TrimPrefix(server.URL, "http://"))

	for expr, want := range map[string]string{
		`fluxgate_rule_decisions_total{rule_set="api", rule="api-ip", outcome="limited"}`: "2",
		`sum(fluxgate_decisions_total)`:                                "21",
		`fluxgate_build_info{version="1.2.3"}`:                         "1",
		`up{job="fluxgate"}`:                                           "1",
		`sum(fluxgate_decision_duration_seconds_count)`:                "20",
		`fluxgate_rules_revision{rule_set="api"} > 0`:                  "1",
		`time() - fluxgate_rules_loaded_timestamp_seconds < bool 3600`: "1",
	} {
		testenv.Eventually(t, expr+" to be "+want, func() bool {
			got := p.query(t, expr)
			return len(got) == 1 && got[0] == want
		})
	}

	// Every panel shows something for a gateway on which all has happened.
	variables := strings.NewReplacer("$__rate_interval", "1m", "$job", "fluxgate", "$instance", ".*", "$rule_set", ".*")
	queries := 0
	for _, panel := range dashboard(t) {
		for _, target := range panel.Targets {
			queries++
			expr := variables.Replace(target.Expr)
			testenv.Eventually(t, fmt.Sprintf("the panel %q to show %s", panel.Title, expr), func() bool { return len(p.query(t, expr)) > 0 })
		}
	}
	if queries < 30 {
		t.Errorf("the dashboard has only %d queries", queries)
	}

	testenv.Eventually(t, "every alert to be evaluated", func() bool {
		body, err := p.get(t.Context(), "/api/v1/rules?type=alert")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(body), `"health":"err"`) {
			t.Fatalf("an alert cannot be evaluated:\n%s", body)
		}
		return strings.Count(string(body), `"health":"ok"`) == len(alerts(t))
	})
}
