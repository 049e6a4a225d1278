package client_test

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/client"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// What the engine promises, asked through a client and a server on real Redis.

func onRedis(t testing.TB, list []rules.Rule, options ...fluxgate.Option) *gate {
	t.Helper()
	return newGate(t, newRedis(t, testenv.SharedStandalone(t).URI(), patient), list, append(options, fluxgate.WithOnFailure(rules.FailClosed))...)
}

// Exactly as many pass as the band holds.
func TestClient_ExactLimit(t *testing.T) {
	const capacity, callers, each = 50, 16, 10
	store := newRedis(t, testenv.SharedStandalone(t).URI(), patient)
	list := []rules.Rule{perHour("r", capacity)}
	gates := []*gate{newGate(t, store, list, fluxgate.WithOnFailure(rules.FailClosed)), newGate(t, store, list, fluxgate.WithOnFailure(rules.FailClosed))} // two servers, one Redis
	var passed atomic.Int64
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for i := range each {
				if d, err := gates[(caller+i)%2].Check(t.Context(), &fluxgate.Request{}); err != nil {
					t.Error(err)
				} else if d.Allowed {
					passed.Add(1)
				} else if d.Reason != fluxgate.ReasonLimited || d.RetryAfter <= 0 {
					t.Errorf("rejected: %+v, retry after %v", answerOf(&d), d.RetryAfter)
				}
			}
		})
	}
	all.Wait()
	if got := passed.Load(); got != capacity {
		t.Errorf("%d of %d pass, want %d", got, callers*each, capacity)
	}
}

// A request takes from every rule or from none.
func TestClient_AllOrNothing(t *testing.T) {
	g := onRedis(t, []rules.Rule{
		{ID: "wide", Bands: []rules.Band{{Label: "hour", Capacity: 100, Refill: time.Hour}, {Label: "day", Capacity: 200, Refill: 24 * time.Hour}}},
		with(perHour("narrow", 3), func(r *rules.Rule) { r.Paths = []string{"/narrow"} }),
	})
	if got := g.admitted(10, fluxgate.Request{Path: "/narrow"}); got != 3 {
		t.Errorf("%d of 10 pass, want 3", got)
	}
	want := map[string]int64{"wide.hour": 97, "wide.day": 197, "narrow.hour": 0}
	if got := g.left(fluxgate.Request{Path: "/narrow"}); !maps.Equal(got, want) {
		t.Errorf("left %v, want %v", got, want)
	}
	d := g.check(fluxgate.Request{Path: "/narrow"})
	words := []string{"narrow.hour rejected 0 of 3", "wide.hour ok 97 of 100", "wide.day ok 197 of 200"}
	if got := bands(&d); !slices.Equal(got, words) || d.Band != "hour" || d.Limit != 3 || d.Remaining != 0 || d.Time.IsZero() {
		t.Errorf("bands %q, want %q; %+v", got, words, d)
	}
}

// Shadow rules measure and never reject.
func TestClient_ShadowRules(t *testing.T) {
	g := onRedis(t, []rules.Rule{with(perHour("measured", 2), func(r *rules.Rule) { r.Mode, r.Priority = rules.ModeShadow, 9 }), perHour("enforced", 4)})
	for i, want := range []string{
		"measured.hour ok 1 of 2 shadow", "measured.hour ok 0 of 2 shadow",
		"measured.hour rejected 0 of 2 shadow", "measured.hour rejected 0 of 2 shadow",
	} {
		d := g.check(fluxgate.Request{})
		if got := bands(&d)[0]; answerOf(&d) != (answer{true, fluxgate.ReasonOK, "enforced"}) || got != want {
			t.Errorf("request %d: %+v, %s; want %s", i, answerOf(&d), got, want)
		}
	}
	if d := g.check(fluxgate.Request{}); answerOf(&d) != (answer{false, fluxgate.ReasonLimited, "enforced"}) {
		t.Errorf("the fifth: %+v", answerOf(&d))
	}
}

