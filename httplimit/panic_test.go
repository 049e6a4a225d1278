package httplimit_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/httplimit/limittest"
	"github.com/fluxgate/fluxgate/rules"
)

// panicky panics in the methods that at names.
type panicky struct {
	recorder
	at string
}

func (o *panicky) Decided(r *http.Request, d *fluxgate.Decision) {
	o.recorder.Decided(r, d)
	o.panicAt("decided")
}

func (o *panicky) Skipped(r *http.Request) {
	o.recorder.Skipped(r)
	o.panicAt("skipped")
}

func (o *panicky) Failed(r *http.Request, err error) {
	o.recorder.Failed(r, err)
	o.panicAt("failed")
}

func (o *panicky) panicAt(method string) {
	if strings.Contains(o.at, method) {
		panic("secret")
	}
}

// A panic in a user's function is a 500 of that request.
func TestHook_Panic(t *testing.T) {
	text := func(*http.Request) string { panic("secret") }
	denied := decided(fluxgate.Decision{Reason: fluxgate.ReasonDenied})
	for _, c := range []struct {
		name    string
		limiter fluxgate.Limiter
		option  httplimit.Option
		at      string // where the observer panics too
	}{
		{"the rule set", new(seen), httplimit.WithRuleSetFunc(text), ""},
		{"the cost", new(seen), httplimit.WithCostFunc(func(*http.Request) int64 { panic("secret") }), ""},
		{"the user", new(seen), httplimit.WithUserFunc(text), ""},
		{"the API key", new(seen), httplimit.WithAPIKeyFunc(text), ""},
		{"an attribute", new(seen), httplimit.WithAttribute("a", text), ""},
		{"the amendment", new(seen), httplimit.WithAmend(func(*http.Request, *fluxgate.Request) error { panic(errors.New("secret")) }), ""},
		{"the rejection", denied, httplimit.WithRejection(func(http.ResponseWriter, *http.Request, *httplimit.Rejection) { panic("secret") }), ""},
		{"the limiter", limiterFunc(func(context.Context) (fluxgate.Decision, error) { panic("secret") }), httplimit.WithCost(1), ""},
		{"an engine's function", newEngine(t, []rules.Rule{perHour("r", 1)}, fluxgate.WithAmend(func(context.Context, *fluxgate.Request) error { panic("secret") })), httplimit.WithCost(1), ""},
		{"the observer of a decision", new(seen), httplimit.WithCost(1), "decided"},
		{"the observer of a skipped request", new(seen), httplimit.WithoutPaths("/**"), "skipped"},
		{"the observer of a failure", new(seen), httplimit.WithUserFunc(text), "failed"},
		{"the observer of everything", new(seen), httplimit.WithCost(1), "decided failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			observer := &panicky{at: c.at}
			ran := 0
			server := serve(t, newLimit(t, c.limiter, c.option, httplimit.WithObserver(observer))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran++ })))
			got := limittest.Exchange(t, server.Client(), http.MethodGet, server.URL)
			if !strings.Contains(got, "HTTP/1.1 500 ") || strings.Contains(got, "secret") || ran != 0 {
				t.Errorf("the handler ran %d times, the answer is\n%s", ran, got)
			}
			if last := observer.calls[len(observer.calls)-1]; last != "failed /" || !errors.Is(observer.errs[0], fluxgate.ErrHook) {
				t.Errorf("told %q, %v", observer.calls, observer.errs)
			}
		})
	}
}

// A request that is not served because an observer panics holds nothing.
func TestHook_PanicGivesBack(t *testing.T) {
	slot := rules.Band{Label: "slot", Kind: rules.Concurrency, Capacity: 1, Hold: time.Hour}
	engine := newEngine(t, []rules.Rule{{ID: "r", Bands: []rules.Band{slot}}, perHour("tokens", 10)})
	for _, value := range []any{"secret", http.ErrAbortHandler} {
		observer := panickyWith{value}
		limited := newLimit(t, engine, httplimit.WithObserver(observer))(hello)
		func() {
			defer func() { _ = recover() }()
			record(limited, get("/"))
		}()
		d, err := engine.Check(t.Context(), &fluxgate.Request{Peek: true})
		if err != nil || !d.Allowed {
			t.Errorf("after a panic of %v the next request is %+v, %v", value, d, err)
		}
		for b := range d.Bands() {
			if b.Remaining != b.Limit {
				t.Errorf("after a panic of %v rule %s has %d of %d left", value, b.Rule.ID, b.Remaining, b.Limit)
			}
		}
	}
}

