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

	"github.com/fluxgate/fluxgate"
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

// Together decides requests together, as [fluxgate.Engine.CheckAll] does.
type Together interface {
	CheckAll(ctx context.Context, reqs []fluxgate.Request) (fluxgate.Decision, []fluxgate.Decision, error)
	Refund(ctx context.Context, req *fluxgate.Request) (fluxgate.Decision, error)
}

// Together measures how long next takes to decide.
func (m *Metrics) Together(next Together) Together { return &timedTogether{next, m} }

type timedTogether struct {
	Together
	metrics *Metrics
}

// CheckAll implements [Together].
func (t *timedTogether) CheckAll(ctx context.Context, reqs []fluxgate.Request) (fluxgate.Decision, []fluxgate.Decision, error) {
	start := time.Now()
	d, each, err := t.Together.CheckAll(ctx, reqs)
	if err == nil {
		t.metrics.seconds.Observe(max(0, time.Since(start)-d.Wait).Seconds()) // without what fluxgate_wait_seconds has
	}
	return d, each, err
}

// Together creates a span for each decision of next.
func (t *Tracing) Together(next Together) Together {
	if !t.Enabled() {
		return next
	}
	return &tracedTogether{next, t}
}

type tracedTogether struct {
	Together
	tracing *Tracing
}

// CheckAll implements [Together].
func (t *tracedTogether) CheckAll(ctx context.Context, reqs []fluxgate.Request) (fluxgate.Decision, []fluxgate.Decision, error) {
	ctx, span := t.tracing.tracer.Start(ctx, "check")
	defer span.End()
	d, each, err := t.Together.CheckAll(ctx, reqs)
	if span.IsRecording() {
		describe(span, t.tracing.config.RuleSet, &reqs[0], &d, err)
		span.SetAttributes(attribute.Int("fluxgate.requests", len(reqs)))
	}
	return d, each, err
}
