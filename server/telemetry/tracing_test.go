package telemetry_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/server/telemetry"
)

// sink is a collector that keeps the spans it is sent.
type sink struct {
	*httptest.Server

	mu       sync.Mutex
	spans    map[string]*otlp.Span // by name
	paths    map[string]bool
	auth     string
	resource string
}

func newSink(t *testing.T) *sink {
	t.Helper()
	s := &sink{spans: map[string]*otlp.Span{}, paths: map[string]bool{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var sent collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &sent)
		}
		if err != nil {
			t.Errorf("the collector cannot read what it is sent: %v", err)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.paths[r.URL.Path], s.auth = true, r.Header.Get("Authorization")
		for _, rs := range sent.ResourceSpans {
			s.resource = rs.Resource.String()
			for _, ss := range rs.ScopeSpans {
				for _, span := range ss.Spans {
					s.spans[span.Name] = span
				}
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(s.Close)
	return s
}

func attributes(list []*common.KeyValue) map[string]string {
	all := map[string]string{}
	for _, a := range list {
		all[a.Key] = strings.TrimSpace(a.Value.String())
	}
	return all
}

// A decision is an event of its request's span.
func TestTracing_OneTrace(t *testing.T) {
	sink := newSink(t)
	tracing, err := telemetry.NewTracing(t.Context(), telemetry.TracingConfig{
		Endpoint: strings.Replace(sink.URL, "//", "//user:hidden@", 1), Version: "1.2.3",
	})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, telemetry.Config{RuleSet: "api", Tracing: tracing})
	mux := http.NewServeMux()
	mux.Handle("GET /hello/{name}", w.metrics.Route("GET /hello/{name}", http.HandlerFunc(
		func(rw http.ResponseWriter, r *http.Request) {
			d, err := w.limiter.Check(r.Context(), &fluxgate.Request{Path: "/user", UserID: "their-name", APIKey: "their-key"})
			if err != nil || !d.Allowed {
				t.Errorf("decided %v, %v", d.Reason, err)
			}
			rw.WriteHeader(http.StatusTeapot)
		})))
	req := httptest.NewRequest(http.MethodGet, "/hello/their-name", nil)
	req.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	rec := httptest.NewRecorder()
	mux.ServeHTTP(rec, req)
	// Without a trace of its own it is sampled by the ratio, which is 0.
	mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/hello/unsampled", nil))
	if rec.Code != http.StatusTeapot {
		t.Errorf("answered %d", rec.Code)
	}
	if err := tracing.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}

	sink.mu.Lock()
	defer sink.mu.Unlock()
	if len(sink.spans) != 1 || !sink.paths["/v1/traces"] || sink.auth != "Basic dXNlcjpoaWRkZW4=" {
		t.Fatalf("%d spans were sent to %v as %q", len(sink.spans), sink.paths, sink.auth)
	}
	span := sink.spans["GET /hello/{name}"]
	if got := string(span.GetParentSpanId()); got != "\xb7\xad\x6b\x71\x69\x20\x33\x31" {
		t.Errorf("the request's parent is %x", got)
	}
	if len(span.GetEvents()) != 1 || span.GetEvents()[0].GetName() != "decision" {
		t.Fatalf("the events are %v", span.GetEvents())
	}
	for what, c := range map[string]struct {
		of   interface{ GetAttributes() []*common.KeyValue }
		want map[string]string
	}{
		"the span": {span, map[string]string{"http.request.method": "GET", "http.route": "/hello/{name}", "http.response.status_code": "418"}},
		"the decision": {span.GetEvents()[0], map[string]string{
			"fluxgate.rule_set": "api", "fluxgate.rule": "api-user", "fluxgate.outcome": "allowed", "fluxgate.allowed": "true",
			"fluxgate.source": "store", "fluxgate.degraded": "bool_value",
		}},
	} {
		got := attributes(c.of.GetAttributes())
		for key, value := range c.want {
			if !strings.Contains(got[key], value) {
				t.Errorf("%s of %s is %q, want %q", key, what, got[key], value)
			}
		}
		if len(got) != len(c.want) || strings.Contains(span.String(), "their") {
			t.Errorf("%s says too much: %v", what, got)
		}
	}
	if !strings.Contains(sink.resource, "1.2.3") || !strings.Contains(sink.resource, "fluxgate") {
		t.Errorf("the service is %s", sink.resource)
	}
}

// Spans have failures and no identities.
func TestTracing_NoIdentity(t *testing.T) {
	sink := newSink(t)
	tracing, err := telemetry.NewTracing(t.Context(), telemetry.TracingConfig{Endpoint: sink.URL + "/v1/traces", SampleRatio: 1})
	if err != nil {
		t.Fatal(err)
	}
	m := telemetry.New(telemetry.Config{Tracing: tracing})
	handler := m.Route("/broken", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		m.Decided(r.Context(), &fluxgate.Request{RuleSet: "their-rule-set"}, &fluxgate.Decision{}, fluxgate.ErrTooManyRules)
	}))
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("THEIRS", "/broken", nil))
	if err := tracing.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	sink.mu.Lock()
	defer sink.mu.Unlock()
	span := sink.spans["_OTHER /broken"]
	if span.GetStatus().GetCode() != otlp.Status_STATUS_CODE_ERROR || len(span.GetEvents()) != 1 {
		t.Errorf("the request is no failure: %v", span)
	}
	if strings.Contains(span.String(), "their") || strings.Contains(span.String(), "THEIRS") {
		t.Errorf("the span says what the caller wrote: %v", span)
	}
}

