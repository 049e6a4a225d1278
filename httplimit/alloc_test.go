package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// plentyOf is a rule for every address whose bands never run dry in a test.
func plentyOf(id string) rules.Rule {
	return rules.Rule{
		ID: id, Paths: []string{"/api/**"}, Scope: rules.ScopeIP,
		Bands: []rules.Band{rules.PerSecond(1_000_000_000), rules.PerMinute(10_000_000_000)},
	}
}

// plenty is an engine that allows everything, as one in production does most
// of the time.
func plenty(t testing.TB, list ...rules.Rule) *fluxgate.Engine {
	t.Helper()
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	set, err := rules.NewSet("api", list...)
	if err != nil {
		t.Fatal(err)
	}
	engine, err := fluxgate.New(store, fluxgate.Static(set))
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// idle is a response that costs nothing, so that what is measured is ours.
type idle struct{ header http.Header }

func (w idle) Header() http.Header         { return w.header }
func (w idle) Write(b []byte) (int, error) { return len(b), nil }
func (w idle) WriteHeader(int)             {}

func bare(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

func apiRequest() *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/api/users/42?page=2", http.NoBody)
	r.RemoteAddr = "192.0.2.7:4711"
	r.Header.Set("User-Agent", "test")
	return r
}

// The middleware with all headers allocates little.
func TestMiddleware_Allocations(t *testing.T) {
	for _, c := range []struct {
		name  string
		rules []rules.Rule
	}{
		{"one rule of two bands", []rules.Rule{plentyOf("a")}},
		{"three rules of two bands", []rules.Rule{plentyOf("a"), plentyOf("b"), plentyOf("c")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			limit, err := httplimit.New(plenty(t, c.rules...))
			if err != nil {
				t.Fatal(err)
			}
			passed := 0
			handler := limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed++ }))
			w, r := idle{}, apiRequest()
			got := testing.AllocsPerRun(1_000, func() {
				w.header = http.Header{}
				handler.ServeHTTP(w, r)
			})
			if passed != 1_001 || w.header.Get("RateLimit-Policy") == "" || w.header.Get("X-RateLimit-Reset") == "" {
				t.Fatalf("%d passed, with headers %v", passed, w.header)
			}
			t.Logf("%v allocations", got)
			if got > 6 {
				t.Errorf("%v allocations, want at most 6", got)
			}
		})
	}
}

func BenchmarkHandler(b *testing.B) {
	wrap := func(list []rules.Rule, options ...httplimit.Option) http.Handler {
		limit, err := httplimit.New(plenty(b, list...), options...)
		if err != nil {
			b.Fatal(err)
		}
		return limit(http.HandlerFunc(bare))
	}
	one := []rules.Rule{plentyOf("a")}
	for _, c := range []struct {
		name    string
		handler http.Handler
	}{
		{"bare", http.HandlerFunc(bare)},
		{"skipped", wrap(one, httplimit.WithoutPaths("/api/**"))},
		{"no headers", wrap(one, httplimit.WithIETFHeaders(false), httplimit.WithXHeaders(false))},
		{"one rule", wrap(one)},
		{"three rules", wrap([]rules.Rule{plentyOf("a"), plentyOf("b"), plentyOf("c")})},
	} {
		b.Run(c.name, func(b *testing.B) {
			w, r := idle{}, apiRequest()
			b.ReportAllocs()
			for b.Loop() {
				w.header = http.Header{}
				c.handler.ServeHTTP(w, r)
			}
		})
	}
}
