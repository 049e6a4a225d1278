package fluxgate_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate"
)

// words are verdicts as "rule", if it applies, or "rule: why detail".
func words(verdicts []fluxgate.Verdict) []string {
	var all []string
	for _, v := range verdicts {
		said := v.Rule.ID
		if v.Why != "" {
			said += ": " + strings.TrimSpace(string(v.Why)+" "+v.Detail)
		}
		if v.Applies != (v.Why == "") {
			said += fmt.Sprintf(", but applies: %t", v.Applies)
		}
		all = append(all, said)
	}
	return all
}

// A request that meets every condition of a rule is changed in one respect at a
// time. The verdict names the condition that is no longer met.
func TestVerdict_Conditions(t *testing.T) {
	narrow := with(rule("narrow", 9, 10), func(r *fluxgate.Rule) {
		r.Paths, r.Methods = []string{"/api/**"}, []string{"GET"}
		r.When = fluxgate.When{
			Hosts: []string{"api.example.com"}, ExcludePaths: []string{"/api/health"},
			Headers: map[string][]string{"x-plan": {"gold"}}, Attributes: map[string][]string{"tenant": {"acme"}},
			IPs:   []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
			Users: []string{"ann"}, APIKeys: []string{"secret"},
			Descriptor: []fluxgate.DescriptorMatch{{Key: "route", Value: "login"}, {Key: "client", Except: []string{"test*"}}},
		}
	})
	for _, c := range []struct {
		why    fluxgate.Why
		detail string
		change func(*fluxgate.Request)
	}{
		{"", "", func(*fluxgate.Request) {}},
		{fluxgate.WhyPath, "", func(r *fluxgate.Request) { r.Path = "/login" }},
		{fluxgate.WhyExcludedPath, "", func(r *fluxgate.Request) { r.Path = "/api/health" }},
		{fluxgate.WhyMethod, "", func(r *fluxgate.Request) { r.Method = "POST" }},
		{fluxgate.WhyHost, "", func(r *fluxgate.Request) { r.Host = "www.example.com" }},
		{fluxgate.WhyHeader, "x-plan", func(r *fluxgate.Request) { r.Headers = map[string][]string{"X-Plan": {"lead"}} }},
		{fluxgate.WhyAttribute, "tenant", func(r *fluxgate.Request) { r.Attributes = map[string]string{"tenant": "other"} }},
		{fluxgate.WhyDescriptor, "client", func(r *fluxgate.Request) { r.Descriptor[1].Value = "test-7" }},
		{fluxgate.WhyDescriptor, "route", func(r *fluxgate.Request) { r.Descriptor = nil }},
		{fluxgate.WhyIP, "", func(r *fluxgate.Request) { r.IP = netip.MustParseAddr("198.51.100.1") }},
		{fluxgate.WhyUser, "", func(r *fluxgate.Request) { r.UserID = "bob" }},
		{fluxgate.WhyAPIKey, "", func(r *fluxgate.Request) { r.APIKey = "guess" }},
	} {
		t.Run("because of "+string(c.why), func(t *testing.T) {
			g := newGate(t, []fluxgate.Rule{narrow, rule("wide", 0, 10)})
			req := fluxgate.Request{
				Path: "/api/users", Method: "GET", Host: "api.example.com", IP: here, UserID: "ann", APIKey: "secret",
				Headers: map[string][]string{"X-Plan": {"gold"}}, Attributes: map[string]string{"tenant": "acme"},
				Descriptor: []fluxgate.DescriptorEntry{{Key: "route", Value: "login"}, {Key: "client", Value: "web"}},
			}
			c.change(&req)
			set, verdicts, err := g.Effective(t.Context(), &req)
			if err != nil || set.ID() != "api" || len(verdicts) != 2 {
				t.Fatalf("%d verdicts of %v, %v", len(verdicts), set, err)
			}
			if v := verdicts[0]; v.Rule.ID != "narrow" || v.Applies != (c.why == "") || v.Why != c.why || v.Detail != c.detail {
				t.Errorf("applies %t: %q %q, want %q %q", v.Applies, v.Why, v.Detail, c.why, c.detail)
			}
			if v := verdicts[1]; !v.Applies {
				t.Errorf("the other rule does not apply: %q", v.Why)
			}
		})
	}
}

