package match

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
)

func TestMatch_Allocations(t *testing.T) {
	sum := sha256.Sum256([]byte("key"))
	rules := []testRule{
		{Paths: []string{"/api/**"}, Group: "g", Headers: map[string][]string{"X-Tier": {"gold"}}},
		{Paths: []string{"/api/**"}, Group: "g", Shadow: true},
		{Paths: []string{"/**/v1/**/42"}},
		{Paths: []string{"/**/items/*"}, ExcludePaths: []string{"/**/hidden/**"}, Methods: []string{"GET"}},
		{APIKeys: []string{"sha256:" + hex.EncodeToString(sum[:])}},
		{IPs: []netip.Prefix{netip.MustParsePrefix("2001:db8::/32")}},
	}
	for _, kind := range anchorKinds {
		for i := range 2 * scanLimit {
			rules = append(rules, kind.rule(i))
		}
	}
	m := mustCompile(t, rules)
	base := Request{
		Path: "/api/v1/items/42", Method: "GET", Host: "host-1.example.com", IP: netip.MustParseAddr("2001:db8::1"),
		User: "user-1", APIKey: "key", Headers: map[string][]string{"X-Tier": {"gold", "silver"}},
		Attributes: map[string]string{"tenant": "tenant-1"},
		Descriptor: []DescriptorEntry{{"path", "/tenant-1/" + strings.Repeat("x", 5_000)}},
	}
	tests := []struct {
		name   string
		change func(*Request)
	}{
		{"an ordinary request", func(*Request) {}},
		{"a path that has to be cleaned", func(r *Request) { r.Path = "//api/./%76%31/../v1/items/42/" }},
		{"a long path that has to be cleaned", func(r *Request) { r.Path = strings.Repeat("/abcdefg", 60) + "/" }},
		{"a long clean path", func(r *Request) { r.Path = strings.Repeat("/abcdefg", 1000) }},
		{"a long API key", func(r *Request) { r.APIKey = strings.Repeat("k", 500) }},
		{"an IPv4 address", func(r *Request) { r.IP = netip.MustParseAddr("::ffff:10.0.0.1") }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req := base
			tt.change(&req)
			dst := make([]int32, 0, 64)
			if allocs := testing.AllocsPerRun(200, func() { dst = m.Match(&req, dst[:0]).Rules }); allocs != 0 {
				t.Errorf("%v allocations", allocs)
			}
			if len(dst) == 0 {
				t.Error("no rule applies, so little was measured")
			}
		})
	}
}