// A collector that hangs delays no request.
func TestTracing_CollectorHangs(t *testing.T) {
	t.Parallel() // it mostly waits
	for name, patience := range map[string]time.Duration{"its caller's patience": 100 * time.Millisecond, "its own": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // only then the server notices that the client has gone
				<-r.Context().Done()
			}))
			defer server.Close()
			var out testenv.LogBuffer
			tracing, err := telemetry.NewTracing(t.Context(), telemetry.TracingConfig{
				Endpoint: server.URL, SampleRatio: 1, Logger: out.Logger(),
			})
			if err != nil {
				t.Fatal(err)
			}
			handler := telemetry.New(telemetry.Config{Tracing: tracing}).Route("/", http.NotFoundHandler())
			for range 10_000 { // more than the queue holds
				handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			start := time.Now()
			if err := tracing.Shutdown(ctx); err == nil {
				t.Error("spans that nobody took were sent")
			}
			if took := time.Since(start); took > 30*time.Second {
				t.Errorf("the end waited %v for a collector that hangs", took)
			}
			testenv.Eventually(t, "the failure is logged", func() bool { return strings.Contains(out.String(), "cannot send traces") })
			if took := time.Since(start); patience < time.Second && took > 8*time.Second {
				t.Errorf("a call went on for %v after the end", took)
			}
			if n := strings.Count(out.String(), "cannot send traces"); n > 2 {
				t.Errorf("%d lines about it", n)
			}
		})
	}
}

// An invalid endpoint is refused, and the error does not contain it.
func TestTracing_InvalidEndpoint(t *testing.T) {
	for _, config := range []telemetry.TracingConfig{
		{Endpoint: "localhost:4318"}, {Endpoint: "grpc://u:hidden@localhost:4317"}, {Endpoint: "http://"},
		{Endpoint: "http://u:hidden@host:port"}, {Endpoint: "http://host?key=hidden"}, {Endpoint: "http://host", SampleRatio: 1.5},
		{Endpoint: "http://host", SampleRatio: -1},
	} {
		tracing, err := telemetry.NewTracing(t.Context(), config)
		if err == nil {
			t.Errorf("%+v was accepted", config)
			_ = tracing.Shutdown(t.Context())
			continue
		}
		if strings.Contains(err.Error(), "hidden") {
			t.Errorf("the error shows a secret: %v", err)
		}
	}
}
