package match

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// Match and Explain agree with the oracle on random rule sets. Values come from small
// pools, so that rules overlap, share leaves and compete in groups all the time.
func TestMatch_AgreesWithOracle_NoRace(t *testing.T) {
	ruleSets := 400 // a path has up to twelve readings, and each is explained
	if testing.Short() {
		ruleSets = 100
	}
	const requests = 25
	applied := 0
	for seed := range uint64(ruleSets) {
		g := generator{rand.New(rand.NewPCG(seed, 1))}
		rules := g.rules()
		m := mustCompile(t, rules)
		for range requests {
			req := g.request()
			explained := oracle(rules, &req)
			if x := m.Explain(&req); !reflect.DeepEqual(x, explained) {
				t.Fatalf("seed %d\nrequest %+v\nexplained as %+v\nwant         %+v", seed, req, x, explained)
			}
			want := applying(explained.Rules)
			got := m.Match(&req, nil)
			if !slices.Equal(got.Rules, want) {
				t.Fatalf("seed %d\nrequest %+v\ngot  %v\nwant %v\n%s", seed, req, got.Rules, want, describe(rules, got.Rules, want))
			}
			if enforced := enforcedEverywhere(rules, &req); got.Final != explained.Final || got.Enforced != enforced {
				t.Fatalf("seed %d\nrequest %+v\ngot  %+v\nwant final %v, enforced %v", seed, req, got, explained.Final, enforced)
			}
			if len(want) > 0 {
				applied++
			}
		}
	}
	if share := float64(applied) / float64(ruleSets*requests); share < 0.5 {
		t.Errorf("a rule applies to only %.0f %% of the requests, so little was compared", 100*share)
	}
}

// enforcedEverywhere reports whether an enforced rule applies in each reading of the path.
func enforcedEverywhere(rules []testRule, req *Request) bool {
	q := newOracleRequest(req)
	for _, segments := range refReadings(req.Path) {
		q.read("/" + strings.Join(segments, "/"))
		verdicts, _ := oracleReading(rules, q)
		enforced := false
		for i := range verdicts {
			enforced = enforced || verdicts[i].Applies() && !rules[i].Shadow
		}
		if !enforced {
			return false
		}
	}
	return true
}

// applying returns the positions of the rules that apply.
func applying(verdicts []Verdict) []int32 {
	var positions []int32
	for i := range verdicts {
		if verdicts[i].Applies() {
			positions = append(positions, int32(i))
		}
	}
	return positions
}

// Paths, patterns and hosts are read as by the reference implementations.
func TestReferences(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(1, 3))}
	for range 5_000 {
		path, pattern, host := g.path(), g.pattern(), g.request().Host
		if got, want := string(CleanPath(nil, path)), refClean(path); got != want {
			t.Fatalf("the path %q is read as %q, want %q", path, got, want)
		}
		if got, err := parsePattern(pattern); err != nil || !slices.Equal(got, refSegments(pattern)) {
			t.Fatalf("the pattern %q is read as %v, %v, want %v", pattern, got, err, refSegments(pattern))
		}
		if got, want := plainHost(host), refHost(host); got != want {
			t.Fatalf("the host %q is read as %q, want %q", host, got, want)
		}
	}
}

// describe prints the rules about which two results differ.
func describe(rules []testRule, got, want []int32) string {
	var b strings.Builder
	for i := range rules {
		if slices.Contains(got, int32(i)) != slices.Contains(want, int32(i)) {
			fmt.Fprintf(&b, "rule %d: %+v\n", i, rules[i])
		}
	}
	return b.String()
}

type generator struct{ *rand.Rand }

func (g generator) one(pool ...string) string { return pool[g.IntN(len(pool))] }

// some returns up to count picks, repetitions included.
func (g generator) some(count int, pool ...string) []string {
	var picks []string
	for range 1 + g.IntN(count) {
		picks = append(picks, g.one(pool...))
	}
	return picks
}

func (g generator) chance(percent int) bool { return g.IntN(100) < percent }

var (
	poolSegments = []string{"a", "b", "c", "B", "a%62", "%2A", "x%252Fy", "%zz"}
	poolHosts    = []string{"a.test", "b.test", "x.a.test", "A.Test", "b.test.", "c.test:80"}
	poolUsers    = []string{"u1", "u2", "u3", "u4", "u5", "u6", "u7", "u8"}
	poolValues   = []string{"red", "green", "blue", "grey", "pink", "gold", ""}
	poolAddrs    = []string{"10.0.0.1", "10.0.1.1", "10.1.0.1", "192.168.0.7", "::ffff:10.0.0.1", "2001:db8::1", "2001:db8:0:1::1", "fe80::1%eth0"}
	poolNetworks = []string{"10.0.0.0/8", "10.0.0.0/24", "10.0.0.1/32", "::ffff:10.0.1.0/120", "0.0.0.0/0", "::/0", "2001:db8::/64", "2001:db8::/32", "fe80::/10", "192.168.0.7/16"}
)

func (g generator) rules() []testRule {
	count := g.IntN(15)
	switch g.IntN(10) {
	case 0:
		count = g.IntN(300)
	case 1, 2:
		count = g.IntN(60)
	}
	rules := make([]testRule, count)
	crowded := g.chance(50) // most rules at a few places
	for i := range rules {
		rules[i] = g.rule(crowded)
	}
	if g.chance(20) { // all of them descriptors and little else, as for Envoy
		for i := range rules {
			rules[i] = testRule{Descriptor: g.descriptorMatch(), Methods: rules[i].Methods, Group: rules[i].Group}
		}
	}
	return rules
}

