package httplimit_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// The functions below, up to TestDocs_Recipes, are in docs/middleware.md.

func limitLogins(buckets store.Store, login http.Handler) http.Handler {
	set := fluxgate.Must(rules.NewSet("logins",
		rules.Rule{ID: "per-address", Scope: rules.ScopeIP, Bands: []rules.Band{rules.PerMinute(30).Burst(10)}},
		rules.Rule{ID: "per-account", Scope: rules.ScopeUser, Bands: []rules.Band{rules.PerMinute(1).Burst(5)}}))
	limit := fluxgate.Must(httplimit.New(fluxgate.Must(fluxgate.New(buckets, fluxgate.Static(set))),
		httplimit.WithUserFunc(func(r *http.Request) string { return strings.ToLower(r.PostFormValue("account")) })))
	return http.MaxBytesHandler(limit(login), 16<<10) // the body is read before the decision
}

func TestLogins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // time.Sleep takes no time
		buckets := fluxgate.Must(memstore.New(memstore.Config{}))
		defer buckets.Close()
		handler := limitLogins(buckets, http.NotFoundHandler())
		login := func(account string) int {
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/login", nil)
			r.PostForm = url.Values{"account": {account}}
			handler.ServeHTTP(w, r)
			return w.Code
		}
		for range 5 {
			login("ada")
		}
		if got := login("Ada"); got != http.StatusTooManyRequests {
			t.Error("attempt 6 of an account:", got)
		}
		if got := login("bob"); got != http.StatusNotFound {
			t.Error("another account:", got)
		}
		time.Sleep(time.Minute)
		if got := login("ada"); got != http.StatusNotFound {
			t.Error("a minute later:", got)
		}
	})
}

func tooMany(w http.ResponseWriter, r *http.Request, rejection *httplimit.Rejection) {
	if rejection.Problem.Status != http.StatusTooManyRequests {
		rejection.Write(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusTooManyRequests)
	fmt.Fprintf(w, `{"error":"too_many_requests","rule":%q,"retryAfter":%q}`, rejection.Decision.RuleID, w.Header().Get("Retry-After"))
}

// spans adds what the engine does to the span of the request.
type spans struct{}

func (spans) Decided(ctx context.Context, _ *fluxgate.Request, d *fluxgate.Decision, err error) {
	span := trace.SpanFromContext(ctx)
	span.SetAttributes(attribute.Bool("fluxgate.allowed", d.Allowed && err == nil),
		attribute.String("fluxgate.rule", d.RuleID), attribute.String("fluxgate.reason", string(d.Reason)))
	if err != nil {
		span.RecordError(err)
	}
}

func (spans) Waiting(ctx context.Context, change int) {
	trace.SpanFromContext(ctx).AddEvent("fluxgate.waiting", trace.WithAttributes(attribute.Int("change", change)))
}

func (spans) Settled(ctx context.Context, _ store.Settlement, err error) {
	if err != nil {
		trace.SpanFromContext(ctx).RecordError(err)
	}
}

func (spans) StoreFailed(ctx context.Context, err error) { trace.SpanFromContext(ctx).RecordError(err) }

// The code under Recipes is compiled and run by this file.
func TestDocs_Recipes(t *testing.T) {
	page, err1 := os.ReadFile("../docs/middleware.md")
	file, err2 := os.ReadFile("recipes_test.go")
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	_, recipes, _ := strings.Cut(string(page), "\n## Recipes\n")
	recipes, _, _ = strings.Cut(recipes, "\n## ")
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(recipes, -1)
	for _, block := range blocks {
		if !strings.Contains(string(file), "\n"+block[1]) {
			t.Errorf("recipes_test.go does not have\n%s", block[1])
		}
	}
	if len(blocks) != 4 {
		t.Errorf("%d recipes with code, want 4", len(blocks))
	}
}

// Many accounts from one address are limited together.
func TestLogins_Address(t *testing.T) {
	buckets := fluxgate.Must(memstore.New(memstore.Config{Clock: func() time.Time { return time.Unix(0, 0) }}))
	defer buckets.Close()
	handler := limitLogins(buckets, http.NotFoundHandler())
	codes := map[int]int{}
	for i := range 12 {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/login", http.NoBody)
		r.PostForm = url.Values{"account": {fmt.Sprint("account-", i)}}
		handler.ServeHTTP(w, r)
		codes[w.Code]++
	}
	if codes[http.StatusNotFound] != 10 || codes[http.StatusTooManyRequests] != 2 {
		t.Errorf("12 accounts from one address: %v", codes)
	}
}

// countingReader counts the bytes that are read.
type countingReader struct {
	io.Reader
	read int
}

func (c *countingReader) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.read += n
	return n, err
}

