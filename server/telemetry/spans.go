package telemetry

import (
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/fluxgate/fluxgate/internal/meter"
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
		if method == meter.Other {
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
