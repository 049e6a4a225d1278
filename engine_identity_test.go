package fluxgate_test

import (
	"net/netip"
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// One caller has one bucket, however its identity is spelled.
func TestKey_SpellingsOfOneCaller(t *testing.T) {
	ip := func(s string) fluxgate.Request { return fluxgate.Request{IP: netip.MustParseAddr(s)} }
	path := func(s string) fluxgate.Request { return fluxgate.Request{IP: here, Path: s} }
	header := func(values ...string) fluxgate.Request {
		return fluxgate.Request{Headers: map[string][]string{"X-Tenant": values}}
	}
	byIP := rules.Rule{Scope: rules.ScopeIP}
	byPath := rules.Rule{Scope: rules.ScopeComposite, KeyFields: []string{"ip", "path"}}
	byTenant := rules.Rule{Scope: rules.ScopeComposite, KeyFields: []string{"header:x-tenant"}}
	byUser := rules.Rule{Scope: rules.ScopeUser}
	pair := rules.Rule{Scope: rules.ScopeComposite, KeyFields: []string{"userId", "attr:region"}}
	for _, c := range []struct {
		name        string
		rule        rules.Rule
		one, second fluxgate.Request
		same        bool
	}{
		{"an IPv4 address mapped into IPv6 is the same", byIP, ip("192.0.2.1"), ip("::ffff:192.0.2.1"), true},
		{"an IPv6 address with its zeros written out is the same", byIP, ip("2001:db8::1"), ip("2001:0db8:0:0:0:0:0:1"), true},
		{"another address of the same IPv6 network is the same", byIP, ip("2001:db8::1"), ip("2001:db8::abcd:1"), true},
		{"another IPv6 network is another", byIP, ip("2001:db8:0:1::1"), ip("2001:db8:0:2::1"), false},
		{"another IPv4 address is another", byIP, ip("192.0.2.1"), ip("192.0.2.2"), false},
		{"a path with doubled slashes is the same", byPath, path("/a/b"), path("/a//b"), true},
		{"a path with dots is the same", byPath, path("/a/b"), path("/a/./c/../b"), true},
		{"a percent-encoded path is the same", byPath, path("/a/b"), path("/%61/%62"), true},
		{"a path that differs by letter case is another", byPath, path("/a/b"), path("/a/B"), false},
		{"an encoded slash is a slash", byPath, path("/a/b"), path("/a%2Fb"), true},
		{"what is encoded twice is decoded once", byPath, path("/a/b"), path("/a%252Fb"), false},
		{"a header sent twice is not the two joined", byTenant, header("a", "b"), header("a,b"), false},
		{"a user called like an address is not that address", byUser, ip("192.0.2.1"), fluxgate.Request{UserID: "192.0.2.1"}, false},
		{
			"parts of a composite key do not run together", pair,
			fluxgate.Request{UserID: "ab", Attributes: map[string]string{"region": "c"}},
			fluxgate.Request{UserID: "a", Attributes: map[string]string{"region": "bc"}}, false,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.rule.ID, c.rule.Bands = "r", []rules.Band{perHour("", 1)}
			g := newGate(t, []rules.Rule{c.rule})
			if !g.check(c.one).Allowed {
				t.Fatal("the first request is rejected")
			}
			if shared := !g.check(c.second).Allowed; shared != c.same {
				t.Errorf("they share a bucket: %t, want %t", shared, c.same)
			}
		})
	}
}

func TestKey_RulesDoNotShareBuckets(t *testing.T) {
	onlyGET := func(r *rules.Rule) { r.Methods = []string{"GET"} }
	onlyPUT := func(r *rules.Rule) { r.Methods = []string{"PUT"} }
	g := newGate(t, []rules.Rule{with(rule("reads", 0, 1), onlyGET), with(rule("writes", 0, 1), onlyPUT)})
	for _, method := range []string{"GET", "PUT"} {
		if !g.check(fluxgate.Request{Method: method}).Allowed {
			t.Errorf("%s is rejected by another rule's bucket", method)
		}
	}
}

// Addresses with the same prefix share a bucket.
func TestWithIPv6Prefix_Bits(t *testing.T) {
	for _, c := range []struct {
		name      string
		options   []fluxgate.Option
		neighbour string
		same      bool
	}{
		{"the network of a customer by default", nil, "2001:db8::ffff", true},
		{"all of it where that is said", []fluxgate.Option{fluxgate.WithIPv6Prefix(128)}, "2001:db8::ffff", false},
		{"a larger network where that is said", []fluxgate.Option{fluxgate.WithIPv6Prefix(48)}, "2001:db8:0:ffff::1", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGate(t, []rules.Rule{with(rule("r", 0, 1), func(r *rules.Rule) { r.Scope = rules.ScopeIP })}, c.options...)
			g.check(fluxgate.Request{IP: netip.MustParseAddr("2001:db8::1")})
			if shared := !g.check(fluxgate.Request{IP: netip.MustParseAddr(c.neighbour)}).Allowed; shared != c.same {
				t.Errorf("neighbours share a bucket: %t, want %t", shared, c.same)
			}
		})
	}
}

// Each mode treats a request without the identity as documented.
func TestMissingIdentity_Modes(t *testing.T) {
	nobodyHere, nobodyThere := fluxgate.Request{IP: here}, fluxgate.Request{IP: there}
	ann := fluxgate.Request{IP: here, APIKey: "ann's key"}
	newOne := func(t *testing.T, missing rules.OnMissingIdentity) *gate {
		t.Helper()
		return newGate(t, []rules.Rule{with(rule("r", 0, 1), func(r *rules.Rule) {
			r.Scope, r.OnMissingIdentity = rules.ScopeAPIKey, missing
		}), rule("other", 9, 100)})
	}
	for _, missing := range []rules.OnMissingIdentity{"", rules.MissingIP} {
		t.Run("is counted by its address where onMissingIdentity is "+string(missing), func(t *testing.T) {
			g := newOne(t, missing)
			if !g.check(nobodyHere).Allowed || g.check(nobodyHere).Allowed {
				t.Error("two requests from one address have not one bucket")
			}
			if !g.check(nobodyThere).Allowed || !g.check(ann).Allowed {
				t.Error("another address, or a caller with a name, shares that bucket")
			}
		})
	}
	t.Run("is counted with all others like it where they are anonymous", func(t *testing.T) {
		g := newOne(t, rules.MissingAnonymous)
		if !g.check(nobodyHere).Allowed || g.check(nobodyThere).Allowed {
			t.Error("two addresses have not one bucket")
		}
		if !g.check(ann).Allowed {
			t.Error("a caller with a name shares that bucket")
		}
	})
	t.Run("is refused, and takes nothing, where that is said", func(t *testing.T) {
		g := newOne(t, rules.MissingRefuse)
		d := g.check(nobodyHere)
		if answerOf(&d) != (answer{false, fluxgate.ReasonMissingIdentity, "r"}) || d.RetryAfter != 0 {
			t.Errorf("decided %+v, retry after %v", answerOf(&d), d.RetryAfter)
		}
		if !g.check(ann).Allowed {
			t.Error("a caller with a name is rejected")
		}
		if got := g.left(ann)["other.hour"]; got != 99 {
			t.Errorf("the other rule has %d left after one request passed, want 99", got)
		}
	})
}
