package match

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// Explain names the condition that a request does not meet, for every kind of
// condition.
func TestExplain_Obstacles(t *testing.T) {
	rule := testRule{
		Paths: []string{"/api/**"}, ExcludePaths: []string{"/api/health"}, Methods: []string{"get"}, Hosts: []string{"*.example.com"},
		Headers:    map[string][]string{"x-color": {"*"}, "X-Tier": {"gold"}},
		Attributes: map[string][]string{"region": {"eu"}, "tenant": {"acme"}},
		IPs:        []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		Users:      []string{"ann"}, APIKeys: []string{"secret"}, Until: time.Unix(10, 0),
		Descriptor: []DescriptorMatch{{Key: "route", Value: "login"}, {Key: "client", Except: []string{"test*"}}},
	}
	tests := []struct {
		name   string
		change func(*Request)
		want   Verdict
	}{
		{"nothing", func(r *Request) { r.Now = 9_999_999 }, Verdict{By: -1}},
		{"the path", func(r *Request) { r.Path = "/other" }, Verdict{ObstaclePath, "", -1}},
		{"the end", func(r *Request) { r.Now = 10_000_000 }, Verdict{ObstacleExpired, "", -1}},
		{"an excluded path", func(r *Request) { r.Path = "/api/health?x" }, Verdict{ObstacleExcludedPath, "", -1}},
		{"the method", func(r *Request) { r.Method = "POST" }, Verdict{ObstacleMethod, "", -1}},
		{"the host", func(r *Request) { r.Host = "example.com" }, Verdict{ObstacleHost, "", -1}},
		{"a header", func(r *Request) { r.Headers["X-Tier"] = []string{"gold, silver"} }, Verdict{ObstacleHeader, "X-Tier", -1}},
		{"a header that must only be there", func(r *Request) { delete(r.Headers, "X-Color") }, Verdict{ObstacleHeader, "x-color", -1}},
		{"an attribute", func(r *Request) { r.Attributes["tenant"] = "other" }, Verdict{ObstacleAttribute, "tenant", -1}},
		{"an attribute that is missing", func(r *Request) { delete(r.Attributes, "region") }, Verdict{ObstacleAttribute, "region", -1}},
		{"a value of the descriptor", func(r *Request) { r.Descriptor[0].Value = "logout" }, Verdict{ObstacleDescriptor, "route", -1}},
		{"a value that the descriptor must not have", func(r *Request) { r.Descriptor[1].Value = "test-1" }, Verdict{ObstacleDescriptor, "client", -1}},
		{"an entry that the descriptor lacks", func(r *Request) { r.Descriptor = r.Descriptor[:1] }, Verdict{ObstacleDescriptor, "client", -1}},
		{"an entry more", func(r *Request) { r.Descriptor = append(r.Descriptor, DescriptorEntry{"x", "y"}) }, Verdict{ObstacleDescriptor, "", -1}},
		{"the address", func(r *Request) { r.IP = netip.MustParseAddr("11.0.0.1") }, Verdict{ObstacleIP, "", -1}},
		{"the user", func(r *Request) { r.User = "bob" }, Verdict{ObstacleUser, "", -1}},
		{"the API key", func(r *Request) { r.APIKey = "guess" }, Verdict{ObstacleAPIKey, "", -1}},
		{"the first of several", func(r *Request) { r.User, r.Host, r.APIKey = "bob", "", "" }, Verdict{ObstacleHost, "", -1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req := Request{
				Path: "/api/items", Method: "GET", Host: "a.example.com:80", IP: netip.MustParseAddr("10.0.0.1"), User: "ann", APIKey: "secret",
				Headers:    map[string][]string{"X-Color": {"red"}, "X-Tier": {"silver", "gold"}},
				Attributes: map[string]string{"region": "eu", "tenant": "acme"},
				Descriptor: []DescriptorEntry{{"route", "login"}, {"client", "web"}},
			}
			tt.change(&req)
			if got := mustCompile(t, []testRule{rule}).Explain(&req).Rules[0]; got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestExplain_OtherRules(t *testing.T) {
	var (
		no      = Verdict{ObstacleUser, "", -1}
		applies = Verdict{"", "", -1}
		group   = func(by int) Verdict { return Verdict{ObstacleGroup, "", by} }
		ended   = func(by int) Verdict { return Verdict{ObstacleEnded, "", by} }
	)
	nobody := []string{"nobody"}
	tests := []struct {
		name  string
		rules []testRule
		want  []Verdict
	}{
		{"the first of its group", []testRule{{Group: "g", Users: nobody}, {Group: "g"}, {Group: "h"}, {Group: "g"}},
			[]Verdict{no, applies, applies, group(1)}},
		{"the first shadow rule for a shadow rule", []testRule{{Group: "g", Shadow: true}, {Group: "g", Shadow: true}, {Group: "g"}},
			[]Verdict{applies, group(0), applies}},
		{"the enforced rule for a shadow rule after it", []testRule{{Group: "g", Shadow: true}, {Group: "g"}, {Group: "g", Shadow: true}},
			[]Verdict{applies, applies, group(1)}},
		{"a final rule for all after it that match", []testRule{{}, {Final: true}, {}, {Users: nobody}, {Final: true}},
			[]Verdict{applies, applies, ended(1), no, ended(1)}},
		{"no final rule in shadow", []testRule{{Final: true, Shadow: true}, {}}, []Verdict{applies, applies}},
		{"the group before the end", []testRule{{Group: "g"}, {Final: true}, {Group: "g"}, {Group: "h"}, {Group: "h"}},
			[]Verdict{applies, applies, group(0), ended(1), ended(1)}},
		{"a final rule of its own group", []testRule{{Group: "g", Final: true}, {Group: "g"}, {}}, []Verdict{applies, group(0), ended(0)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := mustCompile(t, tt.rules).Explain(&Request{}).Rules; !slices.Equal(got, tt.want) {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

// If the conditions that Explain names are removed, the rule applies.
func TestExplain_RemovedObstacles(t *testing.T) {
	met := map[Obstacle]int{}
	for seed := range uint64(3_000) {
		g := generator{rand.New(rand.NewPCG(seed, 2))}
		rule, req := g.rule(g.chance(50)), g.request()
		seen := map[string]bool{}
		for {
			v := mustCompile(t, []testRule{rule}).Explain(&req).Rules[0]
			if got := mustCompile(t, []testRule{rule}).Match(&req, nil).Rules; (len(got) == 1) != v.Applies() {
				t.Fatalf("seed %d: the matcher finds %v, the explanation says %+v", seed, got, v)
			}
			if v.Applies() {
				break
			}
			if what := fmt.Sprint(v); seen[what] {
				t.Fatalf("seed %d: %+v is an obstacle after it was taken away\nrule %+v\nrequest %+v", seed, v, rule, req)
			} else {
				seen[what] = true
			}
			met[v.Obstacle]++
			takeAway(&rule, v)
		}
	}
	for _, o := range []Obstacle{
		ObstaclePath, ObstacleExpired, ObstacleExcludedPath, ObstacleMethod, ObstacleHost, ObstacleHeader, ObstacleAttribute,
		ObstacleDescriptor, ObstacleIP, ObstacleUser, ObstacleAPIKey,
	} {
		if met[o] < 20 {
			t.Errorf("%s was met %d times, so little was tried", o, met[o])
		}
	}
}

// takeAway removes the condition that a verdict names, and leaves the rule's own maps
// alone.
func takeAway(r *testRule, v Verdict) {
	switch v.Obstacle {
	case ObstaclePath:
		r.Paths = nil
	case ObstacleExpired:
		r.Until = time.Time{}
	case ObstacleExcludedPath:
		r.ExcludePaths = nil
	case ObstacleMethod:
		r.Methods = nil
	case ObstacleHost:
		r.Hosts = nil
	case ObstacleHeader:
		r.Headers = maps.Clone(r.Headers)
		delete(r.Headers, v.Name)
	case ObstacleAttribute:
		r.Attributes = maps.Clone(r.Attributes)
		delete(r.Attributes, v.Name)
	case ObstacleDescriptor:
		r.Descriptor = nil
	case ObstacleIP:
		r.IPs = nil
	case ObstacleUser:
		r.Users = nil
	case ObstacleAPIKey:
		r.APIKeys = nil
	}
}