// anchorKinds are the conditions by which rules of one leaf are distinguished: the
// rule of number i and a request that only this rule matches.
var anchorKinds = []struct {
	name    string
	rule    func(i int) testRule
	request func(i int) Request
}{
	{"users",
		func(i int) testRule { return testRule{Users: []string{fmt.Sprint("user-", i)}} },
		func(i int) Request { return Request{User: fmt.Sprint("user-", i)} }},
	{"API keys",
		func(i int) testRule { return testRule{APIKeys: []string{fmt.Sprint("key-", i)}} },
		func(i int) Request { return Request{APIKey: fmt.Sprint("key-", i)} }},
	{"attributes, beside one that all share",
		func(i int) testRule {
			return testRule{Attributes: map[string][]string{"kind": {"paid"}, "tenant": {fmt.Sprint("tenant-", i)}}}
		},
		func(i int) Request {
			return Request{Attributes: map[string]string{"kind": "paid", "tenant": fmt.Sprint("tenant-", i)}}
		}},
	{"headers, beside users that all share",
		func(i int) testRule {
			return testRule{Users: []string{"u"}, Headers: map[string][]string{"X-Tenant": {fmt.Sprint("tenant-", i)}}}
		},
		func(i int) Request {
			return Request{User: "u", Headers: map[string][]string{"X-Tenant": {fmt.Sprint("tenant-", i)}}}
		}},
	{"hosts",
		func(i int) testRule { return testRule{Hosts: []string{fmt.Sprintf("host-%d.example.com", i)}} },
		func(i int) Request { return Request{Host: fmt.Sprintf("host-%d.example.com", i)} }},
	{"wildcard hosts",
		func(i int) testRule { return testRule{Hosts: []string{fmt.Sprintf("*.host-%d.example.com", i)}} },
		func(i int) Request { return Request{Host: fmt.Sprintf("a.b.host-%d.example.com:80", i)} }},
	{"IPv4 networks",
		func(i int) testRule { return testRule{IPs: []netip.Prefix{netip.PrefixFrom(ipv4(i), 24)}} },
		func(i int) Request { return Request{IP: ipv4(i)} }},
	{"IPv6 networks",
		func(i int) testRule { return testRule{IPs: []netip.Prefix{netip.PrefixFrom(ipv6(i), 56)}} },
		func(i int) Request { return Request{IP: ipv6(i)} }},
	{"values of a descriptor",
		func(i int) testRule {
			return testRule{Descriptor: []DescriptorMatch{{Key: "generic_key", Value: "login"}, {Key: "tenant", Value: fmt.Sprint("t", i)}}}
		},
		func(i int) Request {
			return descriptorOf(DescriptorEntry{"generic_key", "login"}, DescriptorEntry{"tenant", fmt.Sprint("t", i)})
		}},
	{"two values of a descriptor together",
		func(i int) testRule {
			return testRule{Descriptor: []DescriptorMatch{{Key: "tenant", Value: fmt.Sprint(i / 100)}, {Key: "method", Value: fmt.Sprint(i % 100)}, {Key: "ip"}}}
		},
		func(i int) Request {
			return descriptorOf(DescriptorEntry{"tenant", fmt.Sprint(i / 100)}, DescriptorEntry{"method", fmt.Sprint(i % 100)}, DescriptorEntry{"ip", "x"})
		}},
	{"beginnings of values of a descriptor",
		func(i int) testRule {
			return testRule{Descriptor: []DescriptorMatch{{Key: "path", Value: fmt.Sprintf("/tenant-%d/*", i)}}}
		},
		func(i int) Request { return descriptorOf(DescriptorEntry{"path", fmt.Sprintf("/tenant-%d/items", i)}) }},
	{"keys of a descriptor, with any value",
		func(i int) testRule {
			return testRule{Descriptor: []DescriptorMatch{{Key: fmt.Sprintf("rule-%d-match-0", i)}}}
		},
		func(i int) Request { return descriptorOf(DescriptorEntry{fmt.Sprintf("rule-%d-match-0", i), "x"}) }},
	{"keys of a descriptor, with exceptions",
		func(i int) testRule {
			return testRule{Descriptor: []DescriptorMatch{{Key: fmt.Sprint("k", i), Except: []string{"y", "z*"}}}}
		},
		func(i int) Request { return descriptorOf(DescriptorEntry{fmt.Sprint("k", i), "x"}) }},
	{"users, beside a descriptor that all share",
		func(i int) testRule {
			return testRule{Users: []string{fmt.Sprint("user/", i)}, Descriptor: []DescriptorMatch{{Key: "a"}}}
		},
		func(i int) Request {
			return Request{User: fmt.Sprint("user/", i), Descriptor: []DescriptorEntry{{"a", "x"}}}
		}},
	{"descriptors, beside users that all share",
		func(i int) testRule {
			return testRule{Users: []string{"u"}, Descriptor: []DescriptorMatch{{Key: "b", Value: fmt.Sprint(i)}}}
		},
		func(i int) Request { return Request{User: "u", Descriptor: []DescriptorEntry{{"b", fmt.Sprint(i)}}} }},
}

func descriptorOf(entries ...DescriptorEntry) Request { return Request{Descriptor: entries} }

func ipv4(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1}) }
func ipv6(i int) netip.Addr {
	return netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, byte(i >> 8), byte(i), 15: 1})
}

