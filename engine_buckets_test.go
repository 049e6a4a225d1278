package fluxgate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// buckets are what a caller has left, as "rule.band remaining of limit".
func buckets(t testing.TB, engine *fluxgate.Engine, req fluxgate.Request, rules ...string) []string {
	t.Helper()
	found, err := engine.Buckets(t.Context(), &req, rules...)
	if err != nil {
		t.Fatalf("no buckets for %+v: %v", req, err)
	}
	var all []string
	for _, b := range found {
		if len(b.Bands) == 0 {
			all = append(all, b.Rule.ID+" "+b.Status.String())
		}
		for _, band := range b.Bands {
			all = append(all, fmt.Sprintf("%s.%s %d of %d", b.Rule.ID, band.Band.Name(), band.Remaining, band.Limit))
		}
	}
	return all
}

// Buckets reports what a caller has left under the rules that apply or are
// named.
func TestBuckets_Remaining(t *testing.T) {
	perUser := func(id string, priority int, n int64, paths ...string) rules.Rule {
		return with(rule(id, priority, n), func(r *rules.Rule) { r.Scope, r.Paths = rules.ScopeUser, paths })
	}
	refuses := with(perUser("strict", 3, 7), func(r *rules.Rule) {
		r.Scope, r.KeyFields = rules.ScopeComposite, []string{"userId", "attr:region"}
		r.OnMissingIdentity = rules.MissingRefuse
	})
	g := newGate(t, []rules.Rule{
		perUser("export", 9, 5, "/export"), perUser("api", 5, 10),
		with(rule("measured", 4, 2), func(r *rules.Rule) { r.Mode = rules.ModeShadow }), refuses,
		with(rule("off", 2, 1), func(r *rules.Rule) { r.Disabled = true }),
		{ID: "exempt", Priority: 1, Action: rules.ActionAllow}, rule("after", 0, 4),
	})
	eu := map[string]string{"region": "eu"}
	ann := fluxgate.Request{UserID: "ann", Attributes: eu}
	g.check(fluxgate.Request{UserID: "ann", Attributes: eu, Cost: 2})
	for _, c := range []struct {
		name  string
		req   fluxgate.Request
		rules []string
		want  []string
	}{
		{"under the rules that apply", ann, nil, []string{"api.hour 8 of 10", "measured.hour 0 of 2", "strict.hour 5 of 7"}},
		{"under the rules that apply and do not refuse the request", fluxgate.Request{UserID: "ann"}, nil,
			[]string{"api.hour 8 of 10", "measured.hour 0 of 2"}},
		{"under rules that do not match and that are not reached", ann, []string{"after", "export", "api"},
			[]string{"after.hour 4 of 4", "export.hour 5 of 5", "api.hour 8 of 10"}},
		{"under a rule that is named twice", ann, []string{"api", "api"}, []string{"api.hour 8 of 10"}},
		{"as another caller", fluxgate.Request{UserID: "bob", Attributes: eu}, []string{"api", "strict"}, []string{"api.hour 10 of 10", "strict.hour 7 of 7"}},
		{"whatever the request costs", fluxgate.Request{UserID: "ann", Cost: 1_000}, []string{"api"}, []string{"api.hour 8 of 10"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range 2 {
				if got := buckets(t, g.Engine, c.req, c.rules...); !slices.Equal(got, c.want) {
					t.Errorf("got %q, want %q", got, c.want)
				}
			}
		})
	}

	for _, c := range []struct {
		name  string
		rules []string
		want  error
		says  string
	}{
		{"an unknown rule", []string{"api", "none"}, fluxgate.ErrNoRule, `there is no such rule: "none" in rule set "api"`},
		{"a disabled rule", []string{"off"}, fluxgate.ErrNoBucket, `there is no bucket: rule "off" is disabled`},
		{"a rule that does not limit", []string{"exempt"}, fluxgate.ErrNoBucket, `rule "exempt" does not limit: its action is allow`},
		{"a rule that refuses the request", []string{"strict"}, fluxgate.ErrNoBucket, `rule "strict" rejects a request without userId, attr:region`},
	} {
		t.Run("but not under "+c.name, func(t *testing.T) {
			found, err := g.Buckets(t.Context(), &fluxgate.Request{IP: here}, c.rules...)
			if !errors.Is(err, c.want) || found != nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%d buckets, %v; want %q", len(found), err, c.says)
			}
		})
	}
}

// A bucket reports its status, debt and time to full.
func TestBuckets_State(t *testing.T) {
	g := newGate(t, []rules.Rule{{ID: "r", Bands: []rules.Band{perHour("a", 10), perHour("b", 20)}}})
	d := g.check(fluxgate.Request{Cost: 4})
	found, err := g.Buckets(t.Context(), &fluxgate.Request{})
	if err != nil || len(found) != 1 || len(found[0].Bands) != 2 {
		t.Fatalf("%+v, %v", found, err)
	}
	b := found[0]
	if b.Key != d.Receipt().Takes[0].Key || b.Status != store.OK || b.Source != store.FromStore || !b.Time.Equal(g.clock.Now()) {
		t.Errorf("bucket %+v, taken from %+v at %v", b, d.Receipt().Takes[0], g.clock.Now())
	}
	if got := b.Bands[1]; got.Rule != b.Rule || got.Band.Label != "b" || got.FullAfter != 12*time.Minute || got.Remaining != 16 {
		t.Errorf("band %+v", got)
	}
	if _, err := g.Settle(t.Context(), d.Receipt(), 15); err != nil { // five more than a holds
		t.Fatal(err)
	}
	if found, err = g.Buckets(t.Context(), &fluxgate.Request{}); err != nil || found[0].Status != store.Rejected || found[0].Bands[0].Remaining != 0 {
		t.Errorf("in debt: %+v, %v", found, err)
	}
}