// zeros is an endless file.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// A large form is not read to its end or written to disk, and counts by address.
func TestLogins_LargeBody(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	buckets := fluxgate.Must(memstore.New(memstore.Config{Clock: func() time.Time { return time.Unix(0, 0) }}))
	defer buckets.Close()
	handler := limitLogins(buckets, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, r.PostFormValue("account"), http.StatusUnauthorized)
	}))
	codes := map[int]int{}
	for range 12 {
		const form = "--x\r\nContent-Disposition: form-data; name=\"account\"\r\n\r\nada\r\n" +
			"--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"file\"\r\n\r\n"
		body := &countingReader{Reader: io.MultiReader(strings.NewReader(form), io.LimitReader(zeros{}, 48<<20))}
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/login", body)
		r.Header.Set("Content-Type", "multipart/form-data; boundary=x")
		handler.ServeHTTP(w, r)
		codes[w.Code]++
		if body.read > 64<<10 || strings.Contains(w.Body.String(), "ada") {
			t.Errorf("%d bytes are read, and the answer is %d %s", body.read, w.Code, w.Body)
		}
	}
	if codes[http.StatusUnauthorized] == 0 || codes[http.StatusTooManyRequests] == 0 || len(codes) != 2 {
		t.Errorf("12 large forms from one address: %v", codes)
	}
	if files, err := os.ReadDir(folder); err != nil || len(files) > 0 {
		t.Errorf("%d files are written (%v)", len(files), err)
	}
}

// The custom body names the rule, and the span of the request has the decision.
func TestRecipes_BodyAndSpans(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("")
	set := fluxgate.Must(rules.NewSet("api", rules.Rule{ID: "per-ip", Scope: rules.ScopeIP, Bands: []rules.Band{rules.PerMinute(1)}},
		rules.Rule{ID: "closed", Paths: []string{"/closed"}, Action: rules.ActionDeny}))
	buckets := fluxgate.Must(memstore.New(memstore.Config{Clock: func() time.Time { return time.Unix(0, 0) }}))
	defer buckets.Close()
	engine := fluxgate.Must(fluxgate.New(buckets, fluxgate.Static(set), fluxgate.WithObserver(spans{})))
	handler := fluxgate.Must(httplimit.New(engine, httplimit.WithRejection(tooMany)))(http.NotFoundHandler())
	get := func(path string) *httptest.ResponseRecorder {
		ctx, span := tracer.Start(t.Context(), path)
		defer span.End()
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody))
		return w
	}
	get("/")
	w := get("/")
	if want := `{"error":"too_many_requests","rule":"per-ip","retryAfter":"60"}`; w.Code != http.StatusTooManyRequests || w.Body.String() != want {
		t.Errorf("%d %s, want %s", w.Code, w.Body, want)
	}
	if w := get("/closed"); w.Code != http.StatusForbidden || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("another rejection is %d %s", w.Code, w.Body)
	}
	got := fmt.Sprint(recorder.Ended()[1].Attributes())
	for _, want := range []string{"per-ip", "limited", "fluxgate.allowed"} {
		if !strings.Contains(got, want) {
			t.Errorf("the span of the rejected request has %s, without %s", got, want)
		}
	}
}
