package fluxgate_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// Limits of every reading of a path apply, one denial denies, and only what all
// readings exempt is exempt.
func TestCheck_ReadingsOfAPath(t *testing.T) {
	limit := func(id, path string, change ...func(*rules.Rule)) rules.Rule {
		r := rules.Rule{ID: id, Paths: []string{path}, Bands: []rules.Band{rules.PerHour(5)}}
		for _, f := range change {
			f(&r)
		}
		return r
	}
	action := func(id string, a rules.Action, paths ...string) rules.Rule {
		return rules.Rule{ID: id, Paths: paths, Action: a, Priority: 10}
	}
	group := func(priority int) func(*rules.Rule) {
		return func(r *rules.Rule) { r.Group, r.Priority = "plan", priority }
	}
	health := action("health", rules.ActionAllow, "/healthz")
	for _, tt := range []struct {
		name, path string
		rules      []rules.Rule
		reject     bool // what no rule limits
		want       string
	}{
		{"an exempt path is exempt", "/healthz", []rules.Rule{health, limit("api", "/**")}, false, "true exempt []"},
		{"escaped dots do not exempt", "/api/%2e%2e/healthz", []rules.Rule{health, limit("api", "/api/**")}, false, "true ok [api]"},
		{"nor an escaped slash", "/api/..%2fhealthz", []rules.Rule{health, limit("api", "/api/**")}, false, "true ok [api]"},
		{"nor plain dots", "/api/../healthz", []rules.Rule{health, limit("api", "/api/**")}, false, "true ok [api]"},
		{"nor an escape that nobody needs", "/%68ealthz", []rules.Rule{health, limit("one", "/*")}, false, "true ok [one]"},
		{"nor a trailing slash", "/healthz/", []rules.Rule{health, limit("one", "/healthz/*")}, false, "true ok [one]"},
		{"what is exempt by several rules in all readings is exempt", "/a/../b",
			[]rules.Rule{action("a", rules.ActionAllow, "/a/**"), action("b", rules.ActionAllow, "/b"), limit("all", "/**")}, false, "true exempt []"},
		{"an escaped slash is also part of a name", "/search/a%2Fb", []rules.Rule{limit("search", "/search/*")}, false, "true ok [search]"},
		{"and also separates", "/p/a%2Fb", []rules.Rule{limit("one", "/p/*"), limit("two", "/p/*/*")}, false, "true ok [one two]"},
		{"a generous rule of one reading displaces no strict one of another", "/api/x/../export",
			[]rules.Rule{limit("generous", "/api/export", group(2)), limit("strict", "/api/**", group(1))}, false, "true ok [generous strict]"},
		{"one denial denies", "/public/..%2fadmin",
			[]rules.Rule{action("admin", rules.ActionDeny, "/admin"), limit("public", "/public/**")}, false, "false denied []"},
		{"no rule in one reading refuses where no rule refuses", "/api/../x", []rules.Rule{limit("api", "/api/**")}, true, "false no-rule []"},
		{"and else limits what the others limit", "/api/../x", []rules.Rule{limit("api", "/api/**")}, false, "true ok [api]"},
		{"what follows an authority is read too", "//evil/api/login", []rules.Rule{limit("api", "/api/**")}, false, "true ok [api]"},
		{"an absolute URL is refused", "http://e/api/login", []rules.Rule{limit("api", "/api/**")}, false, "false bad-path []"},
		{"so is a path of many segments", strings.Repeat("/a", 257), []rules.Rule{limit("all", "/**")}, false, "false bad-path []"},
		{"also if their slashes are escaped", "/" + strings.Repeat("a%2f", 256), []rules.Rule{limit("all", "/**")}, false, "false bad-path []"},
		{"so is a long path", "/" + strings.Repeat("a", 8192), []rules.Rule{limit("all", "/**")}, false, "false bad-path []"},
		{"a path of as many as may be is not", strings.Repeat("/a", 256), []rules.Rule{limit("all", "/**")}, false, "true ok [all]"},
		{"a query is not part of the path", "/api/login?next=/../../healthz", []rules.Rule{health, limit("api", "/api/*")}, false, "true ok [api]"},
		{"a fragment is refused", "/api/login#/../../healthz", []rules.Rule{health, limit("api", "/api/*")}, false, "false bad-path []"},
		{"so is a backslash", `/api/login\..\..\healthz`, []rules.Rule{health, limit("api", "/api/*")}, false, "false bad-path []"},
		{"an escaped fragment is part of a name", "/api/login%23", []rules.Rule{limit("api", "/api/*")}, false, "true ok [api]"},
		{"a rule for GET is one for HEAD", "HEAD /x", []rules.Rule{{ID: "get", Methods: []string{"GET"}, Bands: []rules.Band{rules.PerHour(5)}}}, false, "true ok [get]"},
		{"case can be ignored", "/API/Login", []rules.Rule{limit("api", "/api/login", func(r *rules.Rule) { r.IgnoreCase = true })}, false, "true ok [api]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := fluxgate.Request{Method: "GET", Path: tt.path}
			if tt.path[0] != '/' {
				_, _ = fmt.Sscan(tt.path, &req.Method, &req.Path)
			}
			engine := newEngine(t, newStore(t, nil), ruleSet(t, tt.rules...), fluxgate.WithMissingRule(!tt.reject))
			explained := explain(t, engine, req)
			for _, d := range []fluxgate.Decision{explained.Decision, check(t, engine, req)} {
				var ids []string
				for b := range d.Bands() {
					ids = append(ids, b.Rule.ID)
				}
				if got := fmt.Sprintf("%v %s %v", d.Allowed, d.Reason, ids); got != tt.want {
					t.Errorf("%s, want %s", got, tt.want)
				}
			}
		})
	}
}