// Groups, actions and identities are decided as by an engine.
func TestClient_GroupsActionsIdentities(t *testing.T) {
	plan := func(id string, priority int, n int64, when rules.When) rules.Rule {
		return rules.Rule{
			ID: id, Priority: priority, Group: "plan", Scope: rules.ScopeUser, When: when,
			Bands: []rules.Band{{Label: "hour", Capacity: n, Refill: time.Hour}},
		}
	}
	g := onRedis(t, []rules.Rule{
		plan("everyone", 0, 3, rules.When{}),
		plan("premium", 10, 5, rules.When{Attributes: map[string][]string{"tier": {"premium"}}}),
		plan("route", 15, 6, rules.When{Descriptor: []rules.DescriptorMatch{{Key: "route", Value: "a*", Except: []string{"ab"}}}}),
		plan("acme", 20, 7, rules.When{Users: []string{"acme"}}),
		{ID: "monitor", Priority: 90, Action: rules.ActionAllow, When: rules.When{Headers: map[string][]string{"X-Probe": {"yes"}}}},
		{ID: "blocked", Priority: 80, Action: rules.ActionDeny, When: rules.When{IPs: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}},
	})
	for _, c := range []struct {
		name string
		req  fluxgate.Request
		pass int
		want answer // of one more
	}{
		{"everyone", fluxgate.Request{UserID: "ann"}, 3, answer{false, fluxgate.ReasonLimited, "everyone"}},
		{"everyone else", fluxgate.Request{UserID: "bob"}, 3, answer{false, fluxgate.ReasonLimited, "everyone"}},
		{"a name that is not UTF-8", fluxgate.Request{UserID: "\xff"}, 3, answer{false, fluxgate.ReasonLimited, "everyone"}},
		{"another that is not UTF-8", fluxgate.Request{UserID: "\xfe"}, 3, answer{false, fluxgate.ReasonLimited, "everyone"}},
		{"what JSON would make of them", fluxgate.Request{UserID: "\ufffd"}, 3, answer{false, fluxgate.ReasonLimited, "everyone"}},
		{"premium", fluxgate.Request{UserID: "cat", Attributes: map[string]string{"tier": "premium"}}, 5, answer{false, fluxgate.ReasonLimited, "premium"}},
		{"route", fluxgate.Request{UserID: "ray", Descriptor: []fluxgate.DescriptorEntry{{Key: "route", Value: "a\xff"}}}, 6, answer{false, fluxgate.ReasonLimited, "route"}},
		{"another route", fluxgate.Request{UserID: "roy", Descriptor: []fluxgate.DescriptorEntry{{Key: "route", Value: "ab"}}}, 3, answer{false, fluxgate.ReasonLimited, "everyone"}},
		{"acme", fluxgate.Request{UserID: "acme"}, 7, answer{false, fluxgate.ReasonLimited, "acme"}},
		{"exempt", fluxgate.Request{UserID: "ann", Headers: map[string][]string{"X-Probe": {"yes"}}}, 9, answer{true, fluxgate.ReasonExempt, "monitor"}},
		{"denied", fluxgate.Request{UserID: "dan", IP: here}, 0, answer{false, fluxgate.ReasonDenied, "blocked"}},
		{"no rule set", fluxgate.Request{RuleSet: "unknown"}, 9, answer{true, fluxgate.ReasonNoRuleSet, ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := g.admitted(min(9, c.pass+2), c.req); got != c.pass {
				t.Errorf("%d pass, want %d", got, c.pass)
			}
			if d := g.check(c.req); answerOf(&d) != c.want {
				t.Errorf("one more: %+v, want %+v", answerOf(&d), c.want)
			}
		})
	}
}

