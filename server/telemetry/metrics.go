package telemetry

import (
	"context"
	"log/slog"
	"net/http"
	"regexp"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/server/insight"
	"github.com/fluxgate/fluxgate/store"
)

// Config configures [Metrics]. Its zero value works.
type Config struct {
	// Recorder counts decisions. Nil means one without live numbers.
	Recorder *insight.Recorder
	// Version is that of the build, for fluxgate_build_info.
	Version string
	// WaitSlots is how many requests may wait at once. 0 means none.
	WaitSlots int
	// Logger gets decisions at level debug, without the caller's identity and
	// path, and warnings about the store. Nil means slog.Default().
	Logger *slog.Logger
}

// Metrics counts what a server does, for Prometheus, and logs it. It is the
// observer of the engine.
type Metrics struct {
	registry *prometheus.Registry
	create   promauto.Factory
	log      *decisionLog
	recorder *insight.Recorder

	requests                     *prometheus.CounterVec
	requestSeconds               *prometheus.HistogramVec
	calls                        *prometheus.CounterVec
	callSeconds                  *prometheus.HistogramVec
	seconds                      prometheus.Histogram
	waits                        prometheus.Observer
	waiting                      prometheus.Gauge
	peeks, storeFailed, degraded prometheus.Counter
	tokens, settlements          *prometheus.CounterVec
}

var _ fluxgate.Observer = (*Metrics)(nil)

// liveHeap is go_gc_heap_live_bytes, what the heap had after the last collection.
// Unlike the size of the heap, which varies with the collections, it shows a leak.
var liveHeap = collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/gc/heap/live:bytes$`)}

// answerSeconds are the bounds of the time to answer.
var answerSeconds = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// decideSeconds are the bounds of the time to decide: from a decision in memory to the longest that
// a caller waits. The default timeout of Redis is one of them.
var decideSeconds = []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}

// waitSeconds are the bounds of the time that requests wait for tokens.
var waitSeconds = []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

// New creates metrics in a registry of their own.
func New(config Config) *Metrics {
	if config.Recorder == nil {
		config.Recorder = insight.NewRecorder(insight.RecorderConfig{})
	}
	registry := prometheus.NewRegistry()
	create := promauto.With(registry)
	m := &Metrics{registry: registry, create: create, log: newDecisionLog(config.Logger), recorder: config.Recorder}
	m.requests = m.counters("http_requests_total", "HTTP requests by the route's pattern, method and status.", "route", "method", "code")
	m.requestSeconds = m.histograms("http_request_duration_seconds",
		"Time to answer an HTTP request, including waiting for tokens.", answerSeconds, "route")
	m.calls = m.counters("grpc_calls_total", "gRPC calls by method and code. OK is any decision, also a rejection.", "method", "code")
	m.callSeconds = m.histograms("grpc_call_duration_seconds",
		"Time to answer a gRPC call, including waiting for tokens.", answerSeconds, "method")
	m.seconds = m.histograms("decision_duration_seconds",
		"Time to decide, without waiting for tokens.", decideSeconds).WithLabelValues().(prometheus.Histogram)
	m.waits = m.histograms("wait_seconds", "How long requests waited for tokens.", waitSeconds).WithLabelValues()
	m.waiting = create.NewGauge(prometheus.GaugeOpts{Name: "fluxgate_waiting", Help: "Requests that wait for tokens."})
	m.peeks = m.counters("peeks_total", "Checks that took nothing; no other metric counts them.").WithLabelValues()
	m.storeFailed = m.counters("store_failures_total", "Failed calls to the store or the fallback.").WithLabelValues()
	m.degraded = m.counters("degraded_decisions_total",
		"Decisions for which the store was unavailable for at least one rule.").WithLabelValues()
	m.tokens = m.counters("settled_tokens_total",
		"Tokens that settling returned or charged under rules that count requests.", "direction")
	m.settlements = m.counters("settlements_total", "Receipts settled.", "result")
	registry.MustRegister(collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(liveHeap)),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collector(m.collectDecisions))
	for _, direction := range []string{"returned", "charged"} {
		m.tokens.WithLabelValues(direction)
	}
	for _, result := range []string{"ok", "failed"} {
		m.settlements.WithLabelValues(result)
	}
	registry.MustRegister(collector(func(out chan<- prometheus.Metric) {
		out <- gauge(desc("build_info",
			"Always 1; the build is in the labels. Several versions at once mean a rollout.", "version", "goversion"),
			1, config.Version, runtime.Version())
		if config.WaitSlots > 0 {
			out <- gauge(desc("waiting_limit",
				"wait-for-refill.max-concurrent-waits; absent if waiting is off."), float64(config.WaitSlots))
		}
	}))
	return m
}

func (m *Metrics) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return m.create.NewCounterVec(prometheus.CounterOpts{Name: "fluxgate_" + name, Help: help}, labels)
}

func (m *Metrics) histograms(name, help string, bounds []float64, labels ...string) *prometheus.HistogramVec {
	return m.create.NewHistogramVec(prometheus.HistogramOpts{Name: "fluxgate_" + name, Help: help, Buckets: bounds}, labels)
}

// WatchAudit reports whether the audit file can be written.
func (m *Metrics) WatchAudit(broken func() error) {
	m.registry.MustRegister(collector(func(out chan<- prometheus.Metric) {
		out <- gauge(desc("audit_broken", "1 while the audit log cannot be written; the admin API then rejects changes. "+
			"Absent without an admin listener."), boolValue(broken() != nil))
	}))
}

// Handler answers scrapes, also if some of the metrics cannot be collected.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 8, Timeout: 10 * time.Second,
	})
}

// Decided implements [fluxgate.Observer].
func (m *Metrics) Decided(ctx context.Context, req *fluxgate.Request, d *fluxgate.Decision, err error) {
	outcome := insight.OutcomeOf(d, err)
	m.log.decided(ctx, req, d, err, outcome)
	if req.Peek {
		m.peeks.Inc()
		return
	}
	m.recorder.Count(req, d, outcome)
	if !outcome.RuleSetExists() {
		return
	}
	if d.Degraded {
		m.degraded.Inc()
	}
	if d.Allowed && d.Wait > 0 {
		m.waits.Observe(d.Wait.Seconds())
	}
}

// Waiting implements [fluxgate.Observer].
func (m *Metrics) Waiting(_ context.Context, change int) { m.waiting.Add(float64(change)) }

// Settled implements [fluxgate.Observer].
func (m *Metrics) Settled(ctx context.Context, s store.Settlement, err error) {
	if err != nil {
		m.log.settleFailed(ctx, err)
		m.settlements.WithLabelValues("failed").Inc()
		return
	}
	m.settlements.WithLabelValues("ok").Inc()
	m.tokens.WithLabelValues("returned").Add(float64(max(0, s.Returned)))
	m.tokens.WithLabelValues("charged").Add(float64(max(0, s.Charged)))
}

// StoreFailed implements [fluxgate.Observer].
func (m *Metrics) StoreFailed(ctx context.Context, err error) {
	m.log.storeFailed(ctx, err)
	m.storeFailed.Inc()
}
