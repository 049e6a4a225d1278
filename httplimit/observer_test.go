package httplimit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/httplimit/limittest"
	"github.com/fluxgate/fluxgate/rules"
)

// recorder is an observer that records its calls.
type recorder struct {
	mu    sync.Mutex
	calls []string
	errs  []error
}

var _ httplimit.Observer = (*recorder)(nil)

func (o *recorder) add(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls = append(o.calls, fmt.Sprintf(format, args...))
}

func (o *recorder) Decided(r *http.Request, d *fluxgate.Decision) {
	o.add("decided %s: %t, %s", r.URL.Path, d.Allowed, d.Reason)
}

func (o *recorder) Skipped(r *http.Request) { o.add("skipped %s", r.URL.Path) }

func (o *recorder) Failed(r *http.Request, err error) {
	o.add("failed %s", r.URL.Path)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.errs = append(o.errs, err)
}

// An observer is called for limited, skipped and failed requests.
func TestObserver_Calls(t *testing.T) {
	observer := new(recorder)
	handler := newLimit(t, newEngine(t, []rules.Rule{with(perHour("r", 1), func(r *rules.Rule) { r.Paths = []string{"/a"} })}),
		httplimit.WithoutPaths("/health"), httplimit.WithObserver(observer),
		httplimit.WithAmend(func(r *http.Request, _ *fluxgate.Request) error {
			if r.URL.Path == "/broken" {
				return errors.New("no plan")
			}
			return nil
		}))(hello)
	for _, path := range []string{"/a", "/a", "/b", "/health", "/broken"} {
		record(handler, get(path))
	}
	want := []string{"decided /a: true, ok", "decided /a: false, limited", "decided /b: true, no-rule", "skipped /health", "failed /broken"}
	if !slices.Equal(observer.calls, want) {
		t.Errorf("told\n%q\nwant\n%q", observer.calls, want)
	}
	if err := observer.errs[0]; !errors.Is(err, fluxgate.ErrHook) || !strings.Contains(err.Error(), "no plan") {
		t.Errorf("told of %v", err)
	}
}

// Failures are logged without an observer.
func TestObserver_DefaultLog(t *testing.T) {
	for _, c := range []struct {
		name    string
		options []httplimit.Option
		logged  bool
	}{
		{"without an observer", nil, true},
		{"with an observer", []httplimit.Option{httplimit.WithObserver(new(recorder))}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			options := append(slices.Clone(c.options), httplimit.WithUserFunc(func(*http.Request) string { panic("no session") }))
			var logged bytes.Buffer
			server := httptest.NewUnstartedServer(newLimit(t, newEngine(t, []rules.Rule{perHour("r", 1)}), options...)(hello))
			server.Config.ErrorLog = log.New(&logged, "", 0)
			server.Start()
			limittest.Exchange(t, server.Client(), http.MethodGet, server.URL+"/orders/7")
			server.Close() // and with it every goroutine that logs
			for _, part := range []string{`GET "/orders/7"`, "panic: no session", "observer_test.go"} {
				if strings.Contains(logged.String(), part) != c.logged {
					t.Errorf("logged %q, want %s in it: %t", logged.String(), part, c.logged)
				}
			}
		})
	}
}

// Requests of clients that have gone are not logged.
func TestObserver_CanceledNotLogged(t *testing.T) {
	var logged bytes.Buffer
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), http.ServerContextKey, &http.Server{ErrorLog: log.New(&logged, "", 0)}))
	cancel()
	response := record(newLimit(t, newEngine(t, []rules.Rule{perHour("r", 1)}))(hello), get("/").WithContext(ctx))
	if logged.Len() > 0 || response.StatusCode != httplimit.StatusClientClosedRequest {
		t.Errorf("answered with %d, logged %q", response.StatusCode, logged.String())
	}
}