// Costs and peeks are decided as by an engine.
func TestClient_CostsAndPeeks(t *testing.T) {
	g := onRedis(t, []rules.Rule{perHour("r", 10)})
	if d := g.check(fluxgate.Request{Cost: 7}); !d.Allowed || d.Remaining != 3 {
		t.Errorf("7 of 10: %+v", d)
	}
	if d := g.check(fluxgate.Request{Cost: 4}); d.Allowed || d.Remaining != 3 || d.RetryAfter <= 0 {
		t.Errorf("4 of 3: %+v", d)
	}
	if d := g.check(fluxgate.Request{Cost: 11}); answerOf(&d) != (answer{false, fluxgate.ReasonCostTooHigh, "r"}) || d.RetryAfter != 0 {
		t.Errorf("11 of 10: %+v", d)
	}
	for range 3 {
		d := g.check(fluxgate.Request{Cost: 3, Peek: true})
		if !d.Allowed || d.Remaining != 3 || d.Receipt() != nil {
			t.Errorf("peeking: %+v", d)
		}
		if d := g.check(fluxgate.Request{Cost: 4, Peek: true}); d.Allowed {
			t.Error("4 of 3 would pass")
		}
	}
	if d := g.check(fluxgate.Request{Cost: 3}); !d.Allowed || d.Remaining != 0 {
		t.Errorf("3 of 3: %+v", d)
	}
}

// Settling returns or charges the difference.
func TestClient_Settle(t *testing.T) {
	for _, c := range []struct {
		name         string
		cost, actual int64
		want         store.Settlement
		left         int64
	}{
		{"less", 10, 3, store.Settlement{Returned: 7}, 97},
		{"more", 10, 15, store.Settlement{Charged: 5}, 85},
		{"nothing", 10, 0, store.Settlement{Returned: 10}, 100},
		{"the same", 10, 10, store.Settlement{}, 90},
	} {
		t.Run(c.name, func(t *testing.T) {
			// A day's worth, so that what comes back while we wait is nothing.
			g := onRedis(t, []rules.Rule{{ID: "r", Bands: []rules.Band{{Label: "year", Capacity: 100, Refill: 365 * 24 * time.Hour}}}})
			d := g.check(fluxgate.Request{Cost: c.cost})
			if d.Receipt() == nil || d.Receipt().Token == "" {
				t.Fatal("there is no receipt")
			}
			s, err := g.Settle(t.Context(), d.Receipt(), -1)
			if !errors.Is(err, fluxgate.ErrCost) {
				t.Errorf("a negative cost: %+v, %v", s, err)
			}
			s, err = g.Settle(t.Context(), d.Receipt(), c.actual)
			// A microsecond's refill may be missing from what comes back.
			if err != nil || s.Charged != c.want.Charged || s.Returned > c.want.Returned || s.Returned < c.want.Returned-1 {
				t.Errorf("settled %+v, %v; want %+v", s, err, c.want)
			}
			if got := g.left(fluxgate.Request{})["r.year"]; got > c.left || got < c.left-1 {
				t.Errorf("%d left, want %d", got, c.left)
			}
			before := g.left(fluxgate.Request{})["r.year"]
			if _, err = g.Settle(t.Context(), d.Receipt(), 0); !errors.Is(err, fluxgate.ErrSettled) {
				t.Errorf("settled again: %v", err)
			}
			copied := &fluxgate.Receipt{Token: d.Receipt().Token}
			server := newClient(t, g.server.URL, client.Config{Failed: func(context.Context, error) {}})
			if _, err = server.Settle(t.Context(), copied, 0); !errors.Is(err, fluxgate.ErrSettled) {
				t.Errorf("a copy settled again: %v", err)
			}
			if got := g.left(fluxgate.Request{})["r.year"]; got != before {
				t.Errorf("%d left after refusals, want %d", got, before)
			}
		})
	}
	g := onRedis(t, []rules.Rule{perHour("r", 1)})
	if s, err := g.Settle(t.Context(), nil, 5); err != nil || s != (store.Settlement{}) {
		t.Errorf("nothing to settle: %+v, %v", s, err)
	}
	if _, err := g.Settle(t.Context(), new(fluxgate.Receipt), 5); !errors.Is(err, fluxgate.ErrReceipt) {
		t.Errorf("a receipt of an engine was settled by a server: %v", err)
	}
}

