package match

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
)

// distinctPaths returns rules that each have paths of their own, as the services
// behind a gateway do, and a path for each.
func distinctPaths(count int) (rules []testRule, paths []string) {
	shapes := []struct{ pattern, path string }{
		{"/api/v1/service-%d/**", "/api/v1/service-%d/items/42"},
		{"/api/v1/service-%d/items/*", "/api/v1/service-%d/items/42"},
		{"/api/v2/team-%d/*/export", "/api/v2/team-%d/reports/export"},
		{"/static/bundle-%d", "/static/bundle-%d"},
	}
	for i := range count {
		shape := shapes[i%len(shapes)]
		rules = append(rules, testRule{Paths: []string{fmt.Sprintf(shape.pattern, i)}})
		paths = append(paths, fmt.Sprintf(shape.path, i))
	}
	return rules, paths
}

// oneRulePerTenant returns rules for the same path that differ in the tenant, and the
// tenants.
func oneRulePerTenant(count int) (rules []testRule, tenants []string) {
	for i := range count {
		tenant := fmt.Sprintf("tenant-%d", i)
		rules = append(rules, testRule{
			Paths:      []string{"/api/**"},
			Attributes: map[string][]string{"tenant": {tenant}},
		})
		tenants = append(tenants, tenant)
	}
	return rules, tenants
}

// shuffle puts requests into an order in which neighbours in memory are of no help.
func shuffle[T any](list []T) {
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
}

func benchmarkMatch(b *testing.B, count int) {
	rules, paths := distinctPaths(count)
	m := mustCompile(b, rules)
	shuffle(paths)
	req := &Request{Method: "GET", Host: "api.example.com"}
	dst := make([]int32, 0, 64)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		req.Path = paths[i%count]
		if dst = m.Match(req, dst[:0]).Rules; len(dst) != 1 {
			b.Fatalf("%s: %d rules", req.Path, len(dst))
		}
	}
}

func benchmarkMatchAnchored(b *testing.B, count int) {
	rules, tenants := oneRulePerTenant(count)
	m := mustCompile(b, rules)
	shuffle(tenants)
	req := &Request{Path: "/api/v1/items/42", Method: "GET", Host: "api.example.com"}
	req.Attributes = make(map[string]string) // one for all: a real request has just been built
	dst := make([]int32, 0, 64)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		req.Attributes["tenant"] = tenants[i%count]
		if dst = m.Match(req, dst[:0]).Rules; len(dst) != 1 {
			b.Fatalf("%v: %d rules", req.Attributes, len(dst))
		}
	}
}

// benchmarkMatchDescriptor has rules that differ in the values of two entries, and for
// each value of the first a default, as in a configuration of envoyproxy/ratelimit.
func benchmarkMatchDescriptor(b *testing.B, tenants, methods int) {
	var rules []testRule
	var descriptors [][]DescriptorEntry
	for i := range tenants {
		var known []string
		tenant := fmt.Sprint("tenant-", i)
		for j := range methods {
			method := fmt.Sprint("method-", j)
			known = append(known, method)
			rules = append(rules, testRule{Descriptor: []DescriptorMatch{{Key: "tenant", Value: tenant}, {Key: "method", Value: method}}})
			descriptors = append(descriptors, []DescriptorEntry{{"tenant", tenant}, {"method", method}})
		}
		rules = append(rules, testRule{Descriptor: []DescriptorMatch{{Key: "tenant", Value: tenant}, {Key: "method", Except: known}}})
	}
	m := mustCompile(b, rules)
	shuffle(descriptors)
	req := &Request{}
	dst := make([]int32, 0, 64)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		req.Descriptor = descriptors[i%len(descriptors)]
		if dst = m.Match(req, dst[:0]).Rules; len(dst) != 1 {
			b.Fatalf("%v: %d rules", req.Descriptor, len(dst))
		}
	}
}

// The cost of rules with several conditions of which the last does not hold. They are so few
// that they are not in an index.
func BenchmarkMatchConditions(b *testing.B) {
	var rules []testRule
	for i := range scanLimit {
		rules = append(rules, testRule{
			Methods: []string{"GET"}, Hosts: []string{"*.example.com"},
			Headers: map[string][]string{"X-Plan": {"gold"}}, Attributes: map[string][]string{"tenant": {"*"}},
			IPs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Users: []string{fmt.Sprint("user-", i)},
		})
	}
	m := mustCompile(b, rules)
	req := &Request{
		Path: "/a", Method: "GET", Host: "api.example.com", IP: netip.MustParseAddr("10.0.0.1"), User: "user-3",
		Headers: map[string][]string{"X-Plan": {"gold"}}, Attributes: map[string]string{"tenant": "acme"},
	}
	dst := make([]int32, 0, 64)
	b.ReportAllocs()
	for b.Loop() {
		if dst = m.Match(req, dst[:0]).Rules; len(dst) != 1 {
			b.Fatalf("%d rules", len(dst))
		}
	}
}

func BenchmarkMatch100(b *testing.B)           { benchmarkMatch(b, 100) }
func BenchmarkMatch10000(b *testing.B)         { benchmarkMatch(b, 10_000) }
func BenchmarkMatchAnchored100(b *testing.B)   { benchmarkMatchAnchored(b, 100) }
func BenchmarkMatchAnchored10000(b *testing.B) { benchmarkMatchAnchored(b, 10_000) }

func BenchmarkMatchDescriptor100(b *testing.B)   { benchmarkMatchDescriptor(b, 10, 10) }
func BenchmarkMatchDescriptor10000(b *testing.B) { benchmarkMatchDescriptor(b, 100, 100) }

// The cost of explaining every rule that does not apply.
func BenchmarkExplain10000(b *testing.B) {
	byPath, paths := distinctPaths(5_000)
	byTenant, tenants := oneRulePerTenant(5_000)
	rules := slices.Concat(byPath, byTenant)
	m := mustCompile(b, rules)
	req := &Request{Path: paths[4_999], Attributes: map[string]string{"tenant": tenants[4_999]}}
	b.ReportAllocs()
	for b.Loop() {
		if got := applying(m.Explain(req).Rules); len(got) == 0 {
			b.Fatal("no rule applies")
		}
	}
}

func mustCompile(t testing.TB, rules []testRule) *Matcher {
	t.Helper()
	m, err := compileAll(rules)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
