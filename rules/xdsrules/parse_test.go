package xdsrules

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	pb "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
)

func pack(t *testing.T, configs ...*pb.RateLimitConfig) []*anypb.Any {
	t.Helper()
	var all []*anypb.Any
	for _, c := range configs {
		packed, err := anypb.New(c)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, packed)
	}
	return all
}

// Every field of a configuration has its effect on the rules.
func TestParse_Fields(t *testing.T) {
	metadata, err := structpb.NewStruct(map[string]any{"team": "edge"})
	if err != nil {
		t.Fatal(err)
	}
	policy := func(unit pb.RateLimitUnit, requests uint32) *pb.RateLimitPolicy {
		return &pb.RateLimitPolicy{Unit: unit, RequestsPerUnit: requests}
	}
	named := policy(pb.RateLimitUnit_WEEK, 4)
	named.Name, named.Replaces = "four", []*pb.RateLimitReplace{{Name: "elsewhere"}}
	c, err := parse(pack(t, &pb.RateLimitConfig{Name: "r", Domain: "shop", Descriptors: []*pb.RateLimitDescriptor{
		{Key: "a", Value: "x", RateLimit: policy(pb.RateLimitUnit_SECOND, 1), ShadowMode: true, Metadata: metadata},
		{Key: "b", RateLimit: policy(pb.RateLimitUnit_MINUTE, 2), QuotaMode: true, DetailedMetric: true},
		{Key: "c", RateLimit: &pb.RateLimitPolicy{Unlimited: true}},
		{Key: "d", Value: "y*", RateLimit: policy(pb.RateLimitUnit_HOUR, 3), Descriptors: []*pb.RateLimitDescriptor{{Key: "e", RateLimit: named}}},
		{Key: "f", RateLimit: policy(pb.RateLimitUnit_MONTH, 5)},
		{Key: "g", RateLimit: policy(pb.RateLimitUnit_YEAR, 6)},
	}}), &content{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(c.Versions["shop"].RuleSet)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"a_x"`, `"mode":"shadow"`, `"team":"edge"`, `"period":"second"`, `"period":"minute"`, `"mode":"alternative"`, `"action":"allow"`,
		`{"key":"d","value":"y*"}`, `{"key":"e"}`, `"capacity":4`, `"period":"week"`, `"envoy.name":"four"`,
		`"period":"month"`, `"period":"year"`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the rules have no %s: %s", want, text)
		}
	}
	if len(c.notes) == 0 || !strings.HasPrefix(c.notes[0], `resource "r": `) {
		t.Errorf("the notes are %q", c.notes)
	}
	again, err := parse(pack(t, limit("blog", 1), &pb.RateLimitConfig{Name: "empty", Domain: "empty"}), c)
	if err != nil || len(again.Versions) != 2 || !again.Heads["shop"].Deleted || again.Heads["shop"].Revision != c.Heads["shop"].Revision {
		t.Errorf("after it was removed: %+v, %v", again, err)
	}
}

// A response is refused for what is wrong with any resource, and for all of it.
func TestParse_Refused(t *testing.T) {
	deep := &pb.RateLimitDescriptor{Key: "k", RateLimit: &pb.RateLimitPolicy{Unit: pb.RateLimitUnit_DAY, RequestsPerUnit: 1}}
	for range 50 {
		deep = &pb.RateLimitDescriptor{Key: "k", Descriptors: []*pb.RateLimitDescriptor{deep}}
	}
	unknown := limit("unknown", 1)
	unknown.Descriptors[0].RateLimit.Unit = 99
	for want, resources := range map[string][]*anypb.Any{
		`has the type "type.googleapis.com/other"`:             {{TypeUrl: "type.googleapis.com/other"}},
		"cannot be decoded":                                    {{TypeUrl: typeURL, Value: []byte("\xff")}},
		`resource "none": domain "": domain: is required`:      pack(t, &pb.RateLimitConfig{Name: "none"}),
		`resource "x": domain "shop"`:                          pack(t, limit("blog", 1), &pb.RateLimitConfig{Name: "x", Domain: "shop", Descriptors: []*pb.RateLimitDescriptor{{}}}),
		"descriptors are nested deeper":                        pack(t, &pb.RateLimitConfig{Name: "deep", Domain: "deep", Descriptors: []*pb.RateLimitDescriptor{deep}}),
		`rate_limit.unit of type string`:                       pack(t, unknown),
		`resource "shop": resource "shop" has the same domain`: pack(t, limit("shop", 1), limit("shop", 2)),
	} {
		if c, err := parse(resources, &content{}); c != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v", want, err)
		}
	}
}

// The reason in a refusal is bounded and valid UTF-8.
func TestDetail(t *testing.T) {
	for _, text := range []string{"short", strings.Repeat("ü", maxDetail), "\xff"} {
		if got := detail(errors.New(text)); utf8.RuneCountInString(got) > maxDetail+1 || !json.Valid([]byte(`"`+got+`"`)) || strings.Contains(got, "\xff") {
			t.Errorf("%d bytes: %q", len(got), got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("\x12\x04shop"))
	f.Fuzz(func(t *testing.T, value []byte) {
		c, err := parse([]*anypb.Any{{TypeUrl: typeURL, Value: value}}, &content{})
		if (c == nil) == (err == nil) {
			t.Errorf("content %v, error %v", c, err)
		}
	})
}
