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

// Call counts the calls of a gRPC method by their code, and how long they take.
func (m *Metrics) Call(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	start := time.Now()
	answer, err := next(ctx, req)
	m.calls.WithLabelValues(info.FullMethod, status.Code(err).String()).Inc()
	m.callSeconds.WithLabelValues(info.FullMethod).Observe(time.Since(start).Seconds())
	return answer, err
}

// Call creates a span for each gRPC call if tracing is enabled, as a child of the span in traceparent. Servers
// accept calls of known methods only, so the name is never what a caller sends.
func (t *Tracing) Call(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	parent := propagation.MapCarrier{}
	for _, field := range propagator.Fields() {
		for _, value := range metadata.ValueFromIncomingContext(ctx, field) {
			parent[field] = value
		}
	}
	ctx, span := t.tracer.Start(propagator.Extract(ctx, parent), info.FullMethod[1:], trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("rpc.system", "grpc")))
	defer span.End()
	answer, err := next(ctx, req)
	code := status.Code(err)
	span.SetAttributes(attribute.Int("rpc.grpc.status_code", int(code)))
	if err != nil {
		span.SetStatus(otelcodes.Error, code.String())
	}
	return answer, err
}
