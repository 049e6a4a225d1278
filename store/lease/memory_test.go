package lease_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/lease"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// engine returns an engine over a gateway.
func (f *fleet) engine(gateway *lease.Store, option fluxgate.Option, list ...rules.Rule) *fluxgate.Engine {
	f.Helper()
	for i := range list {
		list[i].ID = fmt.Sprint("rule-", i)
	}
	set := fluxgate.Must(rules.NewSet("api", list...))
	return fluxgate.Must(fluxgate.New(gateway, fluxgate.Static(set), option))
}

// check sends requests, one each millisecond, and returns their decisions.
func (f *fleet) check(engine *fluxgate.Engine, requests int) (all []fluxgate.Decision) {
	f.Helper()
	for range requests {
		d, err := engine.Check(f.Context(), &fluxgate.Request{})
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, d)
		time.Sleep(time.Millisecond)
	}
	return all
}

// An explanation says of a rule which answers may come from memory, and those do, and no
// others.
func TestStore_FromMemory(t *testing.T) {
	bands := func(all ...rules.Band) []rules.Band { return all }
	fast := rules.Band{Capacity: 100, RefillTokens: 200, Refill: time.Second}
	for want, rule := range map[string]rules.Rule{
		"rejections and local tokens": {Bands: bands(fast, rules.Band{Capacity: 40, RefillTokens: 200, Refill: time.Second})},
		"local tokens":                {Bands: bands(fast), Mode: rules.ModeShadow},
		"rejections; no local tokens: capacity 39 is below 40":          {Bands: bands(fast, rules.PerDay(39))},
		"rejections; no local tokens: refills below 200 a second":       {Bands: bands(fast, rules.PerDay(100))},
		"rejections; no local tokens: not all limits are token buckets": {Bands: bands(rules.Band{Kind: rules.Quota, Capacity: 100, Period: "day"})},
		"rejections; no local tokens: requests wait for tokens":         {Bands: bands(rules.PerHour(100)), OnLimitExceed: rules.WaitForRefill},
		"none: consistency is strict":                                   {Bands: bands(rules.PerHour(100)), Consistency: rules.ConsistencyStrict},
		"none: a slot may be free at any moment":                        {Bands: bands(rules.Band{Kind: rules.Concurrency, Capacity: 50, Hold: time.Hour})},
		"none: a shadow rule does not reject; capacity 39 is below 40":  {Bands: bands(rules.PerHour(39)), Mode: rules.ModeShadow},
	} {
		onVirtualTime(t, func(f *fleet, gateway func() *lease.Store) {
			engine := f.engine(gateway(), fluxgate.WithWaiting(time.Second, 100), rule)
			_, verdicts, err := engine.Effective(f.Context(), &fluxgate.Request{})
			if err != nil || verdicts[0].FromMemory != want {
				f.Errorf("%q, want %q (%v)", verdicts[0].FromMemory, want, err)
			}
			var leases, refusals bool
			for _, d := range f.check(engine, 300) {
				for b := range d.Bands() {
					memory := b.Source == store.FromLease || b.Source == store.FromNegativeCache
					leases = leases || memory && b.Status == store.OK
					refusals = refusals || memory && !d.Allowed
				}
			}
			allowed, _, _ := strings.Cut(want, ";")
			if leases != strings.Contains(allowed, "local tokens") || refusals != strings.Contains(allowed, "rejections") {
				f.Errorf("%s: from memory were admissions %v, refusals %v", want, leases, refusals)
			}
		})
	}
}

// The fallback begins at the level that the store has reported for the last slice, also
// where another rule has refused the last request.
func TestLease_FallbackLevel(t *testing.T) {
	const capacity, rate = 2_000, 200
	shared := rules.Rule{Bands: []rules.Band{{Capacity: capacity, RefillTokens: rate, Refill: time.Second}}}
	for name, list := range map[string][]rules.Rule{
		"one rule":  {shared},
		"two rules": {shared, {Bands: []rules.Band{rules.PerSecond(500)}}},
	} {
		onVirtualTime(t, func(f *fleet, gateway func() *lease.Store) {
			local := fluxgate.Must(memstore.New(memstore.Config{}))
			engine := f.engine(gateway(), fluxgate.WithFallback(local), list...)
			start, admitted := time.Now(), 0
			check := func(requests int) (last fluxgate.Decision) {
				for _, last = range f.check(engine, requests) {
					if last.Allowed {
						admitted++
					}
				}
				return last
			}
			for last := check(1_500); len(list) == 2 && (last.Allowed || last.Source != store.FromLease); {
				last = check(1)
			}
			if admitted < capacity/3 || f.calls.Load() > 400 {
				f.Errorf("%s: %d calls for %d tokens: the bucket is not leased", name, f.calls.Load(), admitted)
			}
			synctest.Wait() // for calls ahead
			f.fail = store.ErrNotSent
			check(4_000)
			if most := capacity + int(rate*time.Since(start).Seconds()); admitted > most || admitted < most*9/10 {
				f.Errorf("%s: %d of %d admitted", name, admitted, most)
			}
		})
	}
}