// The receipt of a client's decision is settled by the client: an engine that
// it is handed to by mistake says so, and does not use it up.
func TestSettle_ClientReceiptAtAnEngine(t *testing.T) {
	list := []rules.Rule{perHour("r", 100)}
	g := onRedis(t, list)
	engine := engineOver(t, newStore(t), list)
	d := g.check(fluxgate.Request{Cost: 10})
	if s, err := engine.Settle(t.Context(), d.Receipt(), 0); !errors.Is(err, fluxgate.ErrReceipt) {
		t.Errorf("the engine settled %+v, %v; want ErrReceipt", s, err)
	}
	if s, err := g.Settle(t.Context(), d.Receipt(), 20); err != nil || s.Charged != 10 {
		t.Errorf("the client settled %+v, %v; want 10 charged", s, err)
	}
}

// queue is a rule that holds requests.
func queue(every time.Duration) rules.Rule {
	return rules.Rule{ID: "queue", OnLimitExceed: rules.WaitForRefill, Bands: []rules.Band{{Label: "one", Capacity: 1, Refill: every}}}
}

// A request is held until its tokens are available.
func TestClient_Wait(t *testing.T) {
	const every = 100 * time.Millisecond
	g := onRedis(t, []rules.Rule{queue(every)}, fluxgate.WithWaiting(20*time.Second, 100))
	start := time.Now()
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			if d, err := g.Check(t.Context(), &fluxgate.Request{}); err != nil || !d.Allowed {
				t.Errorf("%+v, %v", answerOf(&d), err)
			}
		})
	}
	all.Wait()
	if took := time.Since(start); took < 5*every-every/2 {
		t.Errorf("6 requests passed in %v, want 500ms", took)
	}
}

// A request that is canceled while the server holds it frees its wait slot.
func TestClient_WaitCanceled(t *testing.T) {
	const every = 5 * time.Minute
	g := onRedis(t, []rules.Rule{queue(every)}, fluxgate.WithWaiting(store.MaxWait, 100))
	patient := newClient(t, g.server.URL, client.Config{MaxWait: store.MaxWait})
	fullAfter := func() time.Duration {
		d := g.check(fluxgate.Request{Peek: true})
		for b := range d.Bands() {
			return b.FullAfter
		}
		return 0
	}
	if d := g.check(fluxgate.Request{}); !d.Allowed {
		t.Fatal("the first is held")
	}
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := patient.Check(ctx, &fluxgate.Request{})
		left <- err
	}()
	testenv.Eventually(t, "its token is booked", func() bool { return fullAfter() > every })
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the caller that left: %v", err)
	}
	testenv.Eventually(t, "its token is given back", func() bool { return fullAfter() <= every })
}

// A request that the server would hold for longer than the client waits is
// rejected. It must not time out: the client would count that as a failure and
// allow the request.
func TestClient_WaitTooLong(t *testing.T) {
	const every = 5 * time.Minute
	g := onRedis(t, []rules.Rule{queue(every)}, fluxgate.WithWaiting(store.MaxWait, 100))
	if d := g.check(fluxgate.Request{}); !d.Allowed {
		t.Fatal("the first is held")
	}
	inSoLong, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	for name, c := range map[string]struct {
		ctx    context.Context
		config client.Config
	}{
		"a client that does not wait":        {t.Context(), client.Config{}},
		"a client that waits a little":       {t.Context(), client.Config{MaxWait: time.Minute}},
		"a caller whose own time ends first": {inSoLong, client.Config{MaxWait: store.MaxWait}},
	} {
		d, err := newClient(t, g.server.URL, c.config).Check(c.ctx, &fluxgate.Request{})
		if err != nil || answerOf(&d) != (answer{false, fluxgate.ReasonLimited, "queue"}) || d.RetryAfter < every-time.Minute || d.Degraded {
			t.Errorf("%s: %+v, retry after %v, %v", name, answerOf(&d), d.RetryAfter, err)
		}
	}
	if d := g.check(fluxgate.Request{Peek: true}); d.ResetAfter > every {
		t.Errorf("full after %v: a rejected request has booked", d.ResetAfter)
	}
}

