package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
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

// Call creates a span for each gRPC call, as a child of the span in traceparent. Servers
// accept calls of known methods only, so the name is never what a caller sends.
func (t *Tracing) Call(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if !t.Enabled() {
		return next(ctx, req)
	}
	md, _ := metadata.FromIncomingContext(ctx)
	ctx, span := t.tracer.Start(propagator.Extract(ctx, carrier(md)), info.FullMethod[1:], trace.WithSpanKind(trace.SpanKindServer),
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

// carrier is metadata as a propagator reads it.
type carrier metadata.MD

// Get implements propagation.TextMapCarrier.
func (c carrier) Get(name string) string {
	if values := metadata.MD(c).Get(name); len(values) > 0 {
		return values[0]
	}
	return ""
}

// Set implements propagation.TextMapCarrier.
func (carrier) Set(string, string) {}

// Keys implements propagation.TextMapCarrier.
func (carrier) Keys() []string { return nil }
