// Package meter counts the decisions of an engine, for Prometheus. It has the metrics that
// packages promlimit and server/telemetry share.
package meter

import (
	"cmp"
	"context"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/store"
)

// Config configures a [Meter].
type Config struct {
	// RuleSet is the rule set of requests that name none.
	RuleSet string
	// MaxRuleSets and MaxRules bound how many rule sets, and rules of all of them, have labels
	// of their own. 0 means 100 and 1,000.
	MaxRuleSets, MaxRules int
}

// Meter is the observer of an engine, and collects what it has counted.
type Meter struct {
	config   Config
	totals   totals
	fallback atomic.Pointer[func() fluxgate.FallbackStats]
	parts    []prometheus.Collector // the fields below

	seconds, waits               prometheus.Histogram
	waiting                      prometheus.Gauge
	peeks, storeFailed, degraded prometheus.Counter
	tokens, settlements          *prometheus.CounterVec
}

var (
	_ fluxgate.Observer    = (*Meter)(nil)
	_ prometheus.Collector = (*Meter)(nil)
)

// decideSeconds are the bounds of the time to decide: from a decision in memory to the longest that
// a caller waits. The default timeout of Redis is one of them.
var decideSeconds = []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}

// waitSeconds are the bounds of the time that requests wait for tokens.
var waitSeconds = []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

// New returns a meter.
func New(config Config) *Meter {
	config.MaxRuleSets, config.MaxRules = cmp.Or(config.MaxRuleSets, 100), cmp.Or(config.MaxRules, 1_000)
	m := &Meter{config: config}
	m.totals.unknown, m.totals.other = newSetTotals(Unknown, false), newSetTotals(Other, false)
	m.seconds = m.histogram("decision_duration_seconds", "Time to decide, without waiting for tokens.", decideSeconds)
	m.waits = m.histogram("wait_seconds", "How long requests waited for tokens.", waitSeconds)
	m.waiting = prometheus.NewGauge(prometheus.GaugeOpts{Name: "fluxgate_waiting", Help: "Requests that wait for tokens."})
	m.parts = append(m.parts, m.waiting)
	m.peeks = m.counters("peeks_total", "Checks that took nothing; no other metric counts them.").WithLabelValues()
	m.storeFailed = m.counters("store_failures_total", "Failed calls to the store or the fallback.").WithLabelValues()
	m.degraded = m.counters("degraded_decisions_total",
		"Decisions for which the store was unavailable for at least one rule.").WithLabelValues()
	m.tokens = m.counters("settled_tokens_total",
		"Tokens that settling returned or charged under rules that count requests.", "direction")
	m.settlements = m.counters("settlements_total", "Receipts settled.", "result")
	for _, direction := range []string{"returned", "charged"} {
		m.tokens.WithLabelValues(direction)
	}
	for _, result := range []string{"ok", "failed"} {
		m.settlements.WithLabelValues(result)
	}
	return m
}

func (m *Meter) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "fluxgate_" + name, Help: help}, labels)
	m.parts = append(m.parts, c)
	return c
}

func (m *Meter) histogram(name, help string, bounds []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "fluxgate_" + name, Help: help, Buckets: bounds})
	m.parts = append(m.parts, h)
	return h
}

// Decided implements [fluxgate.Observer].
func (m *Meter) Decided(_ context.Context, req *fluxgate.Request, d *fluxgate.Decision, err error) {
	m.Count(req, d, OutcomeOf(d, err))
}

// Count counts a request with an outcome.
func (m *Meter) Count(req *fluxgate.Request, d *fluxgate.Decision, o Outcome) {
	if req.Peek {
		m.peeks.Inc()
		return
	}
	m.count(req, d, o)
	if !o.RuleSetExists() {
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
func (m *Meter) Waiting(_ context.Context, change int) { m.waiting.Add(float64(change)) }

// Settled implements [fluxgate.Observer].
func (m *Meter) Settled(_ context.Context, s store.Settlement, err error) {
	if err != nil {
		m.settlements.WithLabelValues("failed").Inc()
		return
	}
	m.settlements.WithLabelValues("ok").Inc()
	m.tokens.WithLabelValues("returned").Add(float64(max(0, s.Returned)))
	m.tokens.WithLabelValues("charged").Add(float64(max(0, s.Charged)))
}

// StoreFailed implements [fluxgate.Observer].
func (m *Meter) StoreFailed(context.Context, error) { m.storeFailed.Inc() }

// Seconds returns the histogram of the time to decide.
func (m *Meter) Seconds() prometheus.Histogram { return m.seconds }
