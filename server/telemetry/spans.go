package telemetry

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/server/insight"
	"github.com/fluxgate/fluxgate/store"
)

// Route creates a span for each request of a route, as a child of the span in the
// header traceparent. The pattern is that of [http.ServeMux]; its path is the
// name of the span, never what a caller sends.
func (t *Tracing) Route(pattern string, next http.Handler) http.Handler {
	return t.route(pattern, next, false)
}

// PublicRoute is Route for requests whose headers a client may have written. It
// does not continue the trace in traceparent, which would let clients choose
// what is sampled: the span begins a trace of its own and links to the other.
func (t *Tracing) PublicRoute(pattern string, next http.Handler) http.Handler {
	return t.route(pattern, next, true)
}

func (t *Tracing) route(pattern string, next http.Handler, public bool) http.Handler {
	if !t.Enabled() {
		return next
	}
	route := routeOf(pattern)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := propagator.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		var options []trace.SpanStartOption
		if public {
			options = append(options, trace.WithNewRoot(), trace.WithLinks(trace.LinkFromContext(ctx)))
		}
		method := methodLabel(r.Method)
		if method == insight.Other {
			method = "_OTHER" // the value of OpenTelemetry
		}
		ctx, span := t.tracer.Start(ctx, method+" "+route, append(options, trace.WithSpanKind(trace.SpanKindServer),
			trace.WithAttributes(attribute.String("http.request.method", method), attribute.String("http.route", route)))...)
		rec := recorded(w)
		defer func() {
			status := rec.code()
			span.SetAttributes(attribute.Int("http.response.status_code", status))
			if status >= 500 {
				span.SetStatus(codes.Error, "")
			}
			span.End()
		}()
		next.ServeHTTP(rec, r.WithContext(ctx))
		rec.ended = true
	})
}

// Limiter creates a span for each decision of next.
func (t *Tracing) Limiter(next fluxgate.Limiter) fluxgate.Limiter {
	if !t.Enabled() {
		return next
	}
	return &tracedLimiter{next: next, tracer: t.tracer, ruleSet: t.config.RuleSet}
}

type tracedLimiter struct {
	next    fluxgate.Limiter
	tracer  trace.Tracer
	ruleSet string
}

// Check implements [fluxgate.Limiter].
func (t *tracedLimiter) Check(ctx context.Context, req *fluxgate.Request) (fluxgate.Decision, error) {
	ctx, span := t.tracer.Start(ctx, "check")
	defer span.End()
	d, err := t.next.Check(ctx, req)
	if !span.IsRecording() {
		return d, err
	}
	describe(span, t.ruleSet, req, &d, err)
	return d, err
}

// describe adds what was decided to a span. ruleSet is that of requests that name none.
func describe(span trace.Span, ruleSet string, req *fluxgate.Request, d *fluxgate.Decision, err error) {
	outcome := insight.OutcomeOf(d, err)
	set := insight.Unknown
	if outcome.RuleSetExists() {
		if set = req.RuleSet; set == "" {
			set = ruleSet
		}
	}
	span.SetAttributes(attribute.String("fluxgate.rule_set", set), attribute.String("fluxgate.outcome", outcome.String()),
		attribute.Bool("fluxgate.allowed", d.Allowed && err == nil))
	if d.RuleID != "" {
		span.SetAttributes(attribute.String("fluxgate.rule", d.RuleID))
	}
	if d.Band != "" {
		span.SetAttributes(attribute.String("fluxgate.source", insight.SourceOf(d)))
	}
	if d.Degraded {
		span.SetAttributes(attribute.Bool("fluxgate.degraded", true))
	}
	if outcome == insight.OutcomeError {
		span.SetStatus(codes.Error, "") // without the text, which a hook may have written
	}
}

// Settle implements [fluxgate.Limiter].
func (t *tracedLimiter) Settle(ctx context.Context, receipt *fluxgate.Receipt, actual int64) (s store.Settlement, err error) {
	ctx, end := t.span(ctx, "settle", &err)
	defer end()
	return t.next.Settle(ctx, receipt, actual)
}

// SettleUsage implements [fluxgate.Limiter].
func (t *tracedLimiter) SettleUsage(ctx context.Context, receipt *fluxgate.Receipt, usage *fluxgate.Usage) (s map[string]store.Settlement, err error) {
	ctx, end := t.span(ctx, "settle", &err)
	defer end()
	return t.next.SettleUsage(ctx, receipt, usage)
}

// Extend implements [fluxgate.Limiter].
func (t *tracedLimiter) Extend(ctx context.Context, receipt *fluxgate.Receipt) (err error) {
	ctx, end := t.span(ctx, "extend", &err)
	defer end()
	return t.next.Extend(ctx, receipt)
}

// span starts a span that ends with an error, without its text.
func (t *tracedLimiter) span(ctx context.Context, name string, err *error) (context.Context, func()) {
	ctx, span := t.tracer.Start(ctx, name)
	return ctx, func() {
		if *err != nil {
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}
