package fluxgate_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

func TestNew_InvalidOptions(t *testing.T) {
	buckets := newStore(t, nil)
	for _, c := range []struct {
		name   string
		option fluxgate.Option
		says   string
	}{
		{"a policy nobody knows", fluxgate.WithPolicy("QUEUE"), `"QUEUE"`},
		{"no policy", fluxgate.WithPolicy(""), `""`},
		{"a failure mode nobody knows", fluxgate.WithOnFailure("ajar"), `"ajar"`},
		{"no failure mode", fluxgate.WithOnFailure(""), `""`},
		{"a longest wait of nothing", fluxgate.WithWaiting(0, 1), "0s"},
		{"a longest wait below nothing", fluxgate.WithWaiting(-time.Second, 1), "-1s"},
		{"a longest wait that no store can book", fluxgate.WithWaiting(store.MaxWait+1, 1), store.MaxWait.String()},
		{"waiting for nobody", fluxgate.WithWaiting(time.Second, 0), "at least 1"},
		{"a fallback without a store", fluxgate.WithFallback(nil), "store"},
		{"a fallback with no share", fluxgate.WithFallbackShare(0), "share"},
		{"a fallback with a negative share", fluxgate.WithFallbackShare(-0.5), "share"},
		{"a fallback with more than all", fluxgate.WithFallbackShare(1.01), "share"},
		{"a fallback with a share that is no number", fluxgate.WithFallbackShare(math.NaN()), "share"},
		{"an IPv6 prefix of no bits", fluxgate.WithIPv6Prefix(0), "not 0"},
		{"an IPv6 prefix of too many bits", fluxgate.WithIPv6Prefix(129), "not 129"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := fluxgate.New(buckets, fluxgate.Static(), c.option)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want one that says %s", err, c.says)
			}
		})
	}
}

// The smallest and largest valid values are accepted.
func TestNew_ExtremeOptions(t *testing.T) {
	buckets := newStore(t, nil)
	if _, err := fluxgate.New(buckets, fluxgate.Static(),
		fluxgate.WithWaiting(store.MaxWait, 1), fluxgate.WithFallback(buckets), fluxgate.WithFallbackShare(1),
		fluxgate.WithIPv6Prefix(1), fluxgate.WithIPv6Prefix(128),
		fluxgate.WithObserver(nil), fluxgate.WithAmend(nil), fluxgate.WithIdentity(nil),
	); err != nil {
		t.Error(err)
	}
}

func TestNew_RequiresStoreAndRuleSets(t *testing.T) {
	if _, err := fluxgate.New(nil, fluxgate.Static()); err == nil {
		t.Error("made without a store")
	}
	if _, err := fluxgate.New(newStore(t, nil), nil); err == nil {
		t.Error("made without rule sets")
	}
}

// The function of WithAmend adds to a request before it is decided.
func TestWithAmend_BeforeDecision(t *testing.T) {
	premium := rules.Rule{
		ID: "premium", When: rules.When{Attributes: map[string][]string{"tier": {"premium"}}},
		Bands: []rules.Band{perHour("", 5)},
	}
	type contextKey struct{}
	g := newGate(t, []rules.Rule{premium}, fluxgate.WithAmend(func(ctx context.Context, req *fluxgate.Request) error {
		req.Attributes = map[string]string{"tier": ctx.Value(contextKey{}).(string)}
		req.Cost = 2
		return nil
	}))
	d, err := g.Check(context.WithValue(t.Context(), contextKey{}, "premium"), &fluxgate.Request{})
	if err != nil || d.RuleID != "premium" || d.Remaining != 3 {
		t.Errorf("%+v with %d left, %v; want the premium rule with 3", answerOf(&d), d.Remaining, err)
	}
}

// A user's function that fails or panics ends its request with ErrHook and
// takes no tokens.
func TestHooks_Failure(t *testing.T) {
	broken := errors.New("the table of plans is away")
	for _, c := range []struct {
		name   string
		option fluxgate.Option
		is     error
		says   string
	}{
		{"Amend with an error", fluxgate.WithAmend(func(context.Context, *fluxgate.Request) error { return broken }), broken, "plans"},
		{"Amend with a panic", fluxgate.WithAmend(func(context.Context, *fluxgate.Request) error { panic("a nil map") }), nil, "a nil map"},
		{"Identity with a panic", fluxgate.WithIdentity(func(r *rules.Rule, _ *fluxgate.Request) string {
			if r.ID == "second" {
				panic("a nil map")
			}
			return ""
		}), nil, "a nil map"},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := newStore(t, nil)
			engine := newEngine(t, store, ruleSet(t, rule("first", 9, 5), rule("second", 1, 5)), c.option)
			d, err := engine.Check(t.Context(), &fluxgate.Request{})
			if !errors.Is(err, fluxgate.ErrHook) || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want ErrHook that says %q", err, c.says)
			}
			if d.Allowed || d.Receipt() != nil {
				t.Errorf("and a decision: %+v", answerOf(&d))
			}
			if n := store.Stats().Buckets; n != 0 {
				t.Errorf("%d buckets were taken from", n)
			}
		})
	}
}

func TestWithIdentity_NamesCaller(t *testing.T) {
	tenant := func(r *rules.Rule, req *fluxgate.Request) string {
		if r.ID == "by-user" {
			return ""
		}
		return req.Attributes["tenant"]
	}
	acme := func(user string) fluxgate.Request {
		return fluxgate.Request{UserID: user, Attributes: map[string]string{"tenant": "acme"}}
	}
	byUser := func(r *rules.Rule) { r.Scope = rules.ScopeUser }
	t.Run("before the scope does", func(t *testing.T) {
		g := newGate(t, []rules.Rule{with(rule("r", 0, 1), byUser)}, fluxgate.WithIdentity(tenant))
		if !g.check(acme("ann")).Allowed || g.check(acme("bob")).Allowed {
			t.Error("two users of one tenant have not one bucket")
		}
		if !g.check(fluxgate.Request{UserID: "acme"}).Allowed {
			t.Error("a user called like a tenant shares its bucket")
		}
	})
	t.Run("and leaves it to the scope with an empty answer", func(t *testing.T) {
		g := newGate(t, []rules.Rule{with(rule("by-user", 0, 1), byUser)}, fluxgate.WithIdentity(tenant))
		if !g.check(acme("ann")).Allowed || !g.check(acme("bob")).Allowed || g.check(acme("bob")).Allowed {
			t.Error("two users have not a bucket each")
		}
	})
	t.Run("for a rule that would refuse the nameless", func(t *testing.T) {
		g := newGate(t, []rules.Rule{with(rule("r", 0, 1), func(r *rules.Rule) {
			byUser(r)
			r.OnMissingIdentity = rules.MissingRefuse
		})}, fluxgate.WithIdentity(tenant))
		if d := g.check(acme("")); !d.Allowed {
			t.Errorf("decided %+v", answerOf(&d))
		}
	})
}
