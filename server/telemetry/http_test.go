package telemetry_test

import (
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/server/telemetry"
)

func newMetrics(tb testing.TB) *telemetry.Metrics {
	tb.Helper()
	return telemetry.New(telemetry.Config{Logger: slog.New(slog.DiscardHandler)})
}

// Requests are counted by route, method and status.
func TestRoute_Labels(t *testing.T) {
	m := newMetrics(t)
	mux := http.NewServeMux()
	for pattern, h := range map[string]http.HandlerFunc{
		"GET /users/{id}": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") },
		"GET /silent":     func(http.ResponseWriter, *http.Request) {},
		"/limited": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusTooManyRequests)
			w.WriteHeader(http.StatusOK) // too late
		},
		"/strange": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(799) },
		"/stream": func(w http.ResponseWriter, _ *http.Request) {
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Errorf("an answer cannot be flushed: %v", err)
			}
		},
		"/panic": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"/":      http.NotFound,
	} {
		mux.Handle(pattern, m.Route(pattern, h))
	}
	server := httptest.NewUnstartedServer(mux)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // a status that comes too late is on purpose
	server.Start()
	defer server.Close()
	send := func(method, path string) {
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := server.Client().Do(req)
		if err == nil {
			_, _ = io.Copy(io.Discard, res.Body) // its end is the handler's end
			res.Body.Close()
		} else if path != "/panic" {
			t.Fatal(err)
		}
	}
	for i := range 10 {
		send(http.MethodGet, fmt.Sprint("/users/", i))
		send(http.MethodGet, fmt.Sprint("/nowhere/", i))
		send(fmt.Sprint("X-CALLERS-", i), "/limited")
	}
	send(http.MethodPost, "/panic") // a client may repeat a GET
	for _, path := range []string{"/silent", "/strange", "/stream"} {
		send(http.MethodGet, path)
	}
	got := scrape(t, m)
	for series, want := range map[string]float64{
		`fluxgate_http_requests_total{code="200",method="GET",route="/users/{id}"}`: 10,
		`fluxgate_http_requests_total{code="404",method="GET",route="/"}`:           10,
		`fluxgate_http_requests_total{code="429",method="other",route="/limited"}`:  10,
		`fluxgate_http_requests_total{code="200",method="GET",route="/silent"}`:     1,
		`fluxgate_http_requests_total{code="other",method="GET",route="/strange"}`:  1,
		`fluxgate_http_requests_total{code="200",method="GET",route="/stream"}`:     1,
		`fluxgate_http_requests_total{code="500",method="POST",route="/panic"}`:     1,
		`fluxgate_http_request_duration_seconds_count{route="/users/{id}"}`:         10,
	} {
		if got[series] != want {
			t.Errorf("%s is %v, want %v", series, got[series], want)
		}
	}
	for series := range got {
		if strings.Contains(series, "CALLERS") || strings.Contains(series, "nowhere") {
			t.Errorf("%s has a label that is the caller's", series)
		}
	}
}
