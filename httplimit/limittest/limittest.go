package limittest

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
	"github.com/fluxgate/fluxgate/store/storetest"
)

//go:embed testdata/*.http
var goldens embed.FS

// Run compares the middleware's responses over a limiter with the golden ones.
// connect returns the limiter to test, which must decide by calling the engine.
func Run(t *testing.T, connect func(t *testing.T, engine *fluxgate.Engine) fluxgate.Limiter) {
	tried := map[string]bool{}
	for _, s := range scenarios(t) {
		tried[s.name+".http"] = true
		t.Run(s.name, func(t *testing.T) {
			var buckets store.Store = newStore(t)
			if s.away {
				buckets = away{buckets}
			}
			set, err := rules.NewSet("api", s.rules...)
			if err != nil {
				t.Fatal(err)
			}
			engine, err := fluxgate.New(buckets, fluxgate.Static(set), s.engine...)
			if err != nil {
				t.Fatal(err)
			}
			Compare(t, s.name, Respond(t, connect(t, engine), s.before, s.method, s.options...))
		})
	}
	files, err := goldens.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !tried[file.Name()] {
			t.Errorf("no scenario uses testdata/%s", file.Name())
		}
	}
}

// newStore returns a store in memory with a fixed clock.
func newStore(t testing.TB) *memstore.Store {
	t.Helper()
	store, err := memstore.New(memstore.Config{Clock: storetest.NewClock().Now})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// away is an unavailable store.
type away struct{ store.Store }

var errAway = errors.New("dial tcp 10.9.8.7:6379: connection refused")

func (away) Take(context.Context, []store.Demand, *store.Outcome) error { return errAway }
func (away) Peek(context.Context, []store.Demand, *store.Outcome) error { return errAway }

// Respond sends equal requests to a real server with the middleware and returns
// the last one with its response. An empty method means GET.
func Respond(t testing.TB, limiter fluxgate.Limiter, before int, method string, options ...httplimit.Option) string {
	t.Helper()
	limit, err := httplimit.New(limiter, options...)
	if err != nil {
		t.Fatal(err)
	}
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello\n") })
	server := httptest.NewServer(limit(hello))
	defer server.Close()
	if method == "" {
		method = http.MethodGet
	}
	var got string
	for range before + 1 {
		got = Exchange(t, server.Client(), method, server.URL+"/orders/7?page=2")
	}
	return got
}

// Exchange is a request and its response as they were sent, but for the date.
func Exchange(t testing.TB, client *http.Client, method, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	response.Header.Del("Date")
	dump, err := httputil.DumpResponse(response, true)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s %s\n\n%s\n", method, request.URL.RequestURI(), strings.ReplaceAll(strings.TrimSpace(string(dump)), "\r\n", "\n"))
}

// Compare compares a response with a golden one. In this package's own test
// UPDATE_GOLDEN=1 rewrites it.
func Compare(t testing.TB, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".http")
	if _, missing := os.Stat("scenarios.go"); os.Getenv("UPDATE_GOLDEN") != "" && missing == nil {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := goldens.ReadFile("testdata/" + name + ".http")
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("got\n%s\nwant, as in httplimit/limittest/%s,\n%s\n(UPDATE_GOLDEN=1 go test ./httplimit/limittest writes it)",
			got, file, want)
	}
}
