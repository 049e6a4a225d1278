package telemetry

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/fluxgate/fluxgate/internal/logthrottle"
)

// TracingConfig is where traces go. The zero value makes none.
type TracingConfig struct {
	// Endpoint is a collector that understands OTLP over HTTP, such as
	// http://localhost:4318; without a path, /v1/traces is meant. Empty means
	// that no traces are made.
	Endpoint string
	// SampleRatio is the share of requests that are traced, of those that come
	// without a trace of their own, or on a public route.
	SampleRatio float64
	// ServiceName is what the service is called. Empty means fluxgate.
	ServiceName string
	// Version is the service's.
	Version string
	// RuleSet is the rule set of requests that name none.
	RuleSet string
	// Logger gets, at most once a minute, that traces cannot be sent. Nil
	// means slog.Default().
	Logger *slog.Logger
}

// shutdownTimeout bounds how long the last spans are waited for.
const shutdownTimeout = 5 * time.Second

// Tracing makes a span for every HTTP request of a route and for every
// decision. What is to be sent is bounded: spans that a slow collector does
// not take in time are dropped, and no request waits for it.
type Tracing struct {
	config   TracingConfig
	provider *sdktrace.TracerProvider // nil if no traces are made
	tracer   trace.Tracer
	client   *http.Client
	giveUp   context.CancelFunc // ends what is being sent
}

// propagator reads and writes the header traceparent. Baggage is left alone:
// it is whatever a caller writes.
var propagator = propagation.TraceContext{}

// NewTracing begins to send traces. Whether the collector is there is not
// asked: it may come later.
func NewTracing(ctx context.Context, config TracingConfig) (*Tracing, error) {
	if !(config.SampleRatio >= 0 && config.SampleRatio <= 1) {
		return nil, fmt.Errorf("tracing: a sample ratio is 0 to 1, not %v", config.SampleRatio)
	}
	if config.Endpoint == "" {
		return &Tracing{}, nil
	}
	if config.ServiceName == "" {
		config.ServiceName = "fluxgate"
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	target, headers, err := parseEndpoint(config.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: time.Minute,
	}}
	exporter, err := otlptracehttp.New(ctx,
		otlptracehttp.WithEndpointURL(target), otlptracehttp.WithHeaders(headers), otlptracehttp.WithHTTPClient(client),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
			Enabled: true, InitialInterval: time.Second, MaxInterval: 5 * time.Second, MaxElapsedTime: 15 * time.Second,
		}))
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	about, err := resource.New(ctx, resource.WithFromEnv(), resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", config.ServiceName), attribute.String("service.version", config.Version)))
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	limits := sdktrace.NewSpanLimits()
	limits.AttributeValueLengthLimit = 128
	life, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(&quietExporter{SpanExporter: exporter, life: life, logger: config.Logger, said: logthrottle.New(time.Minute)}),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(config.SampleRatio))),
		sdktrace.WithResource(about), sdktrace.WithRawSpanLimits(limits))
	return &Tracing{
		config: config, provider: provider, tracer: provider.Tracer("github.com/fluxgate/fluxgate"), client: client, giveUp: giveUp,
	}, nil
}

// parseEndpoint is the collector's address, and what to send along. Errors do
// not show the address: it may hold a password.
func parseEndpoint(endpoint string) (target string, headers map[string]string, err error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", nil, errors.New("the endpoint must be a URL such as http://localhost:4318")
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return "", nil, errors.New("the endpoint cannot have a query or a fragment")
	}
	if u.User != nil {
		password, _ := u.User.Password()
		text := base64.StdEncoding.EncodeToString([]byte(u.User.Username() + ":" + password))
		headers, u.User = map[string]string{"Authorization": "Basic " + text}, nil
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1/traces"
	}
	return u.String(), headers, nil
}

// Enabled reports whether traces are made.
func (t *Tracing) Enabled() bool { return t != nil && t.provider != nil }

// Shutdown sends what is left, for five seconds at most.
func (t *Tracing) Shutdown(ctx context.Context) error {
	if !t.Enabled() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, shutdownTimeout)
	defer cancel()
	defer t.client.CloseIdleConnections()
	defer t.giveUp()
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("sending the last traces: %w", err)
	}
	return nil
}

// quietExporter says that spans cannot be sent where the server says all else,
// and not with every batch.
type quietExporter struct {
	sdktrace.SpanExporter
	life   context.Context // the SDK does not end a call when its time is up
	logger *slog.Logger
	said   *logthrottle.Throttle
}

// ExportSpans implements [sdktrace.SpanExporter].
func (e *quietExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.life, cancel)()
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		return nil
	}
	if now, before := e.said.Allow(time.Now()); now {
		e.logger.Warn("traces cannot be sent", "err", err, "spans", len(spans), "suppressed", before)
	}
	return nil // it was said here, and nobody else is to say it
}
