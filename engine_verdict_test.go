package fluxgate_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
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
	narrow := with(rule("narrow", 9, 10), func(r *rules.Rule) {
		r.Paths, r.Methods = []string{"/api/**"}, []string{"GET"}
		r.When = rules.When{
			Hosts: []string{"api.example.com"}, ExcludePaths: []string{"/api/health"},
			Headers: map[string][]string{"x-plan": {"gold"}}, Attributes: map[string][]string{"tenant": {"acme"}},
			IPs:   []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
			Users: []string{"ann"}, APIKeys: []string{"secret"},
			Descriptor: []rules.DescriptorMatch{{Key: "route", Value: "login"}, {Key: "client", Except: []string{"test*"}}},
		}
	})
	_, table, _ := strings.Cut(string(fluxgate.Must(os.ReadFile("docs/rules.md"))), "\n| field of `when` |")
	table, _, _ = strings.Cut(table, "\n\n")
	_, line, _ := strings.Cut(string(fluxgate.Must(os.ReadFile("docs/admin.md"))), "\n| `why` |")
	line, _, _ = strings.Cut(line, "\n")
	for _, c := range []struct {
		why    fluxgate.Why
		detail string
		change func(*fluxgate.Request)
	}{
		{"", "", func(*fluxgate.Request) {}},
		{"path", "", func(r *fluxgate.Request) { r.Path = "/login" }},
		{"excluded-path", "", func(r *fluxgate.Request) { r.Path = "/api/health" }},
		{"method", "", func(r *fluxgate.Request) { r.Method = "POST" }},
		{"host", "", func(r *fluxgate.Request) { r.Host = "www.example.com" }},
		{"header", "x-plan", func(r *fluxgate.Request) { r.Headers = map[string][]string{"X-Plan": {"lead"}} }},
		{"attribute", "tenant", func(r *fluxgate.Request) { r.Attributes = map[string]string{"tenant": "other"} }},
		{"descriptor", "client", func(r *fluxgate.Request) { r.Descriptor[1].Value = "test-7" }},
		{"descriptor", "route", func(r *fluxgate.Request) { r.Descriptor = nil }},
		{"ip", "", func(r *fluxgate.Request) { r.IP = netip.MustParseAddr("198.51.100.1") }},
		{"user", "", func(r *fluxgate.Request) { r.UserID = "bob" }},
		{"api-key", "", func(r *fluxgate.Request) { r.APIKey = "guess" }},
	} {
		t.Run("because of "+string(c.why), func(t *testing.T) {
			g := newGate(t, []rules.Rule{narrow, rule("wide", 0, 10)})
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
			// The conditions of when are in the last column of their table.
			column := regexp.MustCompile("(?m)\\| [^|]*`" + string(c.why) + "`[^|]* \\|$")
			if c.why != "" && !strings.Contains(line, "`"+string(c.why)+"`") && !column.MatchString(table) {
				t.Errorf("neither docs/admin.md nor docs/rules.md has %q", c.why)
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
	grouped := func(r *rules.Rule) { r.Group = "plan" }
	disabled := func(r *rules.Rule) { r.Disabled = true }
	shadow := func(r *rules.Rule) { r.Group, r.Mode = "plan", rules.ModeShadow }
	ends := func(id string, priority int, action rules.Action) rules.Rule {
		return rules.Rule{ID: id, Priority: priority, Action: action}
	}
	for _, c := range []struct {
		name  string
		rules []rules.Rule
		want  []string
	}{
		{"none a rule that is disabled", []rules.Rule{with(rule("off", 9, 1), disabled), rule("on", 1, 1)},
			[]string{"off: disabled", "on"}},
		{"a disabled one of its group none", []rules.Rule{
			with(with(rule("off", 9, 1), disabled), grouped), with(rule("low", 1, 1), grouped), with(rule("top", 5, 1), grouped)},
			[]string{"off: disabled", "top", "low: group top"}},
		{"the first shadow rule another shadow rule", []rules.Rule{
			with(rule("a", 9, 1), shadow), with(rule("b", 8, 1), shadow), with(rule("c", 7, 1), grouped), with(rule("d", 6, 1), shadow)},
			[]string{"a", "b: group a", "c", "d: group c"}},
		{"one that allows all after it", []rules.Rule{rule("before", 9, 1), ends("exempt", 5, rules.ActionAllow), rule("after", 1, 1)},
			[]string{"before", "exempt", "after: ended exempt"}},
		{"one that denies all after it", []rules.Rule{ends("blocked", 5, rules.ActionDeny), rule("after", 1, 1), with(rule("off", 0, 1), disabled)},
			[]string{"blocked", "after: ended blocked", "off: disabled"}},
		{"one that denies in shadow none", []rules.Rule{
			with(ends("measured", 5, rules.ActionDeny), func(r *rules.Rule) { r.Mode = rules.ModeShadow }), rule("after", 1, 1)},
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
	scope := func(s rules.Scope, fields ...string) rules.Rule {
		return with(rule("r", 0, 10), func(r *rules.Rule) { r.Scope, r.KeyFields = s, fields })
	}
	missing := func(r rules.Rule, m rules.OnMissingIdentity) rules.Rule { r.OnMissingIdentity = m; return r }
	composite := scope(rules.ScopeComposite, "userId", "header:x-plan", "attr:region", "method", "path")
	full := fluxgate.Request{
		IP: here, UserID: "ann", APIKey: "secret", Method: "GET", Path: "/a",
		Headers: map[string][]string{"X-Plan": {"gold"}}, Attributes: map[string]string{"region": "eu"},
		Descriptor: []fluxgate.DescriptorEntry{{Key: "route"}, {Key: "client", Value: "web"}},
	}
	nobody := fluxgate.Request{IP: here}
	for _, c := range []struct {
		name              string
		rule              rules.Rule
		req               fluxgate.Request
		identity, missing []string
		none              bool
	}{
		{"of nothing for everyone", scope(rules.ScopeGlobal), full, nil, nil, false},
		{"of the address", scope(rules.ScopeIP), full, []string{"ip"}, nil, false},
		{"of the user", scope(rules.ScopeUser), full, []string{"userId"}, nil, false},
		{"of the API key", scope(rules.ScopeAPIKey), full, []string{"apiKey"}, nil, false},
		{"of an attribute", scope(rules.ScopeCustom, "attr:region"), full, []string{"attr:region"}, nil, false},
		{"of several parts, as the rule spells them", composite, full,
			[]string{"userId", "header:x-plan", "attr:region", "method", "path"}, nil, false},
		{"of the descriptor", scope(rules.ScopeComposite, "descriptor"), full, []string{"descriptor"}, nil, false},
		{"of entries of the descriptor", scope(rules.ScopeComposite, "descriptor:client", "descriptor:route"), full,
			[]string{"descriptor:client", "descriptor:route"}, nil, false},
		{"of the address where entries of the descriptor are missing", scope(rules.ScopeComposite, "descriptor:client", "descriptor:plan"), full,
			[]string{"descriptor:client", "ip"}, []string{"descriptor:plan"}, false},
		{"and there is none without descriptor where that is refused", missing(scope(rules.ScopeComposite, "descriptor"), rules.MissingRefuse), nobody,
			nil, []string{"descriptor"}, true},
		{"of the address where the user is missing", scope(rules.ScopeUser), nobody, []string{"ip"}, []string{"userId"}, false},
		{"of nothing where both are missing", scope(rules.ScopeUser), fluxgate.Request{}, nil, []string{"userId"}, false},
		{"of nothing where the address is missing", scope(rules.ScopeIP), fluxgate.Request{}, nil, []string{"ip"}, false},
		{"of nothing where the nameless are one", missing(scope(rules.ScopeUser), rules.MissingAnonymous), nobody, nil, []string{"userId"}, false},
		{"of what is there and the address", composite, fluxgate.Request{IP: here, Method: "GET", Attributes: map[string]string{"region": "eu"}},
			[]string{"attr:region", "method", "ip"}, []string{"userId", "header:x-plan", "path"}, false},
		{"of the address once", scope(rules.ScopeComposite, "ip", "apiKey"), nobody, []string{"ip"}, []string{"apiKey"}, false},
		{"and there is none where the nameless are refused", missing(composite, rules.MissingRefuse), fluxgate.Request{Method: "GET"},
			nil, []string{"userId", "header:x-plan", "attr:region", "path"}, true},
		{"and there is none where nothing is limited", rules.Rule{ID: "r", Action: rules.ActionDeny}, full, nil, nil, true},
		{"and there is none under a disabled rule", with(scope(rules.ScopeUser), func(r *rules.Rule) { r.Disabled = true }), full, nil, nil, true},
		{"also under a rule that does not apply", with(scope(rules.ScopeUser), func(r *rules.Rule) { r.Paths = []string{"/b"} }), full,
			[]string{"userId"}, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, verdicts, err := newGate(t, []rules.Rule{c.rule}).Effective(t.Context(), &c.req)
			if err != nil {
				t.Fatal(err)
			}
			v := verdicts[0]
			if !slices.Equal(v.Identity, c.identity) || !slices.Equal(v.Missing, c.missing) {
				t.Errorf("made of %q, missing %q; want %q, %q", v.Identity, v.Missing, c.identity, c.missing)
			}
			if none := v.Key == (store.Key{}); none != c.none || !none && (v.Key.RuleSet != "api" || v.Key.Rule != "r" || v.Key.ID == (store.KeyID{})) {
				t.Errorf("key %+v, want none: %t", v.Key, c.none)
			}
		})
	}
}

func TestVerdict_IdentityResolved(t *testing.T) {
	g := newGate(t, []rules.Rule{with(rule("r", 0, 10), func(r *rules.Rule) { r.Scope = rules.ScopeUser })},
		fluxgate.WithIdentity(func(_ *rules.Rule, req *fluxgate.Request) string {
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
			if err != nil || !slices.Equal(verdicts[0].Identity, c.identity) || (verdicts[0].Key != store.Key{}) != c.key {
				t.Errorf("made of %q, key %+v, error %v", verdicts[0].Identity, verdicts[0].Key, err)
			}
			_, decided := g.Check(t.Context(), &c.req)
			if _, explained := g.Explain(t.Context(), &c.req); errors.Is(decided, fluxgate.ErrHook) == c.key || fmt.Sprint(explained) != fmt.Sprint(decided) {
				t.Errorf("the explanation fails with %v, the decision with %v", explained, decided)
			}
		})
	}
}
