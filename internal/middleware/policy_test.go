package middleware

import (
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// A sliding window has its period as the window. A quota has none, its periods have
// no fixed length, and requests at the same time have none either. One of less than a second
// cannot be written.
func TestPolicyOf_Kinds(t *testing.T) {
	for want, band := range map[string]rules.Band{
		`"b";q=9;w=60`: {Kind: rules.SlidingWindow, Capacity: 9, Refill: time.Minute},
		`"b";q=9`:      {Kind: rules.Quota, Capacity: 9, Period: "month"},
		`"b";q=16`:     {Capacity: 16, Refill: 999 * time.Millisecond},
		`"b";q=2;w=2`:  {Capacity: 2, RefillTokens: 1, Refill: 501 * time.Millisecond},

		`"b";q=20;qu="concurrent-requests"`: {Kind: rules.Concurrency, Capacity: 20, Hold: time.Minute},
	} {
		if got := policyOf(`"b"`, band.Capacity, &band); got != want {
			t.Errorf("%+v is %s, want %s", band, got, want)
		}
	}
}

// No two bands share a name, whatever their rules and labels are.
func TestPolicyName(t *testing.T) {
	names := map[string][2]string{}
	ids := []string{"a", "a.b", "a.b.c", "b", "b.c", "c", ".", "..", "a.", ".b", "a-b", "a_b"}
	for _, rule := range ids {
		for _, band := range ids {
			name := PolicyName(rule, band)
			if other, known := names[name]; known {
				t.Errorf("%s of %s and %s of %s are both %s", band, rule, other[1], other[0], name)
			}
			names[name] = [2]string{rule, band}
		}
	}
	if got := PolicyName("per-user", "100-per-1m"); got != "per-user.100-per-1m" {
		t.Errorf("a name is %s", got)
	}
}
