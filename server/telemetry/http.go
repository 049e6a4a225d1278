package telemetry

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/fluxgate/fluxgate/internal/meter"
)

// methods are those with a label of their own.
var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
	http.MethodConnect, http.MethodOptions, http.MethodTrace,
}

func methodLabel(method string) string {
	if slices.Contains(methods, method) {
		return method
	}
	return meter.Other
}

func codeLabel(status int) string {
	if status > 599 {
		return meter.Other
	}
	return strconv.Itoa(status)
}

// Route counts the requests of a route and how long they take, and traces them. The pattern is
// that of [http.ServeMux]; its path is the label, never what a caller sends.
// The handlers of promhttp would not count a request whose handler panics.
func (m *Metrics) Route(pattern string, next http.Handler) http.Handler {
	return m.route(pattern, next, false)
}

// PublicRoute is Route for requests whose headers a client may have written: they do not continue
// the traces that they name.
func (m *Metrics) PublicRoute(pattern string, next http.Handler) http.Handler {
	return m.route(pattern, next, true)
}

func (m *Metrics) route(pattern string, next http.Handler, public bool) http.Handler {
	route := pattern[strings.Index(pattern, " ")+1:]
	requests := m.requests.MustCurryWith(prometheus.Labels{"route": route})
	seconds := m.requestSeconds.WithLabelValues(route)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		start, rec := time.Now(), &recorder{ResponseWriter: w}
		var span trace.Span
		if m.config.Tracing.Enabled() {
			req, span = m.config.Tracing.start(req, route, public)
		}
		defer func() {
			requests.WithLabelValues(methodLabel(req.Method), codeLabel(rec.code())).Inc()
			seconds.Observe(time.Since(start).Seconds())
			if span != nil {
				end(span, rec.code())
			}
		}()
		next.ServeHTTP(rec, req)
		rec.ended = true
	})
}

// recorder records the status of a response.
type recorder struct {
	http.ResponseWriter
	status int
	ended  bool // the handler returned without a panic
}

// code returns the status, or what net/http answers if the handler wrote none.
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
	r.status = cmp.Or(r.status, http.StatusOK)
	return r.ResponseWriter.Write(b)
}

// Unwrap lets [http.ResponseController] reach the writer below.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Connections is the state of a listener.
type Connections struct {
	Listener string
	// Limit is the maximum number of connections.
	Limit int
	// Open is the number of open connections, OverLimit that of connections accepted over
	// the limit, and Failed that of failed accepts.
	Open              func() int64
	OverLimit, Failed func() uint64
}

// WatchConnections reports the connections of a listener.
func (m *Metrics) WatchConnections(c Connections) {
	m.registry.MustRegister(collector(func(out chan<- prometheus.Metric) {
		out <- meter.Gauge(meter.Desc("connections_limit",
			"Maximum connections: server.max-connections, at most half of the files of the process; "+
				"256 for admin and metrics.", "listener"), float64(c.Limit), c.Listener)
		out <- meter.Gauge(meter.Desc("connections", "Open connections.", "listener"), float64(c.Open()), c.Listener)
		out <- meter.Counter(meter.Desc("connections_over_limit_total",
			"Connections over the limit: probes on them are answered, other requests get 503; grpc closes them.", "listener"),
			c.OverLimit(), c.Listener)
		out <- meter.Counter(meter.Desc("accept_errors_total",
			"Connections that could not be accepted, as when the process has no file descriptors left.", "listener"),
			c.Failed(), c.Listener)
	}))
}