func TestExplain_ShowsReadings(t *testing.T) {
	engine := newEngine(t, newStore(t, nil), ruleSet(t,
		rules.Rule{ID: "health", Paths: []string{"/healthz"}, Action: rules.ActionAllow, Priority: 10},
		rules.Rule{ID: "api", Paths: []string{"/api/**"}, Bands: []rules.Band{rules.PerHour(5)}}))
	x := explain(t, engine, fluxgate.Request{Path: "/api/..%2fhealthz"})
	if want := []string{"/healthz", "/api/../healthz", "/api/..%2fhealthz"}; !slices.Equal(x.Readings, want) {
		t.Errorf("readings %q, want %q", x.Readings, want)
	}
	if v := x.Rules[0]; v.Applies || v.Why != fluxgate.WhyReading {
		t.Errorf("the rule that allows one reading: %+v", v)
	}
	if !x.Rules[1].Applies {
		t.Errorf("the rule that limits another: %+v", x.Rules[1])
	}
}

func TestWithAmbiguousPaths_Refuse(t *testing.T) {
	set := ruleSet(t, rules.Rule{ID: "all", Bands: []rules.Band{rules.PerHour(50)}})
	refuse := newEngine(t, newStore(t, nil), set, fluxgate.WithAmbiguousPaths(fluxgate.RefuseAmbiguous))
	match := newEngine(t, newStore(t, nil), set)
	for path, refused := range map[string]bool{
		"/a/b": false, "/a/": false, "/caf%C3%A9": false, "/%7Euser": false,
		"/a%2Fb": true, "/a/../b": true, "/a/%2e/b": true, "/a//b": true, "//": true,
	} {
		if d := check(t, match, fluxgate.Request{Path: path}); !d.Allowed {
			t.Errorf("match: %s: %s", path, d.Reason)
		}
		d := check(t, refuse, fluxgate.Request{Path: path})
		if d.Allowed == refused || refused && d.Reason != fluxgate.ReasonBadPath {
			t.Errorf("refuse: %s: allowed %v, %s", path, d.Allowed, d.Reason)
		}
	}
	if _, err := fluxgate.New(newStore(t, nil), fluxgate.Static(set), fluxgate.WithAmbiguousPaths("guess")); err == nil {
		t.Error("an unknown treatment is accepted")
	}
}

// A caller gets no second bucket by another method or spelling that reaches the same
// handler.
func TestKey_HeadAndSpellingsShareABucket(t *testing.T) {
	set := ruleSet(t, rules.Rule{
		ID: "r", Paths: []string{"/api/**"}, IgnoreCase: true, Scope: rules.ScopeComposite, KeyFields: []string{"ip", "method", "path"},
		Bands: []rules.Band{rules.PerHour(6)},
	})
	engine := newEngine(t, newStore(t, nil), set)
	for i, spelled := range []struct{ method, path string }{
		{"GET", "/api/a/b"}, {"HEAD", "/api/a/b"}, {"head", "/API/A/B"}, {"GET", "/api/a%2Fb"}, {"GET", "/api/x/../a/b/"}, {"GET", "/api/a/b?c"},
	} {
		d := check(t, engine, fluxgate.Request{IP: netip.MustParseAddr("192.0.2.1"), Method: spelled.method, Path: spelled.path})
		if want := int64(5 - i); d.Remaining != want {
			t.Errorf("%s %s: %d left, want %d", spelled.method, spelled.path, d.Remaining, want)
		}
	}
}

// The rules of all readings together are bounded as those of one are.
func TestCheck_TooManyRulesOverReadings(t *testing.T) {
	var list []rules.Rule
	for i := range store.MaxMatches {
		list = append(list,
			rules.Rule{ID: fmt.Sprint("a", i), Paths: []string{"/a/**"}, Bands: []rules.Band{rules.PerHour(5)}},
			rules.Rule{ID: fmt.Sprint("b", i), Paths: []string{"/b"}, Bands: []rules.Band{rules.PerHour(5)}})
	}
	engine := newEngine(t, newStore(t, nil), ruleSet(t, list...))
	if d := check(t, engine, fluxgate.Request{Path: "/a/../b"}); d.Allowed || d.Reason != fluxgate.ReasonTooManyRules {
		t.Errorf("allowed %t, %s", d.Allowed, d.Reason)
	}
	check(t, engine, fluxgate.Request{Path: "/b"})
}

// Backends that read the text after // as a host serve one path under many
// spellings.
func TestKey_PathBehindAnAuthority(t *testing.T) {
	set := ruleSet(t, rules.Rule{
		ID: "r", Scope: rules.ScopeComposite, KeyFields: []string{"ip", "path"}, Bands: []rules.Band{rules.PerHour(6)},
	})
	engine := newEngine(t, newStore(t, nil), set)
	for i, path := range []string{"//a/login", "//b/login", "///c/login"} {
		d := check(t, engine, fluxgate.Request{IP: netip.MustParseAddr("192.0.2.1"), Path: path})
		if want := int64(5 - i); d.Remaining != want {
			t.Errorf("%s: %d left, want %d", path, d.Remaining, want)
		}
	}
}

// Patterns with several ** cost a path's length each, so their number is bounded.
func TestNewSet_PatternsWithSeveralStars(t *testing.T) {
	for count, valid := range map[int]bool{500: true, 501: false} {
		var list []rules.Rule
		for i := range count {
			list = append(list, rules.Rule{ID: fmt.Sprint("r", i), Paths: []string{fmt.Sprintf("/**/x%d/**", i)}, Action: rules.ActionDeny})
		}
		if _, err := rules.NewSet("api", list...); (err == nil) != valid {
			t.Errorf("%d patterns: %v", count, err)
		}
	}
}
