package rules_test

import (
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// A burst changes the capacity and keeps the rate, also if it is set twice.
func TestBand_Burst(t *testing.T) {
	for _, c := range []struct{ got, want rules.Band }{
		{rules.PerMinute(60).Burst(10), rules.Band{Capacity: 10, RefillTokens: 60, Refill: time.Minute}},
		{rules.PerSecond(5).Burst(100).Burst(20), rules.Band{Capacity: 20, RefillTokens: 5, Refill: time.Second}},
		{rules.Band{Label: "b", Capacity: 7, RefillTokens: 3, Refill: time.Hour}.Burst(9),
			rules.Band{Label: "b", Capacity: 9, RefillTokens: 3, Refill: time.Hour}},
	} {
		if c.got != c.want {
			t.Errorf("%+v, want %+v", c.got, c.want)
		}
		if set, err := rules.NewSet("s", rules.Rule{ID: "r", Bands: []rules.Band{c.got}}); err != nil || set.At(0).Bands[0] != c.want {
			t.Errorf("%+v is not valid in a rule set: %v", c.got, err)
		}
	}
}
