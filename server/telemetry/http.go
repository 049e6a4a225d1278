package telemetry

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// methods are those that a label names. Any other is "other".
var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
	http.MethodConnect, http.MethodOptions, http.MethodTrace,
}

func methodLabel(method string) string {
	if slices.Contains(methods, method) {
		return method
	}
	return labelOther
}

func codeLabel(status int) string {
	if status < 101 || status > 599 {
		return labelOther
	}
	return strconv.Itoa(status)
}

// maxRoutes bounds the routes with a label of their own.
const maxRoutes = 100

// routes counts requests by route. The handlers of promhttp do not: they count
// no request whose handler panics.
type routes struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec

	mu    sync.Mutex
	names map[string]bool
}

func newRoutes() *routes {
	return &routes{
		names: map[string]bool{},
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fluxgate_http_requests_total", Help: "HTTP requests by route, method and status.",
		}, []string{"route", "method", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "fluxgate_http_request_duration_seconds", Help: "Time to answer an HTTP request, by route.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"route"}),
	}
}

// label is the label of a route.
func (rs *routes) label(name string) string {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if !rs.names[name] && len(rs.names) >= maxRoutes {
		return labelOther
	}
	rs.names[name] = true
	return name
}

// Route counts the requests of a route and how long they take. The pattern is
// that of [http.ServeMux]; its path is the label, so that what callers write
// never is.
func (m *Metrics) Route(pattern string, next http.Handler) http.Handler {
	route := m.routes.label(routeOf(pattern))
	requests := m.routes.requests.MustCurryWith(prometheus.Labels{"route": route})
	seconds := m.routes.seconds.WithLabelValues(route)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		start, rec := time.Now(), recorded(w)
		defer func() {
			requests.WithLabelValues(methodLabel(req.Method), codeLabel(rec.code())).Inc()
			seconds.Observe(time.Since(start).Seconds())
		}()
		next.ServeHTTP(rec, req)
		rec.ended = true
	})
}

// routeOf is the path of a pattern.
func routeOf(pattern string) string {
	if _, path, ok := strings.Cut(pattern, " "); ok {
		pattern = strings.TrimSpace(path)
	}
	return strings.ToValidUTF8(pattern, "?")
}

// recorder notes the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int
	ended  bool // the handler has returned, and not panicked
}

// recorded is w as a recorder. Several who look at one answer share it.
func recorded(w http.ResponseWriter) *recorder {
	if rec, ok := w.(*recorder); ok {
		return rec
	}
	return &recorder{ResponseWriter: w}
}

// code is the status, as net/http answers where the handler does not say.
func (r *recorder) code() int {
	switch {
	case r.status != 0:
		return r.status
	case r.ended:
		return http.StatusOK
	}
	return http.StatusInternalServerError
}

// WriteHeader implements [http.ResponseWriter].
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(b)
}

// Flush implements [http.Flusher].
func (r *recorder) Flush() {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	_ = http.NewResponseController(r.ResponseWriter).Flush() // who cannot, need not
}

// Unwrap is for [http.ResponseController].
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