func (g generator) rule(crowded bool) testRule {
	var r testRule
	odds := 12
	if crowded {
		odds = 30
		r.Paths = g.some(2, "/a/**", "/**", "/**/b")
	} else if g.chance(80) {
		for range 1 + g.IntN(3) {
			r.Paths = append(r.Paths, g.pattern())
		}
	}
	if g.chance(15) {
		r.ExcludePaths = []string{g.pattern()}
	}
	if g.chance(odds) {
		r.Methods = g.some(2, "GET", "post", "*", "Delete", "HEAD")
	}
	r.IgnoreCase = g.chance(10)
	if g.chance(odds) {
		r.Hosts = g.some(6, append([]string{"*.test", "*.a.test", "*.B.test."}, poolHosts...)...)
	}
	if g.chance(odds) {
		r.Headers = g.named("x-color", "X-Shade", "X-GLOSS")
	}
	if g.chance(odds) {
		r.Attributes = g.named("color", "shade")
	}
	if g.chance(odds) {
		for _, n := range g.some(6, poolNetworks...) {
			r.IPs = append(r.IPs, netip.MustParsePrefix(n))
		}
	}
	if g.chance(odds) {
		r.Users = g.some(7, poolUsers...)
	}
	if g.chance(odds) {
		for _, key := range g.some(7, poolUsers...) {
			if g.chance(30) {
				sum := sha256.Sum256([]byte(key))
				key = "sha256:" + hex.EncodeToString(sum[:])
			}
			r.APIKeys = append(r.APIKeys, key)
		}
	}
	if g.chance(odds) {
		r.Descriptor = g.descriptorMatch()
	}
	if g.chance(odds) {
		r.Until = time.UnixMicro(int64(g.IntN(4)))
	}
	r.Group = g.one("", "", "g1", "g2", "g3")
	r.Shadow = g.chance(25)
	r.Final = g.chance(8)
	return r
}

func (g generator) named(names ...string) map[string][]string {
	conditions := make(map[string][]string)
	for range 1 + g.IntN(2) {
		conditions[g.one(names...)] = g.some(6, append([]string{"*"}, poolValues...)...)
	}
	return conditions
}

func (g generator) descriptorMatch() []DescriptorMatch {
	var matches []DescriptorMatch
	forms := append([]string{"", "*", "g*", "gr*", "gre*", "green*", "p*"}, poolValues...)
	for range 1 + g.IntN(3) {
		m := DescriptorMatch{Key: g.one("k", "l"), Value: g.one(forms...)}
		if g.chance(30) {
			m.Except = g.some(6, slices.DeleteFunc(slices.Clone(forms), func(s string) bool { return s == "" })...)
		}
		matches = append(matches, m)
	}
	return matches
}

func (g generator) pattern() string {
	var b strings.Builder
	for range g.IntN(5) {
		b.WriteString(g.one("/", "/", "/", "//", "/./"))
		b.WriteString(g.one(append([]string{"*", "*", "**", "**", "**"}, poolSegments...)...))
	}
	if b.Len() == 0 || g.chance(10) {
		b.WriteString("/")
	}
	return b.String()
}

func (g generator) path() string {
	var b strings.Builder
	for range g.IntN(6) {
		b.WriteString(g.one("/", "/", "/", "/", "//", "/./", "%2f", "/c/../", "/..//", "/%2e%2E/"))
		b.WriteString(g.one(append([]string{"a", "b", "%61", "*", "**"}, poolSegments...)...))
	}
	if g.chance(10) {
		b.WriteString("/")
	}
	return b.String()
}

func (g generator) request() Request {
	req := Request{Path: g.path(), Method: g.one("GET", "POST", "get", "DELETE", "", "HEAD", "Head"), Now: int64(g.IntN(4))}
	if g.chance(80) {
		req.Host = g.one(append([]string{"y.x.A.test:8080", ".test", ".a.test", "test", "x.b.TEST."}, poolHosts...)...)
	}
	if g.chance(80) {
		req.IP = netip.MustParseAddr(g.one(poolAddrs...))
	}
	if g.chance(80) {
		req.User = g.one(poolUsers...)
	}
	if g.chance(80) {
		req.APIKey = g.one(poolUsers...)
	}
	if g.chance(80) {
		req.Headers = make(map[string][]string)
		for _, name := range g.some(3, "X-Color", "X-Shade", "x-shade", "X-Gloss") {
			req.Headers[name] = g.some(3, poolValues...)
		}
	}
	if g.chance(80) {
		req.Attributes = make(map[string]string)
		for _, name := range g.some(2, "color", "shade") {
			req.Attributes[name] = g.one(poolValues...)
		}
	}
	if g.chance(80) {
		for range 1 + g.IntN(3) {
			req.Descriptor = append(req.Descriptor, DescriptorEntry{g.one("k", "l"), g.one(append(poolValues, "gr", "greens")...)})
		}
	}
	return req
}

// The generator sets every field that a rule and a request have, so that the oracle is
// asked about every condition.
func TestGenerator_EveryField(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(1, 4))}
	set := make(map[string]bool)
	look := func(v reflect.Value) {
		for i := range v.NumField() {
			name := v.Type().Name() + "." + v.Type().Field(i).Name
			set[name] = set[name] || !v.Field(i).IsZero()
		}
	}
	for range 1_000 {
		look(reflect.ValueOf(g.rule(true)))
		look(reflect.ValueOf(g.request()))
	}
	for name, done := range set {
		if !done {
			t.Errorf("no random value has %s", name)
		}
	}
}