// Buckets reads the store only, never the fallback.
func TestBuckets_NoFallback(t *testing.T) {
	f := newFailing(t, 0.5, []rules.Rule{rule("far", 1, 10), rule("near", 0, 10)})
	f.away("far")
	if got, want := buckets(t, f.Engine, fluxgate.Request{}), []string{"far unavailable", "near.hour 10 of 10"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	f.store.setFails(errAway)
	if found, err := f.Buckets(t.Context(), &fluxgate.Request{}); !errors.Is(err, errAway) || found != nil {
		t.Errorf("%d buckets, %v", len(found), err)
	}
}

func TestBuckets_TooMany(t *testing.T) {
	var list []rules.Rule
	var names []string
	for i := range store.MaxMatches + 1 {
		names = append(names, fmt.Sprint("r", i))
		list = append(list, with(rule(names[i], 0, 1), func(r *rules.Rule) { r.Paths = []string{"/nowhere"} }))
	}
	g := newGate(t, list)
	if _, err := g.Buckets(t.Context(), &fluxgate.Request{}, names...); !errors.Is(err, store.ErrDemand) {
		t.Errorf("%d at once: %v", len(names), err)
	}
	if got := buckets(t, g.Engine, fluxgate.Request{}, names[:store.MaxMatches]...); len(got) != store.MaxMatches {
		t.Errorf("%d buckets of %d", len(got), store.MaxMatches)
	}
	if got := buckets(t, g.Engine, fluxgate.Request{}); got != nil {
		t.Errorf("%q where no rule applies", got)
	}
}

// A reset fills the buckets of the store and of the fallback.
func TestReset_StoreAndFallback(t *testing.T) {
	ann, bob := fluxgate.Request{UserID: "ann"}, fluxgate.Request{UserID: "bob"}
	perUser := func(id string, n int64) rules.Rule {
		return with(rule(id, 0, n), func(r *rules.Rule) { r.Scope = rules.ScopeUser })
	}
	for _, c := range []struct {
		name string
		what func(ann store.Key) store.Key
		want map[string]bool // whose tokens are back
	}{
		{"of one caller", func(k store.Key) store.Key { return k }, map[string]bool{"ann r": true}},
		{"of a rule", func(k store.Key) store.Key { return store.Key{RuleSet: k.RuleSet, Rule: k.Rule} },
			map[string]bool{"ann r": true, "bob r": true}},
		{"of a rule set", func(k store.Key) store.Key { return store.Key{RuleSet: k.RuleSet} },
			map[string]bool{"ann r": true, "bob r": true, "ann s": true, "bob s": true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFailing(t, 1, []rules.Rule{perUser("r", 10), perUser("s", 10)})
			for _, fails := range []error{nil, errAway} { // store, then fallback
				f.store.setFails(fails)
				f.check(fluxgate.Request{UserID: "ann", Cost: 4})
				f.check(fluxgate.Request{UserID: "bob", Cost: 4})
			}
			f.store.setFails(nil)
			found, err := f.Buckets(t.Context(), &ann, "r")
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Reset(t.Context(), c.what(found[0].Key)); err != nil {
				t.Fatal(err)
			}
			for _, fails := range []error{nil, errAway} {
				f.store.setFails(fails)
				for _, req := range []fluxgate.Request{ann, bob} {
					left := f.left(req)
					for _, id := range []string{"r", "s"} {
						want := int64(6)
						if c.want[req.UserID+" "+id] {
							want = 10
						}
						if got := left[id+".hour"]; got != want {
							t.Errorf("store away %t: %s has %d left under %s, want %d", fails != nil, req.UserID, got, id, want)
						}
					}
				}
			}
		})
	}
}

func TestReset_Errors(t *testing.T) {
	f := newFailing(t, 1, []rules.Rule{rule("r", 0, 10)})
	for _, key := range []store.Key{{}, {Rule: "r"}, {RuleSet: "api", ID: store.KeyID{1}}} {
		if err := f.Reset(t.Context(), key); err == nil {
			t.Errorf("%+v was reset", key)
		}
	}
	f.store.setFails(errAway)
	f.check(fluxgate.Request{Cost: 4})
	engine := newEngine(t, brokenReset{f.store}, ruleSet(t, rule("r", 0, 10)), fluxgate.WithFallback(f.fallback), fluxgate.WithFallbackShare(1))
	if err := engine.Reset(t.Context(), store.Key{RuleSet: "api"}); !errors.Is(err, errAway) || !strings.Contains(err.Error(), "in the store") {
		t.Errorf("the error is %v", err)
	}
	if got := f.left(fluxgate.Request{})["r.hour"]; got != 10 {
		t.Errorf("%d left in the fallback, want 10: it can be reset though the store cannot", got)
	}
	engine = newEngine(t, f.fallback, ruleSet(t, rule("r", 0, 10)), fluxgate.WithFallback(brokenReset{f.store}), fluxgate.WithFallbackShare(1))
	if err := engine.Reset(t.Context(), store.Key{RuleSet: "api"}); !errors.Is(err, errAway) || !strings.Contains(err.Error(), "in the fallback") {
		t.Errorf("the error is %v", err)
	}
}

// brokenReset is a store that cannot reset.
type brokenReset struct{ *faulty }

func (brokenReset) Reset(context.Context, store.Reset) (bool, error) { return false, errAway }
