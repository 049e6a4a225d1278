package match

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"testing"
	"time"
)

func mustCompare(t *testing.T, rules []testRule) *Comparison {
	t.Helper()
	c, err := Compare(given(rules), math.MaxInt)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// What is said of random rules holds for random requests, in each reading of their paths.
func TestComparison_Sound_NoRace(t *testing.T) {
	ruleSets := 1_000
	if testing.Short() {
		ruleSets = 300
	}
	covering, apart, never, held := 0, 0, 0, 0
	for seed := range uint64(ruleSets) {
		g := generator{rand.New(rand.NewPCG(seed, 7))}
		rules := g.rules()
		rules = rules[:min(len(rules), 12)]
		for i := range rules {
			rules[i].Group, rules[i].Final = "", false
			if i > 0 && g.chance(50) { // much in common with another rule
				rules[i] = g.mixed(rules[g.IntN(i)], rules[i])
			}
		}
		c := mustCompare(t, rules)
		covers, separate := make([][]int32, len(rules)), map[[2]int]bool{}
		for b := range rules {
			covers[b] = c.Covering(b)
			covering += len(covers[b])
			for a := range b {
				separate[[2]int{a, b}] = c.Apart(a, b)
			}
		}
		for range 60 {
			req := g.request()
			readings := readingsOf(nil, req.Path)
			for i := range readings.count {
				path := readings.at(i)
				q := query{req: &req, host: plainHost(req.Host), ip: plainAddr(req.IP), path: path, folded: c.matcher.fold(path)}
				holding := c.matcher.match(&q, nil)
				for _, b := range holding {
					held += len(covers[b])
					for _, a := range covers[b] {
						if !slices.Contains(holding, a) {
							t.Fatalf("seed %d: rule %d is said to cover rule %d\n%+v\n%+v\nrequest %+v as %s", seed, a, b, rules[a], rules[b], req, path)
						}
					}
					if c.Never(int(b)) {
						t.Fatalf("seed %d: rule %d is said to hold for no request\n%+v\nrequest %+v", seed, b, rules[b], req)
					}
					for _, a := range holding {
						if separate[[2]int{int(a), int(b)}] {
							t.Fatalf("seed %d: no request is said to match both\n%+v\n%+v\nrequest %+v", seed, rules[a], rules[b], req)
						}
					}
				}
			}
		}
		for b := range rules {
			if c.Never(b) {
				never++
			}
		}
		for _, yes := range separate {
			if yes {
				apart++
			}
		}
	}
	t.Logf("covering %d, apart %d, never %d, held %d", covering, apart, never, held)
	if covering < ruleSets || apart < ruleSets || never < ruleSets/50 || held < 10*ruleSets {
		t.Errorf("too little was compared: covering %d, apart %d, never %d, held %d", covering, apart, never, held)
	}
}

// mixed returns a rule with some conditions of one rule and some of another.
func (g generator) mixed(a, b testRule) testRule {
	pick := func(take func(from *testRule)) {
		from := &b
		if g.chance(75) {
			from = &a
		}
		take(from)
	}
	var r testRule
	pick(func(from *testRule) { r.Paths, r.IgnoreCase = from.Paths, from.IgnoreCase })
	pick(func(from *testRule) { r.ExcludePaths = from.ExcludePaths })
	pick(func(from *testRule) { r.Methods = from.Methods })
	pick(func(from *testRule) { r.Hosts = from.Hosts })
	pick(func(from *testRule) { r.Headers = from.Headers })
	pick(func(from *testRule) { r.Attributes = from.Attributes })
	pick(func(from *testRule) { r.IPs = from.IPs })
	pick(func(from *testRule) { r.Users, r.APIKeys = from.Users, from.APIKeys })
	pick(func(from *testRule) { r.Descriptor = from.Descriptor })
	pick(func(from *testRule) { r.Until = from.Until })
	return r
}

// Each condition is seen to include a narrower one, and not a wider one.
func TestComparison_Covering(t *testing.T) {
	networks := func(texts ...string) (list []netip.Prefix) {
		for _, text := range texts {
			list = append(list, netip.MustParsePrefix(text))
		}
		return list
	}
	entries := func(value string, except ...string) []DescriptorMatch {
		return []DescriptorMatch{{Key: "k", Value: value, Except: except}}
	}
	for name, c := range map[string]struct{ wide, narrow testRule }{
		"every path":         {testRule{}, testRule{Paths: []string{"/a"}}},
		"two stars":          {testRule{Paths: []string{"/a/**"}}, testRule{Paths: []string{"/a/*/b/**", "/a"}}},
		"a star":             {testRule{Paths: []string{"/*/b"}}, testRule{Paths: []string{"/a/b"}}},
		"stars in order":     {testRule{Paths: []string{"/*/**"}}, testRule{Paths: []string{"/**/*/*"}}},
		"in the middle":      {testRule{Paths: []string{"/**/x"}}, testRule{Paths: []string{"/a/**/b/x"}}},
		"case":               {testRule{Paths: []string{"/A/**"}, IgnoreCase: true}, testRule{Paths: []string{"/a/B"}}},
		"case without name":  {testRule{Paths: []string{"/*/**"}}, testRule{Paths: []string{"/a/B"}, IgnoreCase: true}},
		"excluded":           {testRule{ExcludePaths: []string{"/a/b"}}, testRule{ExcludePaths: []string{"/a/**"}}},
		"excluded elsewhere": {testRule{ExcludePaths: []string{"/a/**"}}, testRule{Paths: []string{"/b/**"}}},
		"methods":            {testRule{Methods: []string{"get", "POST"}}, testRule{Methods: []string{"HEAD"}}},
		"hosts":              {testRule{Hosts: []string{"*.test"}}, testRule{Hosts: []string{"*.a.test", "A.test"}}},
		"headers":            {testRule{Headers: map[string][]string{"x-plan": {"a", "b"}}}, testRule{Headers: map[string][]string{"X-Plan": {"a"}, "X-Other": {"*"}}}},
		"any header":         {testRule{Headers: map[string][]string{"x-plan": {"*"}}}, testRule{Headers: map[string][]string{"X-Plan": {"a"}}}},
		"attributes":         {testRule{Attributes: map[string][]string{"t": {"a", "b", "c", "d", "e", "f"}}}, testRule{Attributes: map[string][]string{"t": {"a", "f"}}}},
		"networks":           {testRule{IPs: networks("10.0.0.0/8", "fd00::/8")}, testRule{IPs: networks("10.1.0.0/16", "::ffff:10.2.0.0/112")}},
		"users":              {testRule{Users: []string{"a", "b"}}, testRule{Users: []string{"b"}}},
		"keys":               {testRule{APIKeys: []string{"a", "b"}}, testRule{APIKeys: []string{"a"}}},
		"a beginning":        {testRule{Descriptor: entries("gr*", "grey")}, testRule{Descriptor: entries("gree*")}},
		"exceptions":         {testRule{Descriptor: entries("*", "grey", "gre*")}, testRule{Descriptor: entries("", "gr*")}},
		"the end":            {testRule{Until: time.UnixMicro(9)}, testRule{Until: time.UnixMicro(8)}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := mustCompare(t, []testRule{c.wide, c.narrow}).Covering(1); !slices.Equal(got, []int32{0}) {
				t.Errorf("the wider rule does not cover the narrower one")
			}
			if got := mustCompare(t, []testRule{c.wide, c.narrow}).Covering(0); len(got) != 0 {
				t.Errorf("the narrower rule covers the wider one")
			}
		})
	}
}

// The work is bounded: without steps no answer is yes.
func TestCompare_Exhausted(t *testing.T) {
	rules := make([]testRule, 2_000)
	for i := range rules {
		rules[i] = testRule{Methods: []string{"M" + strconv.Itoa(i)}}
	}
	c, err := Compare(given(append(rules, testRule{ExcludePaths: []string{"/**"}})), 100_000)
	if err != nil {
		t.Fatal(err)
	}
	answered := 0
	for !c.Exhausted() {
		c.Covering(answered)
		answered++
	}
	if answered > 100 || len(c.Covering(0)) > 0 || c.Apart(0, 2_000) {
		t.Errorf("%d answers, and then some", answered)
	}
}
