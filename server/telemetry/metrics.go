package telemetry

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/fluxgate/fluxgate"
)

// Config is what [Metrics] need to know. The zero value will do.
type Config struct {
	// RuleSet is the rule set of requests that name none.
	RuleSet string
	// Version and Revision are what was built, for fluxgate_build_info.
	Version, Revision string
	// WaitSlots is how many requests may wait at once. 0 means that none do.
	WaitSlots int
	// MaxRuleSets and MaxRules bound how many rule sets, and rules of all of
	// them, have a label of their own, counted since the start. Those that
	// come later share the label other. 0 means 100 and 1,000.
	MaxRuleSets, MaxRules int
}

// Metrics counts what a server does, for Prometheus. It is the observer of
// the engine.
type Metrics struct {
	config   Config
	registry *prometheus.Registry
	counts   *table
	routes   *routes

	seconds, waits               prometheus.Histogram
	waiting                      prometheus.Gauge
	peeks, storeFailed, degraded prometheus.Counter
	returned, charged            prometheus.Counter
	settled, unsettled           prometheus.Counter
}

var _ fluxgate.Observer = (*Metrics)(nil)

// decisionBuckets reach from a lone decision in memory to what nobody waits
// for. The default deadline of Redis is one of their bounds.
var decisionBuckets = []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}

// New makes metrics in a registry of their own.
func New(config Config) (*Metrics, error) {
	if config.MaxRuleSets < 0 || config.MaxRules < 0 || config.WaitSlots < 0 {
		return nil, fmt.Errorf("making metrics: bounds must not be negative")
	}
	if config.MaxRuleSets == 0 {
		config.MaxRuleSets = 100
	}
	if config.MaxRules == 0 {
		config.MaxRules = 1_000
	}
	m := &Metrics{
		config: config, registry: prometheus.NewRegistry(),
		counts: newTable(config.MaxRuleSets, config.MaxRules), routes: newRoutes(),
		seconds: histogram("decision_duration_seconds", "Time to decide, without the time a request was held.", decisionBuckets),
		waits: histogram("wait_seconds", "Time that requests were held until their tokens were there.",
			[]float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}),
		waiting:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "fluxgate_waiting", Help: "Requests that are held right now."}),
		peeks:       plain("peeks_total", "Requests that only asked what would be decided. No other metric counts them."),
		storeFailed: plain("store_failures_total", "Times that the store, or the fallback, could not be asked."),
		degraded:    plain("degraded_decisions_total", "Decisions for which the store could not be asked about every rule."),
	}
	tokens := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fluxgate_settled_tokens_total", Help: "Tokens that settling gave back or charged."}, []string{"direction"})
	m.returned, m.charged = tokens.WithLabelValues("returned"), tokens.WithLabelValues("charged")
	settlements := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fluxgate_settlements_total", Help: "Receipts by whether they could be settled."}, []string{"result"})
	m.settled, m.unsettled = settlements.WithLabelValues("ok"), settlements.WithLabelValues("failed")

	all := []prometheus.Collector{
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		m.counts, m.routes.requests, m.routes.seconds, m.seconds, m.waits, m.waiting, m.peeks, m.storeFailed, m.degraded, tokens, settlements,
		constant("build_info", "What was built. The value says nothing.", 1,
			prometheus.Labels{"version": config.Version, "revision": config.Revision, "goversion": runtime.Version()}),
	}
	if config.WaitSlots > 0 {
		all = append(all, constant("waiting_limit", "How many requests may be held at once.", float64(config.WaitSlots), nil))
	}
	if err := m.register(all...); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *Metrics) register(all ...prometheus.Collector) error {
	for _, c := range all {
		if err := m.registry.Register(c); err != nil {
			return fmt.Errorf("making metrics: %w", err)
		}
	}
	return nil
}

func plain(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: "fluxgate_" + name, Help: help})
}

func histogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "fluxgate_" + name, Help: help, Buckets: buckets})
}

func constant(name, help string, value float64, labels prometheus.Labels) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "fluxgate_" + name, Help: help, ConstLabels: labels},
		func() float64 { return value })
}

// Handler answers scrapes. What can be told is told even if something cannot.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 8, Timeout: 10 * time.Second,
	})
}

// Decided implements [fluxgate.Observer].
func (m *Metrics) Decided(_ context.Context, req *fluxgate.Request, d *fluxgate.Decision, err error) {
	if req.Peek {
		m.peeks.Inc()
		return
	}
	id := req.RuleSet
	if id == "" {
		id = m.config.RuleSet
	}
	came := outcomeOf(d, err)
	if !ruleSetExists(came) {
		// The name may be the caller's, or be ours if there was a decision by
		// it before.
		m.counts.known(id).decisions[came][indexOf(d.Allowed && err == nil)][sourceNone].Add(1)
		return
	}
	set := m.counts.set(id)
	set.decisions[came][indexOf(d.Allowed)][sourceOf(d)].Add(1)
	if d.RuleID != "" {
		rule := m.counts.rule(set, d.RuleID)
		rule.decisions[came].Add(1)
		if came == outcomeAllowed && d.Remaining <= d.Limit/5 {
			rule.nearLimit.Add(1)
		}
	}
	if d.Degraded {
		m.degraded.Inc()
	}
	if d.Allowed && d.Wait > 0 {
		m.waits.Observe(d.Wait.Seconds())
	}
	m.countShadow(set, d)
}

// countShadow counts the shadow rules that would have rejected, each once.
func (m *Metrics) countShadow(set *setCounts, d *fluxgate.Decision) {
	var last *fluxgate.Rule
	for b := range d.Bands() {
		if b.Rule == nil || b.Rule == last {
			continue
		}
		last = b.Rule
		if b.Shadow() && (b.Status == fluxgate.Rejected || b.Status == fluxgate.TooCostly) {
			m.counts.rule(set, b.Rule.ID).shadow.Add(1)
		}
	}
}

func indexOf(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Waiting implements [fluxgate.Observer].
func (m *Metrics) Waiting(_ context.Context, change int) { m.waiting.Add(float64(change)) }

// Settled implements [fluxgate.Observer].
func (m *Metrics) Settled(_ context.Context, s fluxgate.Settlement, err error) {
	if err != nil {
		m.unsettled.Inc()
		return
	}
	m.settled.Inc()
	m.returned.Add(float64(max(0, s.Returned)))
	m.charged.Add(float64(max(0, s.Charged)))
}

// StoreFailed implements [fluxgate.Observer].
func (m *Metrics) StoreFailed(context.Context, error) { m.storeFailed.Inc() }
