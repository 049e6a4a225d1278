package telemetry

import (
	"cmp"
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

// TracingConfig configures [Tracing]. Its zero value creates no traces.
type TracingConfig struct {
	// Endpoint is the URL of a collector of OTLP over HTTP, such as http://localhost:4318.
	// The default path is /v1/traces. Empty means no traces.
	Endpoint string
	// SampleRatio is the share of requests that are traced if they have no trace of
	// their own or are on a public route.
	SampleRatio float64
	// Version is the version of the service.
	Version string
	// Logger gets a warning at most once a minute while traces cannot be sent.
	// Nil means slog.Default().
	Logger *slog.Logger
}

// shutdownTimeout bounds the sending of the last spans.
const shutdownTimeout = 5 * time.Second

// Tracing creates a span for every HTTP request of a route and every gRPC call. Their
// decisions are their events. Its queue is bounded: spans that a slow collector does not accept in
// time are dropped, and no request waits for it.
type Tracing struct {
	provider *sdktrace.TracerProvider // nil without an endpoint
	tracer   trace.Tracer
	client   *http.Client
	cancel   context.CancelFunc // of the batch that is being sent
}

// propagator reads the header traceparent. Baggage is ignored: callers can write
// anything there.
var propagator = propagation.TraceContext{}

// NewTracing starts to send traces. It does not wait for the collector.
func NewTracing(ctx context.Context, config TracingConfig) (*Tracing, error) {
	if !(config.SampleRatio >= 0 && config.SampleRatio <= 1) {
		return nil, fmt.Errorf("tracing: the sample ratio must be 0 to 1, not %v", config.SampleRatio)
	}
	if config.Endpoint == "" {
		return &Tracing{}, nil
	}
	config.Logger = cmp.Or(config.Logger, slog.Default())
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
		attribute.String("service.name", "fluxgate"), attribute.String("service.version", config.Version)))
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	limits := sdktrace.NewSpanLimits()
	limits.AttributeValueLengthLimit = 128
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	logging := &loggingExporter{SpanExporter: exporter, life: life, logger: config.Logger, throttle: logthrottle.New(time.Minute)}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(logging),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(config.SampleRatio))),
		sdktrace.WithResource(about), sdktrace.WithRawSpanLimits(limits))
	return &Tracing{
		provider: provider, tracer: provider.Tracer("github.com/fluxgate/fluxgate"), client: client, cancel: cancel,
	}, nil
}

// parseEndpoint returns the URL of the collector and the headers to send. Errors
// do not contain the URL: it may have a password.
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

// Enabled reports whether traces are created.
func (t *Tracing) Enabled() bool { return t != nil && t.provider != nil }

// Shutdown sends the remaining spans, for five seconds at most.
func (t *Tracing) Shutdown(ctx context.Context) error {
	if !t.Enabled() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, shutdownTimeout)
	defer cancel()
	defer t.client.CloseIdleConnections()
	defer t.cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("sending the last traces: %w", err)
	}
	return nil
}

// loggingExporter logs failures to the log of the server, at most once a minute.
type loggingExporter struct {
	sdktrace.SpanExporter
	life     context.Context // the SDK does not cancel a call that takes too long
	logger   *slog.Logger
	throttle *logthrottle.Throttle
}

// ExportSpans implements [sdktrace.SpanExporter].
func (e *loggingExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.life, cancel)()
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		e.throttle.Log(ctx, e.logger, slog.LevelWarn, "cannot send traces", "error", err, "spans", len(spans))
	}
	return nil // logged here, and not again by the SDK
}
