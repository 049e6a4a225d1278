package middleware

import (
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
)

// A sliding window has its period as the window. A quota has none, its periods have
// no fixed length, and requests at the same time have none either.
func TestPolicyOf_Kinds(t *testing.T) {
	for want, band := range map[string]fluxgate.Band{
		`"b";q=9;w=60`: {Kind: fluxgate.SlidingWindow, Capacity: 9, Refill: time.Minute},
		`"b";q=9`:      {Kind: fluxgate.Quota, Capacity: 9, Period: "month"},
		`"b";q=20`:     {Kind: fluxgate.Concurrency, Capacity: 20, Hold: time.Minute},
	} {
		if got := policyOf(`"b"`, fluxgate.MeasureRequests, band.Capacity, &band); got != want {
			t.Errorf("%+v is %s, want %s", band, got, want)
		}
	}
}
