package match

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMatch_Conditions(t *testing.T) {
	network := func(list ...string) []netip.Prefix {
		var networks []netip.Prefix
		for _, n := range list {
			networks = append(networks, netip.MustParsePrefix(n))
		}
		return networks
	}
	ip := func(s string) Request { return Request{IP: netip.MustParseAddr(s)} }
	host := func(s string) Request { return Request{Host: s} }
	header := func(name string, lines ...string) Request {
		return Request{Headers: map[string][]string{name: lines}}
	}
	attribute := func(name, value string) Request {
		return Request{Attributes: map[string]string{name: value}}
	}
	descriptor := func(keysAndValues ...string) Request {
		var r Request
		for pair := range slices.Chunk(keysAndValues, 2) {
			r.Descriptor = append(r.Descriptor, DescriptorEntry{pair[0], pair[1]})
		}
		return r
	}
	// SHA-256 of "secret".
	const digestOfSecret = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"

	tests := []struct {
		name    string
		rule    testRule
		matches []Request
		others  []Request
	}{
		{"a rule without conditions matches every request", testRule{},
			[]Request{{}, {Path: "/a/b", Method: "GET", User: "u"}}, nil},
		{"one of several paths is enough", testRule{Paths: []string{"/a", "/b/*"}},
			[]Request{{Path: "/a"}, {Path: "/b/x"}}, []Request{{Path: "/b"}, {Path: "/"}}},
		{"an excluded path is taken out", testRule{Paths: []string{"/api/**"}, ExcludePaths: []string{"/api/health", "/**/internal"}},
			[]Request{{Path: "/api/x"}, {Path: "/api/health/"}, {Path: "/api/%68ealth"}},
			[]Request{{Path: "/api/health"}, {Path: "/api/health?x"}, {Path: "/api/x/internal"}}},
		{"a path is excluded only in all its readings", testRule{ExcludePaths: []string{"/a/b"}},
			[]Request{{Path: "/a%252Fb"}, {Path: "/a%2Fb"}, {Path: "/a//b"}, {Path: "/x/../a/b"}}, []Request{{Path: "/a/b"}}},
		{"case can be ignored", testRule{Paths: []string{"/API/*/Login"}, ExcludePaths: []string{"/api/Old/**"}, IgnoreCase: true},
			[]Request{{Path: "/api/v1/login"}, {Path: "/Api/V1/LOGIN"}, {Path: "/%41pi/v1/login"}},
			[]Request{{Path: "/api/old/login"}, {Path: "/API/OLD/LOGIN"}, {Path: "/api/login"}}},
		{"case counts otherwise", testRule{Paths: []string{"/api/Login"}}, []Request{{Path: "/api/Login"}}, []Request{{Path: "/api/login"}}},
		{"GET includes HEAD", testRule{Methods: []string{"get"}}, []Request{{Method: "GET"}, {Method: "head"}}, []Request{{Method: "POST"}, {}}},
		{"HEAD does not include GET", testRule{Methods: []string{"HEAD"}}, []Request{{Method: "HEAD"}}, []Request{{Method: "GET"}}},
		{"methods have no case", testRule{Methods: []string{"get", "POST"}},
			[]Request{{Method: "GET"}, {Method: "get"}, {Method: "Post"}},
			[]Request{{}, {Method: "PUT"}, {Method: "GETS"}, {Method: "PO\u017fT"}}},
		{"a star is any method", testRule{Methods: []string{"GET", "*"}}, []Request{{}, {Method: "BREW"}}, nil},
		{"a host has no case, port or trailing dot", testRule{Hosts: []string{"API.example.com"}},
			[]Request{host("api.example.com"), host("Api.Example.Com:8443"), host("api.example.com."), host("api.example.com.:80")},
			[]Request{host(""), host("example.com"), host("xapi.example.com"), host("api.example.com.evil.test"), host("a.api.example.com")}},
		{"the port of a rule's host does not count either", testRule{Hosts: []string{"api.example.com:443"}},
			[]Request{host("api.example.com"), host("api.example.com:80")}, nil},
		{"a wildcard host wants at least one label in front", testRule{Hosts: []string{"*.example.com"}},
			[]Request{host("a.example.com"), host("a.b.EXAMPLE.com:80"), host(strings.Repeat("a.", 2000) + "Example.com")},
			[]Request{host("example.com"), host(".example.com"), host("aexample.com"), host("a.example.com.evil.test")}},
		{"an IPv6 host may have brackets and a port", testRule{Hosts: []string{"[2001:DB8::1]"}},
			[]Request{host("[2001:db8::1]"), host("[2001:db8::1]:80"), host("2001:DB8::1")},
			[]Request{host("[2001:db8::2]"), host("[2001:db8::1"), host("2001:db8::1:80")}},
		{"a header's name has no case", testRule{Headers: map[string][]string{"x-TIER": {"gold", "silver"}}},
			[]Request{header("X-Tier", "gold"), header("x-tier", "silver"), header("X-Tier", "x", "gold")},
			[]Request{{}, header("X-Tier"), header("X-Tier", "Gold"), header("X-Tier", "gold, silver"), header("X-Other", "gold")}},
		{"a star is any header line that is not empty", testRule{Headers: map[string][]string{"X-Tier": {"*"}}},
			[]Request{header("X-Tier", "x"), header("X-Tier", "", "y")}, []Request{{}, header("X-Tier", "")}},
		{"an attribute's name and value have case", testRule{Attributes: map[string][]string{"tier": {"gold", "silver"}}},
			[]Request{attribute("tier", "gold"), attribute("tier", "silver")},
			[]Request{{}, attribute("tier", "Gold"), attribute("Tier", "gold"), attribute("tier", "")}},
		{"a star is any attribute that is not empty", testRule{Attributes: map[string][]string{"tier": {"*"}}},
			[]Request{attribute("tier", "x")}, []Request{{}, attribute("tier", "")}},
		{"an absent attribute is not an empty one", testRule{Attributes: map[string][]string{"tier": {""}}},
			[]Request{attribute("tier", "")}, []Request{{}, attribute("tier", "x")}},
		{"every attribute must match", testRule{Attributes: map[string][]string{"tier": {"gold"}, "region": {"eu"}}},
			[]Request{{Attributes: map[string]string{"tier": "gold", "region": "eu"}}},
			[]Request{attribute("tier", "gold"), {Attributes: map[string]string{"tier": "gold", "region": "us"}}}},
		{"an address may be mapped or have a zone", testRule{IPs: network("10.0.0.0/8", "fe80::/64", "fec0::1/128")},
			[]Request{ip("10.1.2.3"), ip("::ffff:10.1.2.3"), ip("fe80::1%eth0"), ip("fec0::1%eth0"), ip("::ffff:10.1.2.3%eth0")},
			[]Request{{}, ip("11.0.0.1"), ip("::a00:1"), ip("fe80:0:0:1::1")}},
		{"a network may be mapped or have host bits", testRule{IPs: network("::ffff:10.0.0.9/104")},
			[]Request{ip("10.1.2.3"), ip("::ffff:10.255.255.255")}, []Request{ip("11.0.0.0"), ip("9.255.255.255")}},
		{"all of IPv6 holds no IPv4", testRule{IPs: network("::/0")},
			[]Request{ip("::1")}, []Request{ip("10.0.0.1"), ip("::ffff:10.0.0.1")}},
		{"networks may lie in one another", testRule{IPs: network("10.1.0.0/16", "10.0.0.0/8", "10.1.2.3/32", "12.0.0.0/8")},
			[]Request{ip("10.0.0.0"), ip("10.200.0.1"), ip("10.255.255.255"), ip("12.0.0.0")},
			[]Request{ip("11.0.0.0"), ip("13.0.0.0")}},
		{"users are a set", testRule{Users: []string{"alice", "bob", "c", "d", "e", "f"}},
			[]Request{{User: "alice"}, {User: "f"}}, []Request{{}, {User: "Alice"}, {User: "g"}}},
		{"API keys may be given as keys", testRule{APIKeys: []string{"secret"}},
			[]Request{{APIKey: "secret"}}, []Request{{}, {APIKey: "Secret"}, {APIKey: "sha256:" + digestOfSecret}}},
		{"API keys may be given as digests", testRule{APIKeys: []string{"sha256:" + strings.ToUpper(digestOfSecret)}},
			[]Request{{APIKey: "secret"}}, []Request{{}, {APIKey: "sha256:" + digestOfSecret}}},
		{"no API key is not one whose digest is that of nothing",
			testRule{APIKeys: []string{"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}}, nil, []Request{{}}},
		{"a descriptor has these entries, in this order, and no others", testRule{Descriptor: []DescriptorMatch{{Key: "a", Value: "1"}, {Key: "b", Value: "2"}}},
			[]Request{descriptor("a", "1", "b", "2")},
			[]Request{{}, descriptor("a", "1"), descriptor("b", "2"), descriptor("b", "2", "a", "1"), descriptor("a", "1", "b", "2", "c", "3"),
				descriptor("a", "2", "b", "2"), descriptor("a", "1", "a", "1"), descriptor("A", "1", "b", "2"), descriptor("a", "", "b", "")}},
		{"an entry without value has any", testRule{Descriptor: []DescriptorMatch{{Key: "a"}, {Key: "b", Value: "*"}}},
			[]Request{descriptor("a", "1", "b", "2"), descriptor("a", "", "b", "*")}, []Request{descriptor("a", "1"), descriptor("a", "1", "c", "2")}},
		{"a wildcard is what a value begins with", testRule{Descriptor: []DescriptorMatch{{Key: "a", Value: "foo*"}}},
			[]Request{descriptor("a", "foo"), descriptor("a", "foobar"), descriptor("a", "foo*")}, []Request{descriptor("a", "fo"), descriptor("a", "Foo"), descriptor("a", "")}},
		{"a value is not what others begin with", testRule{Descriptor: []DescriptorMatch{{Key: "a", Value: "foo"}}},
			[]Request{descriptor("a", "foo")}, []Request{descriptor("a", "foobar"), descriptor("a", "foo*")}},
		{"exceptions do not match", testRule{Descriptor: []DescriptorMatch{{Key: "a", Value: "f*", Except: []string{"foo", "fa*", "fab*", "f1", "f2", "f3", "f4"}}}},
			[]Request{descriptor("a", "f"), descriptor("a", "foot"), descriptor("a", "fob")},
			[]Request{descriptor("a", "foo"), descriptor("a", "fa"), descriptor("a", "fable"), descriptor("a", "f4"), descriptor("a", "x")}},
		{"one entry may come twice", testRule{Descriptor: []DescriptorMatch{{Key: "a", Value: "1"}, {Key: "a", Value: "2"}}},
			[]Request{descriptor("a", "1", "a", "2")}, []Request{descriptor("a", "2", "a", "1"), descriptor("a", "1")}},
		{"a descriptor may be long", testRule{Descriptor: slices.Repeat([]DescriptorMatch{{Key: "a"}}, MaxDescriptor)},
			[]Request{descriptor(slices.Repeat([]string{"a", "1"}, MaxDescriptor)...)}, []Request{descriptor(slices.Repeat([]string{"a", "1"}, 100_000)...)}},
		{"a rule ends at its moment", testRule{Users: []string{"u"}, Until: time.Unix(10, 0)},
			[]Request{{User: "u"}, {User: "u", Now: 9_999_999}}, []Request{{User: "u", Now: 10_000_000}, {User: "u", Now: math.MaxInt64}}},
		{"all conditions must hold together", testRule{Paths: []string{"/a"}, Methods: []string{"GET"}, Users: []string{"u"}},
			[]Request{{Path: "/a", Method: "GET", User: "u"}},
			[]Request{{Path: "/a", Method: "GET"}, {Path: "/a", User: "u"}, {Path: "/b", Method: "GET", User: "u"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// Alone a rule is scanned; among many at the same leaf it is looked up.
			for _, copies := range []int{1, 2 * scanLimit} {
				m := mustCompile(t, slices.Repeat([]testRule{tt.rule}, copies))
				for i := range tt.matches {
					if got := m.Match(&tt.matches[i], nil).Rules; len(got) != copies {
						t.Errorf("%d of %d copies match %+v", len(got), copies, tt.matches[i])
					}
					if v := m.Explain(&tt.matches[i]).Rules[0]; !v.Applies() {
						t.Errorf("the explanation says that %+v does not match: %s", tt.matches[i], v.Obstacle)
					}
				}
				for i := range tt.others {
					if got := m.Match(&tt.others[i], nil).Rules; len(got) != 0 {
						t.Errorf("%d of %d copies match %+v", len(got), copies, tt.others[i])
					}
					if m.Explain(&tt.others[i]).Rules[0].Applies() {
						t.Errorf("the explanation says that %+v matches", tt.others[i])
					}
				}
			}
		})
	}
}

func TestMatch_GroupsShadowAndFinal(t *testing.T) {
	var (
		limit    = testRule{}
		no       = testRule{Users: []string{"nobody"}}
		final    = testRule{Final: true}
		g        = testRule{Group: "g"}
		h        = testRule{Group: "h"}
		gNo      = testRule{Group: "g", Users: []string{"nobody"}}
		gShadow  = testRule{Group: "g", Shadow: true}
		gFinal   = testRule{Group: "g", Final: true}
		shadow   = testRule{Shadow: true}
		shadowFn = testRule{Shadow: true, Final: true}
	)
	tests := []struct {
		name  string
		rules []testRule
		want  []int32
	}{
		{"rules without group are independent", []testRule{limit, no, limit}, []int32{0, 2}},
		{"the first rule of a group applies", []testRule{g, g, g}, []int32{0}},
		{"a rule that does not match displaces none", []testRule{gNo, g, g}, []int32{1}},
		{"groups are independent", []testRule{g, h, g, limit, h}, []int32{0, 1, 3}},
		{"a shadow rule does not displace the enforced one", []testRule{gShadow, g, g}, []int32{0, 1}},
		{"only the first shadow rule of a group applies", []testRule{gShadow, gShadow, g}, []int32{0, 2}},
		{"a shadow rule below the enforced one would not have applied", []testRule{g, gShadow}, []int32{0}},
		{"a group of shadow rules alone has its first", []testRule{gShadow, gNo, gShadow}, []int32{0}},
		{"shadow rules without group all apply", []testRule{shadow, limit, shadow}, []int32{0, 1, 2}},
		{"a final rule is the last", []testRule{limit, final, limit, shadow}, []int32{0, 1}},
		{"a final rule that does not match ends nothing", []testRule{no, {Final: true, Users: []string{"nobody"}}, limit}, []int32{2}},
		{"a final rule that lost in its group ends nothing", []testRule{g, gFinal, limit}, []int32{0, 2}},
		{"a final rule that won in its group ends all", []testRule{gFinal, g, limit}, []int32{0}},
		{"a shadow final rule ends nothing", []testRule{shadowFn, limit, final, limit}, []int32{0, 1, 2}},
		{"a shadow rule keeps its place when a final rule ends its group", []testRule{gShadow, final, g}, []int32{0, 1}},
		{"no rules, no match", nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := mustCompile(t, tt.rules)
			if got := m.Match(&Request{Path: "/x"}, nil).Rules; !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if got := applying(m.Explain(&Request{Path: "/x"}).Rules); !slices.Equal(got, tt.want) {
				t.Errorf("the explanation says %v, want %v", got, tt.want)
			}
		})
	}
}

func TestMatch_EachRuleOnce(t *testing.T) {
	rule := testRule{
		Paths:   []string{"/a/**", "/**/b", "/a/*", "/a/b", "/a//b/", "/**"},
		Users:   []string{"u", "u", "v"},
		Headers: map[string][]string{"X-Tier": {"gold", "silver"}},
		Hosts:   []string{"a.test", "*.test"},
	}
	req := &Request{
		Path: "/a/b", User: "u", Host: "a.test",
		Headers: map[string][]string{"X-Tier": {"gold", "silver", "gold"}, "x-tier": {"gold"}},
	}
	for _, copies := range []int{1, 2 * scanLimit} {
		m := mustCompile(t, slices.Repeat([]testRule{rule}, copies))
		got := m.Match(req, nil).Rules
		if len(got) != copies || !slices.IsSorted(got) {
			t.Errorf("%d copies come out as %v", copies, got)
		}
	}
}

func TestMatch_ManyGroups(t *testing.T) {
	const groups = 100
	var rules []testRule
	var want []int32
	for round, r := range []struct{ shadow, applies bool }{{true, true}, {true, false}, {false, true}, {false, false}, {true, false}} {
		for i := range groups {
			rules = append(rules, testRule{Group: fmt.Sprint("g", i), Shadow: r.shadow})
			if r.applies {
				want = append(want, int32(round*groups+i))
			}
		}
	}
	if got := mustCompile(t, rules).Match(&Request{}, nil).Rules; !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestCompile_Errors(t *testing.T) {
	tests := []struct {
		name string
		rule testRule
		want string
	}{
		{"a bad path", testRule{Paths: []string{"/ok", "/v*"}}, `rule 1: paths: pattern "/v*": a star must be a whole segment`},
		{"a bad excluded path", testRule{ExcludePaths: []string{"health"}}, `rule 1: excludePaths: pattern "health" does not begin with a slash: write "/health"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := compileAll([]testRule{{}, tt.rule})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %q in it", err, tt.want)
			}
			var ruleError *RuleError
			if !errors.As(err, &ruleError) || ruleError.Index != 1 {
				t.Errorf("the error does not name the rule: %#v", err)
			}
		})
	}
}
