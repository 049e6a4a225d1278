package grpclimit_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/grpclimit"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// details are those of a status as a client decodes them.
type details struct {
	info  *errdetails.ErrorInfo
	retry *errdetails.RetryInfo
	quota *errdetails.QuotaFailure
}

func detailsOf(t *testing.T, err error) (d details) {
	t.Helper()
	for _, detail := range status.Convert(err).Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			d.info = detail
		case *errdetails.RetryInfo:
			d.retry = detail
		case *errdetails.QuotaFailure:
			d.quota = detail
		default:
			t.Errorf("detail %v", detail)
		}
	}
	return d
}

// Two calls of every kind pass and the third is refused, with the details.
func TestRejection_Details(t *testing.T) {
	each(t, func(t *testing.T, method string) {
		service := new(echo)
		rule := perHour("orders", 2)
		rule.Bands = append(rule.Bands, rules.Band{Label: "day", Capacity: 2, Refill: 24 * time.Hour})
		conn := limited(t, service, newEngine(t, []rules.Rule{rule}))
		for range 2 {
			if a := invoke(t.Context(), conn, method, "hello"); a.err != nil || !slices.Equal(a.messages, []string{"hello"}) {
				t.Fatalf("%+v", a)
			}
		}
		a := invoke(t.Context(), conn, method, "hello")
		const text = "orders.day has 0 of 2 left, and the request costs 1. Try again in 43200s."
		if a.code() != codes.ResourceExhausted || status.Convert(a.err).Message() != text {
			t.Fatalf("%v", a.err)
		}
		d := detailsOf(t, a.err)
		if d.info.GetReason() != "LIMITED" || d.info.GetDomain() != "fluxgate" || d.retry.GetRetryDelay().AsDuration() != 12*time.Hour {
			t.Errorf("%v", d)
		}
		v := d.quota.GetViolations()
		if len(v) != 2 || v[0].Subject != "orders.day" || v[0].Description != text || v[1].Subject != "orders.hour" {
			t.Errorf("violations %v", v)
		}
		if n := len(service.messages()); n != 2 {
			t.Errorf("the handler got %d messages", n)
		}
	})
}

// The code of every reason.
func TestRejection_CodeOfReasons(t *testing.T) {
	for reason, want := range map[fluxgate.Reason]struct {
		code codes.Code
		info string
	}{
		fluxgate.ReasonLimited:         {codes.ResourceExhausted, "LIMITED"},
		fluxgate.ReasonCostTooHigh:     {codes.ResourceExhausted, "COST_TOO_HIGH"},
		fluxgate.ReasonDenied:          {codes.PermissionDenied, "DENIED"},
		fluxgate.ReasonBadPath:         {codes.InvalidArgument, "BAD_PATH"},
		fluxgate.ReasonTooManyRules:    {codes.PermissionDenied, "TOO_MANY_RULES"},
		fluxgate.ReasonMissingIdentity: {codes.PermissionDenied, "MISSING_IDENTITY"},
		fluxgate.ReasonNoRule:          {codes.PermissionDenied, "NO_RULE"},
		fluxgate.ReasonNoRuleSet:       {codes.Unavailable, "NO_RULE_SET"},
		fluxgate.ReasonStoreFailure:    {codes.Unavailable, "STORE_FAILURE"},
		"a reason of tomorrow":         {codes.ResourceExhausted, "A REASON OF TOMORROW"},
	} {
		t.Run(string(reason), func(t *testing.T) {
			service := new(echo)
			conn := limited(t, service, decided(fluxgate.Decision{Reason: reason}))
			for _, method := range []string{unary, bidi} {
				a := invoke(t.Context(), conn, method, "hello")
				d := detailsOf(t, a.err)
				if a.code() != want.code || d.info.GetReason() != want.info || status.Convert(a.err).Message() == "" || len(service.messages()) > 0 {
					t.Errorf("%s: %v, %v", method, a.err, d)
				}
				if quota := want.code == codes.ResourceExhausted; d.retry != nil || (d.quota != nil) != quota {
					t.Errorf("%s: %v", method, d)
				}
			}
		})
	}
}

// unavailable is a store that always fails.
type unavailable struct{ store.Store }

func (unavailable) Take(context.Context, []store.Demand, *store.Outcome) error {
	return errors.New("the store at secret:6379 is unavailable")
}

// A store failure is refused or not by the rule.
func TestRejection_StoreFailure(t *testing.T) {
	for mode, want := range map[rules.OnFailure]codes.Code{rules.FailClosed: codes.Unavailable, rules.FailOpen: codes.OK} {
		rule := perHour("orders", 1)
		rule.OnFailure = mode
		conn := limited(t, new(echo), engineOver(t, unavailable{newStore()}, []rules.Rule{rule}))
		if a := invoke(t.Context(), conn, unary, "hello"); a.code() != want {
			t.Errorf("%s: %v, want %v", mode, a.err, want)
		}
	}
}

