package fluxgate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// shared is a store that a number of gateways use.
type shared struct {
	store.Store
	gateways int
}

func (s shared) Gateways() int { return s.gateways }

// While the store is away, each of n gateways has an nth of every limit: of its capacity, and of
// its rate.
func TestFailure_ShareOfEachGateway(t *testing.T) {
	usd := func(n int64, period time.Duration) rules.Band {
		return rules.Band{Label: "b", Capacity: n * 1_000_000, Refill: period}
	}
	const day = 24 * time.Hour
	for name, band := range map[string]rules.Band{
		"10,000 a second": rules.PerSecond(10_000), "50 MB a second": rules.PerSecond(50_000_000), "30M tokens a minute": rules.PerMinute(30_000_000),
		"500 USD an hour": usd(500, time.Hour), "1,000 USD a day": usd(1_000, day), "100,000 USD a day": usd(100_000, day),
		"1,000 USD in 30 days": usd(1_000, 30*day), "10,000 USD in 30 days": usd(10_000, 30*day), "5 a day": rules.PerDay(5),
		"a quota": {Kind: rules.Quota, Capacity: 10_000_000_000, Period: "month"},
	} {
		for _, n := range []int{1, 2, 3, 4, 6, 7, 10, 49, 98, 1_000} {
			for _, configured := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s by %d, configured %t", name, n, configured), func(t *testing.T) {
					options := []fluxgate.Option{}
					if configured {
						options = append(options, fluxgate.WithFallbackShare(1/float64(n)))
					}
					away := &faulty{Store: shared{newStore(t, nil), n}, fails: errAway}
					engine := newEngine(t, away, ruleSet(t, rules.Rule{ID: "r", Bands: []rules.Band{band}}), options...)
					d := check(t, engine, fluxgate.Request{Peek: true})
					if want := max(1, band.Capacity/int64(n)); d.Limit != want {
						t.Fatalf("a limit of %d, want %d of %d", d.Limit, want, band.Capacity)
					}
					if band.Kind == rules.Quota {
						return
					}
					d = check(t, engine, fluxgate.Request{Cost: d.Limit})
					rate := float64(d.Limit) / d.ResetAfter.Seconds() * float64(n)
					if most := float64(band.Tokens()) / band.Refill.Seconds(); !d.Allowed || rate > most*1.000001 || rate < most*0.999999 {
						t.Errorf("allowed %t: %d gateways regain %v tokens a second of %v", d.Allowed, n, rate, most)
					}
				})
			}
		}
	}
}
