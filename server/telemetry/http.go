package telemetry

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var descRequests = desc("http_requests_total", "HTTP requests by route, method and status.", "route", "method", "code")

// methods are those that a label names. Any other is "other".
var methods = [...]string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
	http.MethodConnect, http.MethodOptions, http.MethodTrace, labelOther,
}

func methodIndex(method string) int {
	if i := slices.Index(methods[:len(methods)-1], method); i >= 0 {
		return i
	}
	return len(methods) - 1
}

// maxRoutes bounds the routes with a label of their own.
const maxRoutes = 100

// routes counts requests by route.
type routes struct {
	seconds *prometheus.HistogramVec

	mu     sync.Mutex
	byName map[string]*route
}

func newRoutes() *routes {
	return &routes{byName: map[string]*route{}, seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "fluxgate_http_request_duration_seconds", Help: "Time to answer an HTTP request, by route.",
		Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	}, []string{"route"})}
}

// statuses counts by status from 100 on; the first is one that HTTP does not
// have.
type statuses [500]atomic.Uint64

// route counts the requests of one route.
type route struct {
	name     string
	seconds  prometheus.Observer
	byMethod [len(methods)]atomic.Pointer[statuses]
}

func (rs *routes) get(name string) *route {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.byName[name] == nil && len(rs.byName) >= maxRoutes {
		name = labelOther
	}
	r := rs.byName[name]
	if r == nil {
		r = &route{name: name, seconds: rs.seconds.WithLabelValues(name)}
		rs.byName[name] = r
	}
	return r
}

func (r *route) count(method string, status int) {
	counts := &r.byMethod[methodIndex(method)]
	if counts.Load() == nil {
		counts.CompareAndSwap(nil, new(statuses))
	}
	if status < 101 || status > 599 {
		status = 100 // never the last word, so its place is free
	}
	counts.Load()[status-100].Add(1)
}

// Describe implements [prometheus.Collector].
func (rs *routes) Describe(out chan<- *prometheus.Desc) { out <- descRequests }

// Collect implements [prometheus.Collector].
func (rs *routes) Collect(out chan<- prometheus.Metric) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, r := range rs.byName {
		for i := range r.byMethod {
			counts := r.byMethod[i].Load()
			for j := 0; counts != nil && j < len(counts); j++ {
				n := counts[j].Load()
				if n == 0 {
					continue
				}
				code := labelOther
				if j > 0 {
					code = strconv.Itoa(j + 100)
				}
				out <- counter(descRequests, n, r.name, methods[i], code)
			}
		}
	}
}

// Route counts the requests of a route and how long they take. The pattern is
// that of [http.ServeMux]; its path is the label, so that what callers write
// never is.
func (m *Metrics) Route(pattern string, next http.Handler) http.Handler {
	r := m.routes.get(routeOf(pattern))
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		start, rec := time.Now(), recorded(w)
		defer func() {
			r.count(req.Method, rec.code())
			r.seconds.Observe(time.Since(start).Seconds())
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
