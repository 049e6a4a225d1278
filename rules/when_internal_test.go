package rules

import (
	"encoding/json"
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// A rule set keeps, copies and writes every condition of when. Without it a rule with
// only that condition would be stored as one that matches every request.
func TestWhen_EveryField(t *testing.T) {
	samples := map[reflect.Type]func() any{
		reflect.TypeFor[[]string]():            func() any { return []string{"a"} },
		reflect.TypeFor[[]netip.Prefix]():      func() any { return []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} },
		reflect.TypeFor[[]DescriptorMatch]():   func() any { return []DescriptorMatch{{Key: "k", Value: "v*", Except: []string{"vw"}}} },
		reflect.TypeFor[map[string][]string](): func() any { return map[string][]string{"a": {"b"}} },
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[When]()) {
		sample := samples[f.Type]
		if sample == nil {
			t.Fatalf("there is no sample of a %s, the type of When.%s", f.Type, f.Name)
		}
		r := Rule{ID: "r"}
		field := reflect.ValueOf(&r.When).Elem().FieldByIndex(f.Index)
		field.Set(reflect.ValueOf(sample()))
		if r.When.isEmpty() {
			t.Errorf("a condition in %s is no condition for isEmpty", f.Name)
		}
		copied := r.clone()
		if got := reflect.ValueOf(copied.When).FieldByIndex(f.Index); got.Pointer() == field.Pointer() {
			t.Errorf("a clone shares %s with the rule it was made of", f.Name)
		}
		if d := r.When.Descriptor; len(d) > 0 && &d[0].Except[0] == &copied.When.Descriptor[0].Except[0] {
			t.Error("a clone shares the exceptions of a descriptor with the rule it was made of")
		}
		text, err := json.Marshal(copied)
		if err != nil {
			t.Fatal(err)
		}
		var doc map[string]any
		if err := json.Unmarshal(text, &doc); err != nil {
			t.Fatal(err)
		}
		again, err := DecodeRule(doc)
		if err == nil && reflect.DeepEqual(again.When, copied.When) {
			continue
		}
		t.Errorf("%s is read as %+v (%v), want %+v", text, again.When, err, copied.When)
	}
}

// The matcher relies on valid conditions, and no error shows an API key.
func TestWhen_Invalid(t *testing.T) {
	for name, r := range map[string]Rule{
		"an empty method":                {Methods: []string{""}},
		"an empty user":                  {When: When{Users: []string{"a", ""}}},
		"an attribute without values":    {When: When{Attributes: map[string][]string{"tier": {}}}},
		"a header without name":          {When: When{Headers: map[string][]string{"": {"x"}}}},
		"a star as host":                 {When: When{Hosts: []string{"*"}}},
		"a star inside a host":           {When: When{Hosts: []string{"api.*.com"}}},
		"an address as host":             {When: When{Hosts: []string{"https://example.com/"}}},
		"an empty host":                  {When: When{Hosts: []string{":80"}}},
		"a host that begins with a dot":  {When: When{Hosts: []string{".a"}}},
		"a wildcard and a dot":           {When: When{Hosts: []string{"*..a"}}},
		"a host that is too long":        {When: When{Hosts: []string{strings.Repeat("a", 253)}}},
		"no network":                     {When: When{IPs: []netip.Prefix{{}}}},
		"a network across both families": {When: When{IPs: []netip.Prefix{netip.MustParsePrefix("::ffff:10.0.0.0/90")}}},
		"a descriptor without key":       {When: When{Descriptor: []DescriptorMatch{{Key: "a"}, {Value: "1"}}}},
		"a star inside a value":          {When: When{Descriptor: []DescriptorMatch{{Key: "a", Value: "f*o"}}}},
		"two stars":                      {When: When{Descriptor: []DescriptorMatch{{Key: "a", Value: "f**"}}}},
		"a star inside an exception":     {When: When{Descriptor: []DescriptorMatch{{Key: "a", Except: []string{"b", "*c"}}}}},
		"a descriptor that is too long":  {When: When{Descriptor: slices.Repeat([]DescriptorMatch{{Key: "a"}}, 17)}},
		"an empty API key":               {When: When{APIKeys: []string{""}}},
		"a malformed digest":             {When: When{APIKeys: []string{"k", "sha256:top-secret"}}},
	} {
		r.ID, r.Bands = "r", []Band{PerSecond(1)}
		_, err := NewSet("s", r)
		if !errors.As(err, new(*ValidationError)) || strings.Contains(err.Error(), "top-secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
