package server_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// dial opens a connection, and sends a request on it if there is one.
func dial(t *testing.T, addr, path string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if path == "" {
		return conn
	}
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return conn
}

// Connections over the limit get probes answered and 503 to other requests. Silent
// ones are closed in time, and the admin listener has its own limit.
func TestConnections_Limit(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	r, log := startLogged(t, "redis.enabled=false", "rules.file="+rulesFile(t, 1_000), "server.max-connections=10", "server.timeouts.read-header=300ms")
	addr, admin := r.Addr("http"), "http://"+r.Addr("admin")
	var idle []net.Conn
	for range 10 {
		idle = append(idle, dial(t, addr, "/healthz"))
	}
	a := r.do(t, http.MethodPost, "/v1/check", `{"userId":"u"}`)
	if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") != "1" || !strings.Contains(a.body, "too many connections") {
		t.Errorf("a check over the limit: %d %v %s", a.status, a.header, a.body)
	}
	for path, want := range map[string]string{"/healthz": "alive", "/readyz": "ready"} {
		if a := r.do(t, http.MethodGet, path, ""); a.status != http.StatusOK || !strings.Contains(a.body, want) {
			t.Errorf("%s over the limit: %d %s", path, a.status, a.body)
		}
	}
	metrics := r.do(t, http.MethodGet, admin+"/metrics", "").body
	for _, want := range []string{
		`fluxgate_connections_limit{listener="http"} 10`, `fluxgate_connections_limit{listener="admin"}`, `fluxgate_connections_over_limit_total{listener="http"} 3`,
		`fluxgate_connections{listener="http"} 1`, `fluxgate_connections{listener="admin"} 1`, `fluxgate_accept_errors_total{listener="http"} 0`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("%s is missing", want)
		}
	}
	if lines := log.Lines("too many connections"); len(lines) != 1 {
		t.Errorf("%d lines: %s", len(lines), lines)
	}
	// Clients that send nothing use all that can be accepted.
	for range 30 {
		dial(t, addr, "")
	}
	if status, body := get(t, admin+"/healthz"); status != http.StatusOK {
		t.Errorf("the admin listener: %d %s", status, body)
	}
	if status, body := get(t, r.url+"/healthz"); status != http.StatusOK {
		t.Errorf("a probe beside silent clients: %d %s", status, body)
	}
	for _, conn := range idle {
		_ = conn.Close()
	}
	testenv.Eventually(t, "checks are answered", func() bool {
		r.client.CloseIdleConnections()
		return r.do(t, http.MethodPost, "/v1/check", `{"userId":"u"}`).status == http.StatusOK
	})
}

// Probes are answered at once, however many connections other clients keep open and renew.
func TestConnections_Probes(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	r := start(t, "redis.enabled=false", "rules.file="+rulesFile(t, 1), "server.metrics=127.0.0.1:0")
	addr := r.Addr("metrics")
	for range 256 { // all that are served
		dial(t, addr, "/healthz")
	}
	for i := range 20 {
		for range 40 { // more than wait beyond these
			dial(t, addr, "")
		}
		for _, path := range []string{"/readyz", "/healthz"} {
			client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
			answer, err := client.Get("http://" + addr + path)
			if err != nil {
				t.Fatalf("probe %d: %v", i, err)
			}
			if _ = answer.Body.Close(); answer.StatusCode != http.StatusOK {
				t.Errorf("probe %d of %s: %d", i, path, answer.StatusCode)
			}
		}
	}
}
