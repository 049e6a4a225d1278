package fluxgate

import (
	"net/netip"
	"reflect"
	"testing"
)

// The matcher gets everything that it looks at.
func TestRequest_MatchingEveryField(t *testing.T) {
	r := Request{
		IP: netip.MustParseAddr("192.0.2.1"), UserID: "u", APIKey: "k", Method: "GET", Path: "/a", Host: "h",
		Headers: map[string][]string{"X": {"1"}}, Attributes: map[string]string{"a": "b"}, Descriptor: []DescriptorEntry{{Key: "k"}},
	}
	got := reflect.ValueOf(r.matching(1))
	for i := range got.NumField() {
		if got.Field(i).IsZero() {
			t.Errorf("the matcher gets no %s", got.Type().Field(i).Name)
		}
	}
}
