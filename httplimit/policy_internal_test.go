package httplimit

import (
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
)

// A sliding window has its period as the window, and a quota none: its periods have
// no fixed length.
func TestPolicyOf_Kinds(t *testing.T) {
	for want, band := range map[string]fluxgate.Band{
		`"b";q=9;w=60`: {Kind: fluxgate.SlidingWindow, Capacity: 9, Refill: time.Minute},
		`"b";q=9`:      {Kind: fluxgate.Quota, Capacity: 9, Period: "month"},
	} {
		if got := policyOf(`"b"`, band.Capacity, &band); got != want {
			t.Errorf("%+v is %s, want %s", band, got, want)
		}
	}
}
