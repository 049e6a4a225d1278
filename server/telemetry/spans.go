package telemetry

import (
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/meter"
)

// start creates the span of an HTTP request, as a child of the span in the header traceparent.
// The path of the route is its name, never what a caller sends. A client may have written the
// headers of a public route. Its span does not continue the trace in traceparent, which would let
// clients choose what is sampled: it begins a trace of its own and links to the other.
func (t *Tracing) start(r *http.Request, route string, public bool) (*http.Request, trace.Span) {
	ctx := propagator.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	method := methodLabel(r.Method)
	if method == meter.Other {
		method = "_OTHER" // the value of OpenTelemetry
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("http.request.method", method), attribute.String("http.route", route))}
	if public {
		options = append(options, trace.WithNewRoot(), trace.WithLinks(trace.LinkFromContext(ctx)))
	}
	ctx, span := t.tracer.Start(ctx, method+" "+route, options...)
	return r.WithContext(ctx), span
}

// end ends the span of a request that was answered with a status.
func end(span trace.Span, status int) {
	span.SetAttributes(attribute.Int("http.response.status_code", status))
	if status >= 500 {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// traceDecision adds a decision to the span of its request, as an event. ruleSet is that of requests that
// name none.
func traceDecision(
	span trace.Span, ruleSet string, req *fluxgate.Request, d *fluxgate.Decision, err error, outcome meter.Outcome,
) {
	if !outcome.RuleSetExists() {
		ruleSet = meter.Unknown
	} else if req.RuleSet != "" {
		ruleSet = req.RuleSet
	}
	span.AddEvent("decision", trace.WithAttributes(
		attribute.String("fluxgate.rule_set", ruleSet), attribute.String("fluxgate.outcome", outcome.String()),
		attribute.Bool("fluxgate.allowed", d.Allowed && err == nil), attribute.String("fluxgate.rule", d.RuleID),
		attribute.String("fluxgate.source", meter.SourceOf(d)), attribute.Bool("fluxgate.degraded", d.Degraded)))
	if outcome == meter.OutcomeError {
		span.SetStatus(codes.Error, "") // without the text, which a hook may have written
	}
}