// The verdict names the rule of the group, or the rule that ended the
// evaluation.
func TestVerdict_OtherRules(t *testing.T) {
	grouped := func(r *fluxgate.Rule) { r.Group = "plan" }
	disabled := func(r *fluxgate.Rule) { r.Disabled = true }
	shadow := func(r *fluxgate.Rule) { r.Group, r.Mode = "plan", fluxgate.ModeShadow }
	ends := func(id string, priority int, action fluxgate.Action) fluxgate.Rule {
		return fluxgate.Rule{ID: id, Priority: priority, Action: action}
	}
	for _, c := range []struct {
		name  string
		rules []fluxgate.Rule
		want  []string
	}{
		{"none a rule that is disabled", []fluxgate.Rule{with(rule("off", 9, 1), disabled), rule("on", 1, 1)},
			[]string{"off: disabled", "on"}},
		{"a disabled one of its group none", []fluxgate.Rule{
			with(with(rule("off", 9, 1), disabled), grouped), with(rule("low", 1, 1), grouped), with(rule("top", 5, 1), grouped)},
			[]string{"off: disabled", "top", "low: group top"}},
		{"the first shadow rule another shadow rule", []fluxgate.Rule{
			with(rule("a", 9, 1), shadow), with(rule("b", 8, 1), shadow), with(rule("c", 7, 1), grouped), with(rule("d", 6, 1), shadow)},
			[]string{"a", "b: group a", "c", "d: group c"}},
		{"one that allows all after it", []fluxgate.Rule{rule("before", 9, 1), ends("exempt", 5, fluxgate.ActionAllow), rule("after", 1, 1)},
			[]string{"before", "exempt", "after: ended exempt"}},
		{"one that denies all after it", []fluxgate.Rule{ends("blocked", 5, fluxgate.ActionDeny), rule("after", 1, 1), with(rule("off", 0, 1), disabled)},
			[]string{"blocked", "after: ended blocked", "off: disabled"}},
		{"one that denies in shadow none", []fluxgate.Rule{
			with(ends("measured", 5, fluxgate.ActionDeny), func(r *fluxgate.Rule) { r.Mode = fluxgate.ModeShadow }), rule("after", 1, 1)},
			[]string{"measured", "after"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if x := explain(t, newGate(t, c.rules).Engine, fluxgate.Request{}); !slices.Equal(words(x.Rules), c.want) {
				t.Errorf("got  %q\nwant %q", words(x.Rules), c.want)
			}
		})
	}
}

