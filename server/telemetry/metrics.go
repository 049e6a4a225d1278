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
	dto "github.com/prometheus/client_model/go"
	"go.opentelemetry.io/otel/trace"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/meter"
	"github.com/fluxgate/fluxgate/server/insight"
	"github.com/fluxgate/fluxgate/store"
)

// Config configures [Metrics]. Its zero value works.
type Config struct {
	// RuleSet is the rule set of requests that name none.
	RuleSet string
	// MaxRuleSets and MaxRules bound how many rule sets, and rules of all of them, have labels
	// of their own. 0 means 100 and 1,000.
	MaxRuleSets, MaxRules int
	// Recorder counts decisions for live numbers. Nil means none.
	Recorder *insight.Recorder
	// Version is that of the build, for fluxgate_build_info.
	Version string
	// WaitSlots is how many requests may wait at once. 0 means none.
	WaitSlots int
	// Tracing traces requests and their decisions. Nil means no traces.
	Tracing *Tracing
	// Logger gets decisions at level debug, without the caller's identity and
	// path, and warnings about the store. Nil means slog.Default().
	Logger *slog.Logger
}

// Metrics counts what a server does, for Prometheus, and logs it. It is the
// observer of the engine.
type Metrics struct {
	config   Config
	registry *prometheus.Registry
	create   promauto.Factory
	log      *decisionLog
	meter    *meter.Meter

	withdrawn                   prometheus.Counter
	requests, calls, warnings   *prometheus.CounterVec
	requestSeconds, callSeconds *prometheus.HistogramVec
}

var _ fluxgate.Observer = (*Metrics)(nil)

// liveHeap is go_gc_heap_live_bytes, what the heap had after the last collection.
// Unlike the size of the heap, which varies with the collections, it shows a leak.
var liveHeap = collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/gc/heap/live:bytes$`)}

// answerSeconds are the bounds of the time to answer.
var answerSeconds = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// New creates metrics in a registry of their own.
func New(config Config) *Metrics {
	registry := prometheus.NewRegistry()
	create := promauto.With(registry)
	m := &Metrics{
		config: config, registry: registry, create: create, log: newDecisionLog(config.Logger),
		meter: meter.New(meter.Config{RuleSet: config.RuleSet, MaxRuleSets: config.MaxRuleSets, MaxRules: config.MaxRules}),
	}
	m.withdrawn = create.NewCounter(prometheus.CounterOpts{Name: "fluxgate_withdrawn_decisions_total",
		Help: "Decisions whose callers left before the answer: what they took was given back. Failures are in fluxgate_settlements_total."})
	m.requests = m.counters("http_requests_total", "HTTP requests by the route's pattern, method and status.", "route", "method", "code")
	m.requestSeconds = m.histograms("http_request_duration_seconds",
		"Time to answer an HTTP request, including waiting for tokens.", answerSeconds, "route")
	m.calls = m.counters("grpc_calls_total", "gRPC calls by method and code. OK is any decision, also a rejection.", "method", "code")
	m.callSeconds = m.histograms("grpc_call_duration_seconds",
		"Time to answer a gRPC call, including waiting for tokens.", answerSeconds, "method")
	m.warnings = m.counters("warnings_total",
		"Warnings of limits that this server posted to events.webhook, or only logged.", "rule_set", "result")
	registry.MustRegister(collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(liveHeap)),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), m.meter, collector(func(out chan<- prometheus.Metric) {
			out <- meter.Gauge(meter.Desc("build_info",
				"Always 1; the build is in the labels. Several versions at once mean a rollout.", "version", "goversion"),
				1, config.Version, runtime.Version())
			if config.WaitSlots > 0 {
				out <- meter.Gauge(meter.Desc("waiting_limit",
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

// Warned counts a warning of a rule set that exists.
func (m *Metrics) Warned(ruleSet, result string) {
	m.warnings.WithLabelValues(m.meter.RuleSetLabel(ruleSet), result).Inc()
}

// Withdrawn counts a decision whose caller left before the answer.
func (m *Metrics) Withdrawn() { m.withdrawn.Inc() }

// WatchAudit reports whether the audit file can be written.
func (m *Metrics) WatchAudit(broken func() error) {
	m.registry.MustRegister(collector(func(out chan<- prometheus.Metric) {
		out <- meter.Gauge(meter.Desc("audit_broken", "1 while the audit log cannot be written; the admin API then rejects changes. "+
			"Absent without an admin listener."), boolValue(broken() != nil))
	}))
}

// Handler answers scrapes, also if some of the metrics cannot be collected.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 8, Timeout: 10 * time.Second,
	})
}

// Limiter measures how long next takes to decide.
func (m *Metrics) Limiter(next meter.Limiter) meter.Limiter { return m.meter.Limiter(next) }

// Decided implements [fluxgate.Observer].
func (m *Metrics) Decided(ctx context.Context, req *fluxgate.Request, d *fluxgate.Decision, err error) {
	outcome := meter.OutcomeOf(d, err)
	m.log.decided(ctx, req, d, err, outcome)
	m.meter.Count(req, d, outcome)
	if m.config.Recorder != nil {
		m.config.Recorder.Count(req, d, outcome)
	}
	if !m.config.Tracing.Enabled() {
		return
	}
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		traceDecision(span, m.config.RuleSet, req, d, err, outcome)
	}
}

// Waiting implements [fluxgate.Observer].
func (m *Metrics) Waiting(ctx context.Context, change int) { m.meter.Waiting(ctx, change) }

// Settled implements [fluxgate.Observer].
func (m *Metrics) Settled(ctx context.Context, s store.Settlement, err error) {
	if err != nil {
		m.log.settlements.Log(ctx, m.log.logger, slog.LevelWarn, "cannot settle a receipt", "error", err)
	}
	m.meter.Settled(ctx, s, err)
}

// StoreFailed implements [fluxgate.Observer].
func (m *Metrics) StoreFailed(ctx context.Context, err error) {
	m.log.storeFailed(ctx, err)
	m.meter.StoreFailed(ctx, err)
}

// collector reports values that are read at a scrape.
type collector func(out chan<- prometheus.Metric)

// Describe implements [prometheus.Collector]. The metrics are known only at a scrape.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (c collector) Collect(out chan<- prometheus.Metric) { c(out) }

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Durations returns the histogram of the time to decide.
func (m *Metrics) Durations() insight.Durations {
	var metric dto.Metric
	_ = m.meter.Seconds().Write(&metric) // a histogram: never fails
	h := metric.GetHistogram()
	out := insight.Durations{Total: h.GetSampleCount()}
	for _, bucket := range h.GetBucket() {
		out.Bounds = append(out.Bounds, bucket.GetUpperBound())
		out.Counts = append(out.Counts, bucket.GetCumulativeCount())
	}
	return out
}