func TestMatch_ManyRulesOfOnePath(t *testing.T) {
	const count = 10_000
	for _, kind := range anchorKinds {
		t.Run(kind.name, func(t *testing.T) {
			var rules []testRule
			for i := range count {
				rule := kind.rule(i)
				rule.Paths = []string{"/api/**"}
				rules = append(rules, rule)
			}
			m := mustCompile(t, rules)
			if anchors := m.index.leaves[0].anchorCount; anchors != 1 {
				t.Fatalf("a request has to look up %d anchors", anchors)
			}
			for i := 0; i < count; i += 97 {
				req := kind.request(i)
				req.Path = "/api/items"
				if got := m.Match(&req, nil).Rules; len(got) != 1 || got[0] != int32(i) {
					t.Fatalf("request %d gets rules %v", i, got)
				}
				if count := candidateCount(m, &req); count != 1 {
					t.Fatalf("request %d has to look at %d rules", i, count)
				}
			}
		})
	}
}

// candidateCount returns how many candidates a request with a clean path has.
func candidateCount(m *Matcher, req *Request) int {
	q := query{req: req, path: req.Path, host: hostName(req.Host), ip: plainAddr(req.IP)}
	var candidates []candidate
	for _, place := range m.trie.appendMatches(nil, req.Path) {
		candidates = m.index.appendCandidates(candidates, place, &q)
	}
	return len(candidates)
}

// A path of many thousand segments against patterns with many "**" never ends if every
// way to match is tried, and takes very long if every "**" is tried at each segment.
func TestMatch_HostilePaths(t *testing.T) {
	patterns := []string{strings.Repeat("/**/a", 4), strings.Repeat("/**/a", 3) + "/**/b", "/**/*/a/**/*/b"}
	for i := range 200 {
		patterns = append(patterns, fmt.Sprintf("/**/a/**/x%d/**/a/**/b", i))
	}
	paths, err := CompilePaths(patterns)
	if err != nil {
		t.Fatal(err)
	}
	deep := strings.Repeat("/a", 50_000)
	for path, want := range map[string]bool{deep: true, deep + "/b": true, deep + "/c": false, "/a/x7/a/b": true} {
		if got := paths.MatchAny(path); got != want {
			t.Errorf("a path of %d bytes: %v, want %v", len(path), got, want)
		}
	}

	var long strings.Builder
	patterns = nil
	for i := range 10_000 {
		fmt.Fprintf(&long, "/x%d", i)
		patterns = append(patterns, fmt.Sprintf("/**/x%d/**/export", i))
	}
	if paths, err = CompilePaths(patterns); err != nil {
		t.Fatal(err)
	}
	if paths.MatchAny(long.String()) || !paths.MatchAny(long.String()+"/export") {
		t.Error("a path that enters every pattern is not matched as its end demands")
	}
}

func TestMatch_RepeatedLinesAndLabels(t *testing.T) {
	var rules []testRule
	for range 100 {
		rules = append(rules, testRule{Headers: map[string][]string{"X-Tier": {"gold"}}, Hosts: []string{"*.example.com"}})
	}
	m := mustCompile(t, rules)
	req := &Request{Path: "/", Host: strings.Repeat("a.", 100_000) + "example.com", Headers: map[string][]string{"X-Tier": {}}}
	for range 100_000 {
		req.Headers["X-Tier"] = append(req.Headers["X-Tier"], "gold")
	}
	if got := m.Match(req, nil).Rules; len(got) != len(rules) {
		t.Errorf("%d rules match", len(got))
	}
	if count := candidateCount(m, req); count != len(rules) {
		t.Errorf("%d rules give %d candidates", len(rules), count)
	}
}

func TestMatch_ManyGoroutines(t *testing.T) {
	rules, paths := distinctPaths(200)
	m := mustCompile(t, rules)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i, path := range paths {
				if got := m.Match(&Request{Path: path + "/"}, nil).Rules; len(got) != 1 || got[0] != int32(i) {
					t.Errorf("%s: %v", path, got)
				}
			}
		})
	}
	group.Wait()
}
