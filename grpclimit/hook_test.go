package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/grpclimit"
	"github.com/fluxgate/fluxgate/rules"
)

// New refuses invalid options.
func TestNew_InvalidOptions(t *testing.T) {
	for _, c := range []struct {
		name    string
		limiter fluxgate.Limiter
		option  grpclimit.Option
		want    string
	}{
		{"no limiter", nil, grpclimit.WithRuleSet("x"), "no limiter"},
		{"no methods", newSeen(), grpclimit.WithMethods(), "methods: at least one pattern"},
		{"a bad method", newSeen(), grpclimit.WithMethods("shop.Orders/Place"), "methods: "},
		{"a bad excluded method", newSeen(), grpclimit.WithoutMethods("/a**"), "excluded methods: "},
		{"a cost of 0", newSeen(), grpclimit.WithCost(0), "at least 1 token, not 0"},
		{"no cost function", newSeen(), grpclimit.WithCostFunc(nil), "WithCostFunc must not be nil"},
		{"no rule set function", newSeen(), grpclimit.WithRuleSetFunc(nil), "WithRuleSetFunc must not be nil"},
		{"no resolver", newSeen(), grpclimit.WithClientIP(nil), "WithClientIP must not be nil"},
		{"no user function", newSeen(), grpclimit.WithUserFunc(nil), "WithUserFunc must not be nil"},
		{"no key function", newSeen(), grpclimit.WithAPIKeyFunc(nil), "WithAPIKeyFunc must not be nil"},
		{"no attribute function", newSeen(), grpclimit.WithAttribute("tenant", nil), `attribute "tenant" must not be nil`},
		{"no attribute name", newSeen(), grpclimit.WithAttribute("", grpclimit.BearerToken), "no name"},
		{"no amend function", newSeen(), grpclimit.WithAmend(nil), "WithAmend must not be nil"},
		{"no rejection function", newSeen(), grpclimit.WithRejection(nil), "WithRejection must not be nil"},
		{"no observer", newSeen(), grpclimit.WithObserver(nil), "observer must not be nil"},
	} {
		t.Run(c.name, func(t *testing.T) {
			limit, err := grpclimit.New(c.limiter, c.option)
			if err == nil || limit != nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
	t.Run("all at once", func(t *testing.T) {
		_, err := grpclimit.New(nil, grpclimit.WithCost(0))
		for _, want := range []string{"no limiter", "at least 1 token"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q in it", err, want)
			}
		}
	})
}

// recorder is an observer that records its calls.
type recorder struct {
	panics string // where it panics

	mu    sync.Mutex
	calls []string
	errs  []error
}

func (o *recorder) add(what, format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls = append(o.calls, what+" "+fmt.Sprintf(format, args...))
	if strings.Contains(o.panics, what) {
		panic("secret")
	}
}

func (o *recorder) Decided(call *grpclimit.Call, d *fluxgate.Decision) {
	o.add("decided", "%s: %s", call.FullMethod, d.Reason)
}

func (o *recorder) Skipped(call *grpclimit.Call) { o.add("skipped", "%s", call.FullMethod) }

func (o *recorder) Failed(call *grpclimit.Call, err error) {
	o.mu.Lock()
	o.errs = append(o.errs, err)
	o.mu.Unlock()
	o.add("failed", "%s", call.FullMethod)
}

func (o *recorder) recorded() ([]string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.calls), errors.Join(o.errs...)
}

// An observer is called for limited, skipped and failed calls.
func TestObserver_Calls(t *testing.T) {
	observer := new(recorder)
	conn := limited(t, new(echo), newEngine(t, []rules.Rule{perHour("r", 1)}), grpclimit.WithoutMethods(clientStream), grpclimit.WithObserver(observer),
		grpclimit.WithAmend(func(c *grpclimit.Call, _ *fluxgate.Request) error {
			if c.FullMethod == serverStream {
				return errors.New("no plan")
			}
			return nil
		}))
	for _, method := range []string{unary, bidi, clientStream, serverStream} {
		invoke(t.Context(), conn, method, "hello")
	}
	want := []string{"decided " + unary + ": ok", "decided " + bidi + ": limited", "skipped " + clientStream, "failed " + serverStream}
	if calls, err := observer.recorded(); !slices.Equal(calls, want) || !errors.Is(err, fluxgate.ErrHook) {
		t.Errorf("called %q with %v", calls, err)
	}
}

// A panic or an error of a user's function is an INTERNAL of that call, and shows
// nothing.
func TestHook_Failures(t *testing.T) {
	text := func(*grpclimit.Call) string { panic("secret") }
	denied := decided(fluxgate.Decision{Reason: fluxgate.ReasonDenied})
	for _, c := range []struct {
		name    string
		limiter fluxgate.Limiter
		option  grpclimit.Option
		panics  string
	}{
		{"the rule set", newSeen(), grpclimit.WithRuleSetFunc(text), ""},
		{"the cost", newSeen(), grpclimit.WithCostFunc(func(*grpclimit.Call) int64 { panic("secret") }), ""},
		{"an impossible cost", newEngine(t, []rules.Rule{perHour("r", 9)}), grpclimit.WithCostFunc(func(*grpclimit.Call) int64 { return -1 }), ""},
		{"the user", newSeen(), grpclimit.WithUserFunc(text), ""},
		{"the API key", newSeen(), grpclimit.WithAPIKeyFunc(text), ""},
		{"an attribute", newSeen(), grpclimit.WithAttribute("a", text), ""},
		{"the amendment", newSeen(), grpclimit.WithAmend(func(*grpclimit.Call, *fluxgate.Request) error { return errors.New("secret") }), ""},
		{"the rejection", denied, grpclimit.WithRejection(func(*grpclimit.Call, *grpclimit.Rejection) error { panic("secret") }), ""},
		{"the limiter", limiterFunc(func(context.Context, *fluxgate.Request) (fluxgate.Decision, error) { panic("secret") }), grpclimit.WithCost(1), ""},
		{"the limiter's error", limiterFunc(func(context.Context, *fluxgate.Request) (fluxgate.Decision, error) {
			return fluxgate.Decision{}, errors.New("secret")
		}), grpclimit.WithCost(1), ""},
		{"the observer of a decision", newSeen(), grpclimit.WithCost(1), "decided"},
		{"the observer of a skipped call", newSeen(), grpclimit.WithoutMethods("/**"), "skipped"},
		{"the observer of everything", newSeen(), grpclimit.WithCost(1), "decided failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, method string) {
				observer, service := &recorder{panics: c.panics}, new(echo)
				a := invoke(t.Context(), limited(t, service, c.limiter, c.option, grpclimit.WithObserver(observer)), method, "hello")
				if a.code() != codes.Internal || strings.Contains(fmt.Sprint(a.err, a.header), "secret") || len(service.messages()) > 0 {
					t.Errorf("%+v, the handler got %q", a, service.messages())
				}
				if calls, err := observer.recorded(); calls[len(calls)-1] != "failed "+method || err == nil {
					t.Errorf("called %q with %v", calls, err)
				}
			})
		})
	}
}