// panickyWith panics with a value when a request is decided.
type panickyWith struct{ value any }

func (p panickyWith) Decided(*http.Request, *fluxgate.Decision) { panic(p.value) }
func (panickyWith) Skipped(*http.Request)                       {}
func (panickyWith) Failed(*http.Request, error)                 {}

// A panic error has the value and the stack.
func TestPanicError_Text(t *testing.T) {
	observer := new(recorder)
	record(newLimit(t, new(seen), httplimit.WithObserver(observer), httplimit.WithUserFunc(func(*http.Request) string { panic("no session") }))(hello), get("/"))
	var p *httplimit.PanicError
	if !errors.As(observer.errs[0], &p) || p.Value != "no session" || !strings.Contains(string(p.Stack), "panic_test.go") {
		t.Errorf("told of %v", observer.errs[0])
	}
	if want := "a user's function failed: panic: no session"; p.Error() != want {
		t.Errorf("it says %q, want %q", p.Error(), want)
	}
}

// A rejection that panics after its start aborts the connection.
func TestHook_PanicInRejection(t *testing.T) {
	for name, begin := range map[string]func(http.ResponseWriter){
		"in the body":   func(w http.ResponseWriter) { _, _ = io.WriteString(w, "half") },
		"in the header": func(w http.ResponseWriter) { w.WriteHeader(http.StatusTooManyRequests) },
		"after a flush": func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() },
	} {
		t.Run(name, func(t *testing.T) {
			observer := new(recorder)
			server := serve(t, newLimit(t, decided(fluxgate.Decision{Reason: fluxgate.ReasonDenied}), httplimit.WithObserver(observer),
				httplimit.WithRejection(func(w http.ResponseWriter, _ *http.Request, _ *httplimit.Rejection) {
					begin(w)
					panic("half way")
				}))(hello))
			response, err := server.Client().Get(server.URL)
			if err == nil {
				_, err = io.ReadAll(response.Body)
				response.Body.Close()
			}
			if err == nil {
				t.Errorf("the client got a whole answer with status %d", response.StatusCode)
			}
			server.Close() // and wait for the handler
			if want := []string{"decided /: false, denied", "failed /"}; !slices.Equal(observer.calls, want) {
				t.Errorf("told %q, want %q", observer.calls, want)
			}
		})
	}
}

// A panic with http.ErrAbortHandler aborts the answer.
func TestHook_AbortHandler(t *testing.T) {
	abort := func(http.ResponseWriter, *http.Request, *httplimit.Rejection) { panic(http.ErrAbortHandler) }
	for name, handler := range map[string]http.Handler{
		"a rejection": newLimit(t, decided(fluxgate.Decision{Reason: fluxgate.ReasonDenied}), httplimit.WithRejection(abort))(hello),
		"a hook":      newLimit(t, new(seen), httplimit.WithUserFunc(func(*http.Request) string { panic(http.ErrAbortHandler) }))(hello),
		"a handler":   newLimit(t, new(seen))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })),
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, handler) // it would log any other panic
			response, err := server.Client().Get(server.URL)
			if err == nil {
				response.Body.Close()
				t.Errorf("status %d", response.StatusCode)
			}
		})
	}
}

// A panic of the handler passes through.
func TestMiddleware_HandlerPanic(t *testing.T) {
	observer := new(recorder)
	for name, options := range map[string][]httplimit.Option{
		"by default": nil, "when settling": {httplimit.WithSettling(true)}, "when skipped": {httplimit.WithoutPaths("/**")},
	} {
		t.Run(name, func(t *testing.T) {
			ran := 0
			handler := newLimit(t, newEngine(t, []rules.Rule{perHour("r", 9)}), append(options, httplimit.WithObserver(observer))...)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				ran++
				panic("of the handler")
			}))
			func() {
				defer func() {
					if p := recover(); p != "of the handler" {
						t.Errorf("the panic is %v", p)
					}
				}()
				record(handler, get("/"))
			}()
			if ran != 1 || len(observer.errs) > 0 {
				t.Errorf("the handler ran %d times, told of %v", ran, observer.errs)
			}
		})
	}
}
