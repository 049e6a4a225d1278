package middleware

import (
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// A sliding window has its period as the window. A quota has none, its periods have
// no fixed length, and requests at the same time have none either.
func TestPolicyOf_Kinds(t *testing.T) {
	for want, band := range map[string]rules.Band{
		`"b";q=9;w=60`: {Kind: rules.SlidingWindow, Capacity: 9, Refill: time.Minute},
		`"b";q=9`:      {Kind: rules.Quota, Capacity: 9, Period: "month"},
		`"b";q=20`:     {Kind: rules.Concurrency, Capacity: 20, Hold: time.Minute},
	} {
		if got := policyOf(`"b"`, rules.MeasureRequests, band.Capacity, &band); got != want {
			t.Errorf("%+v is %s, want %s", band, got, want)
		}
	}
}