// Failures are logged without an observer, with the method and nothing of the
// metadata. Mistakes of clients are not.
func TestObserver_DefaultLog(t *testing.T) {
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer s3cret", "x-api-key", "s3cret", "x-twice", "s3cret", "x-twice", "s3cret")
	key := grpclimit.WithAPIKeyFunc(grpclimit.BearerToken)
	earlier := logged.String() // of other tests
	broken := limited(t, new(echo), newSeen(), key, grpclimit.WithUserFunc(func(*grpclimit.Call) string { panic("no session") }))
	if a := invoke(ctx, broken, bidi, "hello"); a.code() != codes.Internal {
		t.Errorf("%v", a.err)
	}
	for _, want := range []string{`[grpclimit] no decision about "` + bidi + `": `, "panic: no session", "hook_test.go"} {
		if lines := strings.TrimPrefix(logged.String(), earlier); strings.Count(lines, want) != 1 {
			t.Errorf("the log does not have %q once:\n%s", want, lines)
		}
	}
	before := logged.String()
	if a := invoke(ctx, limited(t, new(echo), newSeen(), grpclimit.WithAPIKeyFunc(grpclimit.Metadata("x-twice"))), bidi, "hello"); a.code() != codes.InvalidArgument {
		t.Errorf("%v", a.err)
	}
	denied := limited(t, new(echo), newEngine(t, []rules.Rule{{ID: "keys", Action: rules.ActionDeny, Scope: rules.ScopeAPIKey}}), key)
	if a := invoke(ctx, denied, unary, "hello"); a.code() != codes.PermissionDenied || strings.Contains(fmt.Sprint(a.err, a.header), "s3cret") {
		t.Errorf("%+v", a)
	}
	if after := logged.String(); after != before || strings.Contains(after, "s3cret") {
		t.Errorf("the log is now\n%s", after)
	}
}
