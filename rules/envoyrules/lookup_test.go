package envoyrules_test

import (
	"os"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/envoyrules"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// entries returns the entries of a descriptor such as plan=free,path=/search.
func entries(s string) []fluxgate.DescriptorEntry {
	var all []fluxgate.DescriptorEntry
	for pair := range strings.SplitSeq(s, ",") {
		key, value, _ := strings.Cut(pair, "=")
		all = append(all, fluxgate.DescriptorEntry{Key: key, Value: value})
	}
	return all
}

func newEngine(t *testing.T, file string) *fluxgate.Engine {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	set := parse(t, string(text))
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	engine, err := fluxgate.New(store, fluxgate.Static(set), fluxgate.WithRuleSet(set.ID()))
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// The look-up goes down one branch: the value, the first wildcard, the key alone.
// internal/envoyratelimit compares it with envoyproxy/ratelimit.
func TestLookup(t *testing.T) {
	for file, cases := range map[string]map[string]string{
		"testdata/nested.yaml": {
			"remote_address=192.0.2.1":                "remote_address",
			"remote_address=":                         "remote_address",
			"remote_address=192.0.2.7":                "remote_address_192.0.2.7-8e939be785",
			"remote_address=192.0.2.8":                "", // no limit, and not that of the key
			"remote_address=192.0.2.1,path=/":         "", // longer than the tree
			"plan=free":                               "plan_free",
			"plan=pro":                                "", // shorter than the tree
			"plan=free,path=/":                        "plan_free.path",
			"plan=free,path=/search":                  "plan_free.path_-search-969432ad9e",
			"plan=free,path=/,method=POST":            "", // no way back to the key alone
			"plan=pro,path=/,method=POST":             "plan.path.method_POST",
			"plan=pro,path=/,method=GET":              "",
			"path=/,plan=pro,method=POST":             "",
			"plan=pro,path=/,method=POST,method=POST": "",
			"other=x": "",
		},
		"testdata/wildcards.yaml": {
			"path=/img/icons/logo.png":     "500",
			"path=/img/icons/other.png":    "100",
			"path=/img/large/x.png":        "50",
			"path=/img/large/x.png,user=":  "5",
			"path=/img/large/x.png,user=a": "5",
			"path=/img/icons/x.png,user=a": "",
			"path=/IMG/":                   "20",
			"path=":                        "20",
			"code=404":                     "7",
			"code=4040":                    "",
		},
		"testdata/routes.yaml": {
			"httproute/default/shop/rule/0/match/0/*=httproute/default/shop/rule/0/match/0/*,rule-0-match--1=rule-0-match--1":     "5",
			"httproute/default/shop/rule/0/match/0/www=httproute/default/shop/rule/0/match/0/www,rule-0-match--1=rule-0-match--1": "",
			"httproute/default/shop/rule/1/match/0/*_example_com=httproute/default/shop/rule/1/match/0/*_example_com":             "6",
			"httproute/default/shop/rule/1/match/0/www_example_com=httproute/default/shop/rule/1/match/0/www_example_com":         "",
			"httproute/default/shop/rule/0/match/0/*=httproute/default/shop/rule/0/match/0/*":                                     "",
		},
	} {
		engine := newEngine(t, file)
		for descriptor, want := range cases {
			request := &fluxgate.Request{Descriptor: entries(descriptor)}
			_, verdicts, err := engine.Effective(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, v := range verdicts {
				switch {
				case !v.Applies:
				case file == "testdata/nested.yaml":
					got = append(got, v.Rule.ID)
				default:
					got = append(got, itoa(int(v.Rule.Bands[0].Capacity)))
				}
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%s: %s matches %v, want %q", file, descriptor, got, want)
			}
		}
	}
}

// Values of a wildcard with share_threshold are counted together, others apart.
func TestShareThreshold(t *testing.T) {
	engine := newEngine(t, "testdata/share.yaml")
	remaining := func(descriptor string) int64 {
		t.Helper()
		decision, err := engine.Check(t.Context(), &fluxgate.Request{Descriptor: entries(descriptor)})
		if err != nil || !decision.Allowed {
			t.Fatalf("%s: %+v, %v", descriptor, decision, err)
		}
		return decision.Remaining
	}
	for _, c := range []struct {
		descriptor string
		want       int64
	}{
		{"path=files/a", 99}, {"path=files/b", 98}, {"path=files/", 97},
		{"path=files/a,user=ada", 9}, {"path=files/b,user=ada", 8}, {"path=files/b,user=bob", 9},
		{"tenant=t,path=docs/a", 49}, {"tenant=t,path=docs/b", 48}, {"tenant=u,path=docs/a", 49},
		{"region=eu,path=docs/a", 39}, {"region=eu,path=docs/b", 38},
	} {
		if got := remaining(c.descriptor); got != c.want {
			t.Errorf("%s: %d remain, want %d", c.descriptor, got, c.want)
		}
	}
}

// Ids are valid, and different for different domains.
func TestRuleSetID(t *testing.T) {
	seen := map[string]string{}
	for _, domain := range []string{
		"edge", "a.b-c_d", "default/eg/http", "default-eg-http", "default/eg-http", "default.eg/http", "ü", "é", "日本",
		strings.Repeat("x", 64), strings.Repeat("x", 65), strings.Repeat("x", 66), "default/" + strings.Repeat("é", 100),
	} {
		id := envoyrules.RuleSetID(domain)
		if !rules.ValidID(id) || seen[id] != "" {
			t.Errorf("%q has the id %q, as %q", domain, id, seen[id])
		}
		if rules.ValidID(domain) != (id == domain) {
			t.Errorf("%q has the id %q", domain, id)
		}
		seen[id] = domain
	}
	if got := envoyrules.RuleSetID("default/eg/http"); got != "default-eg-http-bca9c50fdd" {
		t.Errorf("default/eg/http has the id %s: ids must not change, because buckets are counted under them", got)
	}
}
