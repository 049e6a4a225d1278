package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Call counts the calls of a gRPC method by their code, and how long they take, and traces them.
func (m *Metrics) Call(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	start := time.Now()
	var span trace.Span
	if m.config.Tracing.Enabled() {
		ctx, span = m.config.Tracing.startCall(ctx, info.FullMethod)
	}
	answer, err := next(ctx, req)
	code := status.Code(err)
	m.calls.WithLabelValues(info.FullMethod, code.String()).Inc()
	m.callSeconds.WithLabelValues(info.FullMethod).Observe(time.Since(start).Seconds())
	if span != nil {
		span.SetAttributes(attribute.Int("rpc.grpc.status_code", int(code)))
		if err != nil {
			span.SetStatus(otelcodes.Error, code.String())
		}
		span.End()
	}
	return answer, err
}

// startCall creates the span of a gRPC call, as a child of the span in traceparent. Servers
// accept calls of known methods only, so the name is never what a caller sends.
func (t *Tracing) startCall(ctx context.Context, method string) (context.Context, trace.Span) {
	parent := propagation.MapCarrier{}
	for _, field := range propagator.Fields() {
		for _, value := range metadata.ValueFromIncomingContext(ctx, field) {
			parent[field] = value
		}
	}
	return t.tracer.Start(propagator.Extract(ctx, parent), method[1:], trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("rpc.system", "grpc")))
}