// While the server's Redis is unavailable, the server's decision under its rules
// reaches the client and is not a failure of the client.
func TestClient_StoreUnavailable(t *testing.T) {
	redis := testenv.SharedStandalone(t)
	proxy := testenv.StartProxy(t, redis.Addr())
	on := func(id string, mode rules.OnFailure) rules.Rule {
		return with(perHour(id, 20), func(r *rules.Rule) { r.OnFailure, r.Paths = mode, []string{"/" + id} })
	}
	g := newGate(t, newRedis(t, "redis://"+proxy.Addr(), time.Second),
		[]rules.Rule{on("local", rules.FailLocal), on("open", rules.FailOpen), on("closed", rules.FailClosed)},
		fluxgate.WithFallback(newStore(t)), fluxgate.WithFallbackShare(0.15))
	for _, path := range []string{"/local", "/open", "/closed"} {
		if d := g.check(fluxgate.Request{Path: path}); !d.Allowed || d.Degraded || d.Remaining != 19 {
			t.Errorf("%s while it is there: %+v", path, d)
		}
	}
	proxy.Refuse()
	proxy.Cut()
	for path, want := range map[string]answer{
		"/local":  {true, fluxgate.ReasonOK, "local"},
		"/open":   {true, fluxgate.ReasonStoreFailure, ""},
		"/closed": {false, fluxgate.ReasonStoreFailure, "closed"},
	} {
		if d := g.check(fluxgate.Request{Path: path}); answerOf(&d) != want || !d.Degraded {
			t.Errorf("%s: %+v, degraded %t; want %+v", path, answerOf(&d), d.Degraded, want)
		}
	}
	// Of its 3 a twentieth was used in Redis.
	d := g.check(fluxgate.Request{Path: "/local"})
	if got := bands(&d); !slices.Equal(got, []string{"local.hour ok 0 of 3 from fallback"}) || d.Source != store.FromFallback {
		t.Errorf("the fallback's bands: %q from %v", got, d.Source)
	}
	if d := g.check(fluxgate.Request{Path: "/local"}); answerOf(&d) != (answer{false, fluxgate.ReasonLimited, "local"}) {
		t.Errorf("the fallback is empty: %+v", answerOf(&d))
	}
}

// The fallback decides and settles while the server is unavailable.
func TestClient_Fallback(t *testing.T) {
	fallback := engineOver(t, newStore(t), []rules.Rule{perHour("r", 5)})
	var heard failures
	limiter := newClient(t, unusedURL(t), client.Config{Fallback: fallback, Failed: heard.hear})
	d, err := limiter.Check(t.Context(), &fluxgate.Request{Cost: 4})
	if err != nil || answerOf(&d) != (answer{true, fluxgate.ReasonOK, "r"}) || !d.Degraded || d.Source != store.FromFallback {
		t.Fatalf("%+v, %v", d, err)
	}
	if got := bands(&d); !slices.Equal(got, []string{"r.hour ok 1 of 5 from fallback"}) {
		t.Errorf("bands %q", got)
	}
	if s, err := limiter.Settle(t.Context(), d.Receipt(), 1); err != nil || s.Returned != 3 {
		t.Errorf("settled %+v, %v", s, err)
	}
	if _, err := limiter.Settle(t.Context(), d.Receipt(), 0); !errors.Is(err, fluxgate.ErrSettled) {
		t.Errorf("settled again: %v", err)
	}
	if got := left(t, fluxgate.Limiter(fallback), fluxgate.Request{})["r.hour"]; got != 4 {
		t.Errorf("%d left, want 4", got)
	}
	d, err = limiter.Check(t.Context(), &fluxgate.Request{Cost: 5})
	if err != nil || answerOf(&d) != (answer{false, fluxgate.ReasonLimited, "r"}) || !d.Degraded {
		t.Errorf("5 of 4: %+v, %v", answerOf(&d), err)
	}
}