// A function answers in the words of the service.
func TestWithRejection(t *testing.T) {
	for name, c := range map[string]struct {
		answer error
		want   codes.Code
	}{
		"another status":   {status.Error(codes.Unavailable, "come back later"), codes.Unavailable},
		"the default":      {nil, codes.PermissionDenied},
		"a status of OK":   {status.Error(codes.OK, ""), codes.PermissionDenied},
		"any other error":  {errors.New("no"), codes.Unknown},
		"an error of ours": {fluxgate.ErrSettled, codes.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			conn := limited(t, new(echo), decided(fluxgate.Decision{Reason: fluxgate.ReasonDenied}), grpclimit.WithRejection(func(call *grpclimit.Call, r *grpclimit.Rejection) error {
				if call.FullMethod == "" || r.Decision.Reason != fluxgate.ReasonDenied || r.Status.Code() != codes.PermissionDenied || r.Err != nil {
					t.Errorf("%+v, %+v", call, r)
				}
				return c.answer
			}))
			each(t, func(t *testing.T, method string) {
				if a := invoke(t.Context(), conn, method, "hello"); a.code() != c.want {
					t.Errorf("%v, want %v", a.err, c.want)
				}
			})
		})
	}
}

// rateLimitHeaders are those of an answer, without their values.
func rateLimitHeaders(md metadata.MD) (names []string) {
	for _, name := range []string{"x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "ratelimit-policy", "ratelimit"} {
		if len(md.Get(name)) > 0 {
			names = append(names, name)
		}
	}
	return names
}

// Allowed or not, the header metadata says what is left.
func TestHeaders_Values(t *testing.T) {
	each(t, func(t *testing.T, method string) {
		conn := limited(t, new(echo), newEngine(t, []rules.Rule{perHour("orders", 2)}))
		for i, want := range []metadata.MD{
			{"x-ratelimit-remaining": {"1"}, "ratelimit": {`"orders.hour";r=1;t=1800`}},
			{"x-ratelimit-remaining": {"0"}, "ratelimit": {`"orders.hour";r=0;t=1800`}},
			{"x-ratelimit-remaining": {"0"}, "ratelimit": {`"orders.hour";r=0;t=1800`}},
		} {
			a := invoke(t.Context(), conn, method, "hello")
			want["x-ratelimit-limit"], want["ratelimit-policy"] = []string{"2"}, []string{`"orders.hour";q=2;w=3600`}
			for name, values := range want {
				if !slices.Equal(a.header[name], values) {
					t.Errorf("call %d: %s is %q, want %q", i, name, a.header[name], values)
				}
			}
			if len(a.header["x-ratelimit-reset"]) != 1 {
				t.Errorf("call %d: %v", i, a.header)
			}
		}
	})
}

// Headers can be switched off.
func TestHeaders_Off(t *testing.T) {
	x, ietf := []string{"x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"}, []string{"ratelimit-policy", "ratelimit"}
	for _, c := range []struct {
		name    string
		options []grpclimit.Option
		want    []string
	}{
		{"by default all are on", nil, append(slices.Clone(x), ietf...)},
		{"without the IETF's", []grpclimit.Option{grpclimit.WithIETFHeaders(false)}, x},
		{"without the older ones", []grpclimit.Option{grpclimit.WithXHeaders(false)}, ietf},
		{"without any", []grpclimit.Option{grpclimit.WithXHeaders(false), grpclimit.WithIETFHeaders(false)}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := limited(t, new(echo), newEngine(t, []rules.Rule{perHour("r", 9)}), c.options...)
			each(t, func(t *testing.T, method string) {
				if got := rateLimitHeaders(invoke(t.Context(), conn, method, "hello").header); !slices.Equal(got, c.want) {
					t.Errorf("headers %q, want %q", got, c.want)
				}
			})
		})
	}
}

// Behind several interceptors there is a value of each, the outermost first, and all
// of them must admit a call.
func TestHeaders_SeveralInterceptors(t *testing.T) {
	sets := fluxgate.Static(fluxgate.Must(rules.NewSet("all", perHour("all", 9))), fluxgate.Must(rules.NewSet("some", perHour("some", 1))))
	engine := fluxgate.Must(fluxgate.New(newStore(), sets))
	each(t, func(t *testing.T, method string) {
		if err := engine.Reset(t.Context(), store.Key{RuleSet: "some"}); err != nil {
			t.Fatal(err)
		}
		conn := serve(t, new(echo), behind(newLimit(t, engine, grpclimit.WithRuleSet("all")), newLimit(t, engine, grpclimit.WithRuleSet("some")))...)
		for _, want := range []codes.Code{codes.OK, codes.ResourceExhausted} {
			a := invoke(t.Context(), conn, method, "hello")
			if a.code() != want || !slices.Equal(a.header["x-ratelimit-limit"], []string{"9", "1"}) || len(a.header["ratelimit"]) != 2 {
				t.Errorf("%v, %v", a.err, a.header)
			}
		}
	})
}

// Methods are included and excluded by patterns.
func TestOptions_Methods(t *testing.T) {
	for _, c := range []struct {
		name    string
		options []grpclimit.Option
		limited []string
	}{
		{"all by default", nil, methods},
		{"those that are included", []grpclimit.Option{grpclimit.WithMethods(unary, bidi)}, []string{unary, bidi}},
		{"all but those that are excluded", []grpclimit.Option{grpclimit.WithoutMethods("/test.Echo/*")}, nil},
		{"those that are included and not excluded", []grpclimit.Option{grpclimit.WithMethods("/test.Echo/*"), grpclimit.WithoutMethods(bidi)}, methods[:3]},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := limited(t, new(echo), decided(fluxgate.Decision{Reason: fluxgate.ReasonDenied}), c.options...)
			each(t, func(t *testing.T, method string) {
				if a := invoke(t.Context(), conn, method, "hello"); slices.Contains(c.limited, method) != (a.code() == codes.PermissionDenied) {
					t.Errorf("%v", a.err)
				}
			})
		})
	}
}
