package fluxgate_test

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// identities is an observer that notes who was evaluated under which rule.
type identities struct {
	fluxgate.Observer
	engine *fluxgate.Engine
	length int
	seen   []string
	keys   []store.Key
}

func (o *identities) Decided(_ context.Context, req *fluxgate.Request, d *fluxgate.Decision, _ error) {
	for r := range d.Evaluated(req) {
		space := make([]byte, o.length)
		o.seen = append(o.seen, r.Rule.ID+": "+string(space[:o.engine.WriteIdentity(space, &r)]))
		o.keys = append(o.keys, r.Key)
	}
}

// observed returns an engine whose observer notes identities.
func observed(t testing.TB, length int, list []rules.Rule, options ...fluxgate.Option) (*fluxgate.Engine, *identities) {
	t.Helper()
	o := &identities{length: length}
	g := newGate(t, list, append(options, fluxgate.WithObserver(o))...)
	o.engine = g.Engine
	return g.Engine, o
}

// The identity of a caller is written in plain words, without credentials.
func TestWriteIdentity(t *testing.T) {
	full := fluxgate.Request{
		IP: netip.MustParseAddr("2001:db8:1:2:3::4"), UserID: "alice", APIKey: "sk-hidden", Method: "GET", Path: "/a/b?token=hidden",
		Headers:    map[string][]string{"Authorization": {"Bearer hidden"}, "X-Tenant": {"acme"}, "X-Api-Key": {"sk-hidden"}, "Cookie": {"hidden"}},
		Attributes: map[string]string{"plan": "gold", "session_id": "hidden"},
		Descriptor: []fluxgate.DescriptorEntry{{Key: "route", Value: "r1"}, {Key: "API_KEY", Value: "hidden"}},
	}
	composite := func(fields ...string) rules.Rule {
		return rules.Rule{Scope: rules.ScopeComposite, KeyFields: fields}
	}
	for _, c := range []struct {
		rule rules.Rule
		req  fluxgate.Request
		want string
	}{
		{rules.Rule{Scope: rules.ScopeGlobal}, full, "everyone"},
		{rules.Rule{Scope: rules.ScopeIP}, full, "ip 2001:db8:1:2::/64"},
		{rules.Rule{Scope: rules.ScopeIP}, fluxgate.Request{IP: netip.MustParseAddr("::ffff:192.0.2.1")}, "ip 192.0.2.1"},
		{rules.Rule{Scope: rules.ScopeUser}, full, "user alice"},
		{rules.Rule{Scope: rules.ScopeUser}, fluxgate.Request{IP: here}, "ip " + here.String()},
		{rules.Rule{Scope: rules.ScopeUser, OnMissingIdentity: rules.MissingAnonymous}, fluxgate.Request{IP: here}, "anonymous"},
		{rules.Rule{Scope: rules.ScopeAPIKey}, full, ""},
		{rules.Rule{Scope: rules.ScopeAPIKey}, fluxgate.Request{IP: here}, "ip " + here.String()},
		{composite("apiKey", "userId", "method", "path"), full, "user alice, method GET, path /a/b"},
		{composite("header:authorization", "header:x-tenant", "header:cookie", "header:x-api-key"), full, "X-Tenant acme"},
		{composite("attr:plan", "attr:session_id", "attr:none"), full, "plan gold, ip 2001:db8:1:2::/64"},
		{composite("descriptor"), full, "route r1"},
		{composite("descriptor:route", "descriptor:API_KEY"), full, "route r1"},
		{rules.Rule{Scope: rules.ScopeUser}, fluxgate.Request{IP: here, UserID: "bearer hidden"}, ""},
		{rules.Rule{Scope: rules.ScopeUser}, fluxgate.Request{UserID: "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.hidden"}, ""},
		{rules.Rule{Scope: rules.ScopeUser}, fluxgate.Request{UserID: "bob, ip 192.0.2.1"}, `user "bob, ip 192.0.2.1"`},
		{rules.Rule{Scope: rules.ScopeUser}, fluxgate.Request{UserID: `"bob`}, `user ""bob"`},
		{rules.Rule{Scope: rules.ScopeUser}, fluxgate.Request{UserID: "basically.eyJ.a"}, "user basically.eyJ.a"},
		{composite("attr:plan", "header:x-client"), fluxgate.Request{Attributes: full.Attributes, Headers: map[string][]string{"X-Client": {"Basic aGlkZGVu"}}}, "plan gold"},
		{composite("descriptor"), fluxgate.Request{Descriptor: []fluxgate.DescriptorEntry{{Key: "client", Value: "Bearer hidden"}, {Key: "route", Value: "r1"}}}, "route r1"},
		{rules.Rule{Scope: rules.ScopeUser}, fluxgate.Request{UserID: "a\x1b[2J\u202eb\xff"}, "user a\ufffd[2J\ufffdb\ufffd"},
	} {
		c.rule.ID, c.rule.Bands = "r", []rules.Band{rules.PerMinute(5)}
		engine, seen := observed(t, 64, []rules.Rule{c.rule})
		if _, err := engine.Check(t.Context(), &c.req); err != nil {
			t.Fatal(err)
		}
		if want := []string{"r: " + c.want}; !slices.Equal(seen.seen, want) {
			t.Errorf("%s %v: %q, want %q", c.rule.Scope, c.rule.KeyFields, seen.seen, want)
		}
	}
}