func TestVerdict_Identity(t *testing.T) {
	scope := func(s fluxgate.Scope, fields ...string) fluxgate.Rule {
		return with(rule("r", 0, 10), func(r *fluxgate.Rule) { r.Scope, r.KeyFields = s, fields })
	}
	missing := func(r fluxgate.Rule, m fluxgate.OnMissingIdentity) fluxgate.Rule { r.OnMissingIdentity = m; return r }
	composite := scope(fluxgate.ScopeComposite, "userId", "header:x-plan", "attr:region", "method", "path")
	full := fluxgate.Request{
		IP: here, UserID: "ann", APIKey: "secret", Method: "GET", Path: "/a",
		Headers: map[string][]string{"X-Plan": {"gold"}}, Attributes: map[string]string{"region": "eu"},
		Descriptor: []fluxgate.DescriptorEntry{{Key: "route"}, {Key: "client", Value: "web"}},
	}
	nobody := fluxgate.Request{IP: here}
	for _, c := range []struct {
		name              string
		rule              fluxgate.Rule
		req               fluxgate.Request
		identity, missing []string
		none              bool
	}{
		{"of nothing for everyone", scope(fluxgate.ScopeGlobal), full, nil, nil, false},
		{"of the address", scope(fluxgate.ScopeIP), full, []string{"ip"}, nil, false},
		{"of the user", scope(fluxgate.ScopeUser), full, []string{"userId"}, nil, false},
		{"of the API key", scope(fluxgate.ScopeAPIKey), full, []string{"apiKey"}, nil, false},
		{"of an attribute", scope(fluxgate.ScopeCustom, "attr:region"), full, []string{"attr:region"}, nil, false},
		{"of several parts, as the rule spells them", composite, full,
			[]string{"userId", "header:x-plan", "attr:region", "method", "path"}, nil, false},
		{"of the descriptor", scope(fluxgate.ScopeComposite, "descriptor"), full, []string{"descriptor"}, nil, false},
		{"of entries of the descriptor", scope(fluxgate.ScopeComposite, "descriptor:client", "descriptor:route"), full,
			[]string{"descriptor:client", "descriptor:route"}, nil, false},
		{"of the address where entries of the descriptor are missing", scope(fluxgate.ScopeComposite, "descriptor:client", "descriptor:plan"), full,
			[]string{"descriptor:client", "ip"}, []string{"descriptor:plan"}, false},
		{"and there is none without descriptor where that is refused", missing(scope(fluxgate.ScopeComposite, "descriptor"), fluxgate.MissingRefuse), nobody,
			nil, []string{"descriptor"}, true},
		{"of the address where the user is missing", scope(fluxgate.ScopeUser), nobody, []string{"ip"}, []string{"userId"}, false},
		{"of nothing where both are missing", scope(fluxgate.ScopeUser), fluxgate.Request{}, nil, []string{"userId"}, false},
		{"of nothing where the address is missing", scope(fluxgate.ScopeIP), fluxgate.Request{}, nil, []string{"ip"}, false},
		{"of nothing where the nameless are one", missing(scope(fluxgate.ScopeUser), fluxgate.MissingAnonymous), nobody, nil, []string{"userId"}, false},
		{"of what is there and the address", composite, fluxgate.Request{IP: here, Method: "GET", Attributes: map[string]string{"region": "eu"}},
			[]string{"attr:region", "method", "ip"}, []string{"userId", "header:x-plan", "path"}, false},
		{"of the address once", scope(fluxgate.ScopeComposite, "ip", "apiKey"), nobody, []string{"ip"}, []string{"apiKey"}, false},
		{"and there is none where the nameless are refused", missing(composite, fluxgate.MissingRefuse), fluxgate.Request{Method: "GET"},
			nil, []string{"userId", "header:x-plan", "attr:region", "path"}, true},
		{"and there is none where nothing is limited", fluxgate.Rule{ID: "r", Action: fluxgate.ActionDeny}, full, nil, nil, true},
		{"and there is none under a disabled rule", with(scope(fluxgate.ScopeUser), func(r *fluxgate.Rule) { r.Disabled = true }), full, nil, nil, true},
		{"also under a rule that does not apply", with(scope(fluxgate.ScopeUser), func(r *fluxgate.Rule) { r.Paths = []string{"/b"} }), full,
			[]string{"userId"}, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, verdicts, err := newGate(t, []fluxgate.Rule{c.rule}).Effective(t.Context(), &c.req)
			if err != nil {
				t.Fatal(err)
			}
			v := verdicts[0]
			if !slices.Equal(v.Identity, c.identity) || !slices.Equal(v.Missing, c.missing) {
				t.Errorf("made of %q, missing %q; want %q, %q", v.Identity, v.Missing, c.identity, c.missing)
			}
			if none := v.Key == (fluxgate.Key{}); none != c.none || !none && (v.Key.RuleSet != "api" || v.Key.Rule != "r" || v.Key.ID == (fluxgate.KeyID{})) {
				t.Errorf("key %+v, want none: %t", v.Key, c.none)
			}
		})
	}
}

func TestVerdict_IdentityResolved(t *testing.T) {
	g := newGate(t, []fluxgate.Rule{with(rule("r", 0, 10), func(r *fluxgate.Rule) { r.Scope = fluxgate.ScopeUser })},
		fluxgate.WithIdentity(func(_ *fluxgate.Rule, req *fluxgate.Request) string {
			if req.UserID == "broken" {
				panic("no such user")
			}
			return req.Attributes["account"]
		}))
	for _, c := range []struct {
		name     string
		req      fluxgate.Request
		identity []string
		key      bool
	}{
		{"where it does", fluxgate.Request{UserID: "ann", Attributes: map[string]string{"account": "7"}}, []string{fluxgate.IdentityResolved}, true},
		{"and not where it leaves that to the scope", fluxgate.Request{UserID: "ann"}, []string{"userId"}, true},
		{"and has no key where it fails", fluxgate.Request{UserID: "broken"}, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, verdicts, err := g.Effective(t.Context(), &c.req)
			if err != nil || !slices.Equal(verdicts[0].Identity, c.identity) || (verdicts[0].Key != fluxgate.Key{}) != c.key {
				t.Errorf("made of %q, key %+v, error %v", verdicts[0].Identity, verdicts[0].Key, err)
			}
			_, decided := g.Check(t.Context(), &c.req)
			if _, explained := g.Explain(t.Context(), &c.req); errors.Is(decided, fluxgate.ErrHook) == c.key || fmt.Sprint(explained) != fmt.Sprint(decided) {
				t.Errorf("the explanation fails with %v, the decision with %v", explained, decided)
			}
		})
	}
}