// A name that a function gives may be a secret.
func TestWriteIdentity_Resolved(t *testing.T) {
	engine, seen := observed(t, 64, []rules.Rule{rule("r", 0, 5)}, fluxgate.WithIdentity(func(*rules.Rule, *fluxgate.Request) string { return "hidden" }))
	if _, err := engine.Check(t.Context(), &fluxgate.Request{UserID: "alice"}); err != nil || !slices.Equal(seen.seen, []string{"r: "}) {
		t.Errorf("%q, %v", seen.seen, err)
	}
}

// What does not fit is cut between characters.
func TestWriteIdentity_Cut(t *testing.T) {
	r := rules.Rule{ID: "r", Scope: rules.ScopeUser, Bands: []rules.Band{rules.PerMinute(5)}}
	for length := range 20 {
		engine, seen := observed(t, length, []rules.Rule{r})
		if _, err := engine.Check(t.Context(), &fluxgate.Request{UserID: strings.Repeat("é", 20)}); err != nil {
			t.Fatal(err)
		}
		got := strings.TrimPrefix(seen.seen[0], "r: ")
		if !utf8.ValidString(got) || len(got) > length || length >= 3 && !strings.HasSuffix(got, "…") {
			t.Errorf("%d bytes have %q", length, got)
		}
	}
}

// Requests that are decided together have an identity each, whatever their order.
func TestEvaluated_Together(t *testing.T) {
	byUser := rules.Rule{
		ID: "user", Scope: rules.ScopeComposite, KeyFields: []string{"descriptor:user"}, Bands: []rules.Band{rules.PerMinute(5)},
		When: rules.When{Descriptor: []rules.DescriptorMatch{{Key: "user"}}},
	}
	engine, seen := observed(t, 64, []rules.Rule{byUser})
	reqs := []fluxgate.Request{
		{Descriptor: []fluxgate.DescriptorEntry{{Key: "user", Value: "a"}}},
		{Descriptor: []fluxgate.DescriptorEntry{{Key: "user", Value: "b"}}},
		{Descriptor: []fluxgate.DescriptorEntry{{Key: "user", Value: "a"}}},
	}
	if _, _, err := engine.CheckAll(t.Context(), reqs); err != nil {
		t.Fatal(err)
	}
	if want := []string{"user: user a", "user: user b"}; !slices.Equal(seen.seen, want) {
		t.Errorf("%q, want %q", seen.seen, want)
	}
	for i := range 2 {
		together := seen.keys[i]
		if _, err := engine.Check(t.Context(), &reqs[i]); err != nil || seen.keys[2+i] != together {
			t.Errorf("the key is %v together and %v alone, %v", together, seen.keys[2+i], err)
		}
	}
}

// The identity costs no allocation.
func TestWriteIdentity_Allocations(t *testing.T) {
	list := []rules.Rule{{ID: "r", Scope: rules.ScopeComposite, KeyFields: []string{"ip", "userId", "path"}, Bands: []rules.Band{rules.PerMinute(5)}}}
	g := newGate(t, list)
	req := &fluxgate.Request{IP: here, UserID: strings.Repeat("x", 100), Path: "/a/b/../c"}
	d, err := g.Check(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	var space [64]byte
	n := 0
	if got := testing.AllocsPerRun(100, func() {
		for r := range d.Evaluated(req) {
			n += g.WriteIdentity(space[:], &r)
		}
	}); got != 0 || n == 0 {
		t.Errorf("%v allocations, %d bytes", got, n)
	}
}
