package fluxgate_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// slowBands is a band of each kind that counts tokens, which regains hardly any in a minute.
var slowBands = map[string]rules.Band{
	"token bucket":   {Label: "plan", Capacity: 100, Refill: 30 * 24 * time.Hour},
	"quota":          {Label: "plan", Kind: rules.Quota, Capacity: 100, Period: "month"},
	"sliding window": {Label: "plan", Kind: rules.SlidingWindow, Capacity: 100, Refill: 24 * time.Hour},
}

func (f *fleet) used(g *gate) int64 { return 100 - g.left(fluxgate.Request{})["r.plan"] }

// A take of the fallback is settled in the shared budget, before the store was charged for it,
// while it is charged, and after.
func TestSettle_FallbackReachesStore(t *testing.T) {
	for kind, band := range slowBands {
		for _, actual := range []int64{0, 1, 50, 90} {
			for _, wait := range []time.Duration{0, 5 * time.Second, time.Minute} {
				t.Run(fmt.Sprint(kind, " at ", actual, " after ", wait), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						f := newFleet(t, 1, rules.Rule{ID: "r", Bands: []rules.Band{band, {Label: "burst", Capacity: 100, Refill: 24 * time.Hour}}})
						g := f.gateways[0]
						f.store.away(errNotSent)
						d := g.check(fluxgate.Request{Cost: 50})
						if wait > 0 {
							f.back(0)
						}
						time.Sleep(wait)
						s := g.settle(&d, actual)
						f.back(0)
						time.Sleep(5 * time.Second)
						// What has refilled in a minute, less than a token, does not come back.
						if back := 50 - actual - s.Returned; back < 0 && actual < 50 || back > 1 || s.Charged != max(0, actual-50) {
							t.Errorf("settled %+v, want %d", s, actual)
						}
						if got := f.used(g); got != actual {
							t.Errorf("the store shows %d used, want %d", got, actual)
						}
					})
				})
			}
		}
	}
}

// Once it is forgotten what the store was charged, a take of the fallback can cost more, and
// nothing of it comes back.
func TestSettle_FallbackForgotten(t *testing.T) {
	for _, c := range []struct{ actual, used, lost int64 }{{90, 90, 0}, {20, 50, 1}} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, 1, rules.Rule{ID: "r", Bands: []rules.Band{slowBands["quota"]}})
			g := f.gateways[0]
			f.store.away(errNotSent)
			d := g.check(fluxgate.Request{Cost: 50})
			f.back(0)
			time.Sleep(time.Hour)
			s := g.settle(&d, c.actual)
			if got := f.used(g); got != c.used || s.Charged != c.used-50 || g.FallbackStats().LostSettlements != c.lost {
				t.Errorf("settled %+v at %d: the store shows %d used, want %d; %+v", s, c.actual, got, c.used, g.FallbackStats())
			}
		})
	}
}

// A settlement that is lost counts for each rule, whatever it is lost by.
func TestSettle_LostByRule(t *testing.T) {
	for name, lose := range map[string]func(f *fleet){
		"the answer": func(f *fleet) { f.store.away(errors.New("timeout")) },
		"the charge": func(*fleet) { time.Sleep(time.Hour) }, // forgotten
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, 1, rules.Rule{ID: "r", Bands: []rules.Band{slowBands["quota"]}}, rules.Rule{ID: "s", Bands: []rules.Band{slowBands["quota"]}})
				g := f.gateways[0]
				f.store.away(errNotSent)
				d := g.check(fluxgate.Request{Cost: 50})
				f.back(0)
				time.Sleep(5 * time.Second)
				lose(f)
				_, _ = g.Settle(t.Context(), d.Receipt(), 20)
				if n := g.FallbackStats().LostSettlements; n != 2 {
					t.Errorf("%d settlements are lost, want one for each of two rules", n)
				}
			})
		})
	}
}

// A refund of a take of the fallback is at most what the store was charged for it.
func TestSettle_FallbackRefundBounded(t *testing.T) {
	for kind, band := range slowBands {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, 2, rules.Rule{ID: "r", Bands: []rules.Band{band}})
				one, other := f.gateways[0], f.gateways[1]
				f.store.away(errNotSent)
				d := one.check(fluxgate.Request{Cost: 40})
				f.store.away(nil)
				f.views[0].back.Store(new(time.Now().Add(time.Minute)))
				f.views[0].decides.Store(new(time.Now().Add(time.Minute)))
				time.Sleep(time.Second)
				other.check(fluxgate.Request{Cost: 90}) // 10 are left to be charged
				time.Sleep(2 * time.Minute)
				if used, stats := f.used(other), one.FallbackStats(); used != 100 || stats.Charged != 10 {
					t.Fatalf("%d used, stats %+v; want 100 and 10 charged", used, stats)
				}
				if s := one.settle(&d, 0); s.Returned < 9 || s.Returned > 10 {
					t.Errorf("settled %+v, want 10 returned, less what has refilled", s)
				}
				if used := f.used(other); used != 90 {
					t.Errorf("%d used, want the 90 of the other gateway", used)
				}
			})
		})
	}
}

// A settlement that the store does not get is sent when it is available. One that may have
// run is not sent again.
func TestSettle_StoreAway(t *testing.T) {
	refused := fmt.Errorf("out of memory: %w", store.ErrRefused)
	lost := errors.New("timeout")
	for _, why := range []error{errNotSent, refused, lost} {
		for kind, band := range slowBands {
			for _, actual := range []int64{1, 90} {
				t.Run(fmt.Sprint(why, " ", kind, " at ", actual), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						f := newFleet(t, 1, rules.Rule{ID: "r", Bands: []rules.Band{band}})
						g := f.gateways[0]
						d := g.check(fluxgate.Request{Cost: 50})
						f.store.away(why)
						s, err := g.Settle(t.Context(), d.Receipt(), actual)
						if wantErr := errors.Is(why, lost); s != (store.Settlement{}) || (err != nil) != wantErr {
							t.Errorf("settled %+v, error %v", s, err)
						}
						if n := g.FallbackStats().PendingSettlements; (n == 1) == errors.Is(why, lost) {
							t.Errorf("%d settlements wait", n)
						}
						time.Sleep(time.Second)
						f.back(0)
						time.Sleep(5 * time.Second)
						want := actual
						if errors.Is(why, lost) {
							want = 50
						}
						if got := f.used(g); got != want {
							t.Errorf("the store shows %d used, want %d", got, want)
						}
					})
				})
			}
		}
	}
}

// Settlements that wait are bounded.
func TestSettle_StoreAwayBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1, rules.Rule{ID: "r", Bands: []rules.Band{{Label: "plan", Kind: rules.Quota, Capacity: 1_000_000, Period: "month"}}})
		g := f.gateways[0]
		const most, more = 10_000, 5
		var receipts []*fluxgate.Receipt
		for range most + more {
			d := g.check(fluxgate.Request{})
			receipts = append(receipts, d.Receipt())
		}
		f.store.away(errNotSent)
		failed := 0
		for _, r := range receipts {
			if _, err := g.Settle(t.Context(), r, 0); errors.Is(err, store.ErrNotSent) {
				failed++
			}
		}
		if s := g.FallbackStats(); failed != more || s.PendingSettlements != most || s.LostSettlements != more {
			t.Errorf("%d failed, stats %+v; want %d waiting and %d lost", failed, s, most, more)
		}
		f.store.away(nil)
		time.Sleep(5 * time.Second)
		if s := g.FallbackStats(); s.PendingSettlements != 0 || s.LostSettlements != more {
			t.Errorf("stats %+v, want none waiting", s)
		}
		if left := g.left(fluxgate.Request{})["r.plan"]; left != 1_000_000-more {
			t.Errorf("%d left", left)
		}
	})
}

// A take of the fallback is settled by its tokens, also if the share was another one.
func TestSettle_FallbackOtherShare(t *testing.T) {
	for _, gateways := range [][]int64{{1, 2}, {2, 1}, {4, 2}} {
		for _, actual := range []int64{0, 5, 20} {
			t.Run(fmt.Sprint(gateways, actual), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFleet(t, 1, rules.Rule{ID: "r", Bands: []rules.Band{slowBands["token bucket"]}})
					g := f.gateways[0]
					f.store.away(errNotSent)
					f.store.gateways.Store(gateways[0])
					d := g.check(fluxgate.Request{Cost: 10})
					f.store.gateways.Store(gateways[1])
					g.admitted(8, fluxgate.Request{})
					g.settle(&d, actual)
					time.Sleep(time.Second)
					f.back(0)
					time.Sleep(5 * time.Second)
					if got, want := f.used(g), 8+actual; got != want {
						t.Errorf("the store shows %d used, want %d", got, want)
					}
				})
			})
		}
	}
}

// A band that gives back what another cannot is given back in the store too: here callers
// that wait go away while the store is charged for them, and their tokens are promised to
// those behind them.
func TestSettle_FallbackEachBand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		set := ruleSet(t, rules.Rule{ID: "r", OnLimitExceed: rules.WaitForRefill, Bands: []rules.Band{
			{Label: "paced", Capacity: 20, Refill: time.Second}, {Label: "plan", Kind: rules.Quota, Capacity: 100, Period: "month"},
		}})
		g := &gate{TB: t, Engine: newEngine(t, f.views[0], set, fluxgate.WithFallback(newStore(t, nil)), fluxgate.WithWaiting(time.Second, 100))}
		f.store.away(errNotSent)
		g.admitted(20, fluxgate.Request{})
		var waiting sync.WaitGroup
		for i := range 8 { // they are due 50 ms apart: one of them does not go away before
			ctx, leave := context.WithCancel(t.Context())
			waiting.Go(func() { _, _ = g.Check(ctx, &fluxgate.Request{}) })
			time.AfterFunc(70*time.Millisecond+time.Duration(i)*time.Microsecond, leave)
			time.Sleep(time.Microsecond)
		}
		f.store.latency.Store(int64(40 * time.Millisecond)) // a charge begins at 50 ms and ends at 90 ms
		f.back(0)
		waiting.Wait()
		time.Sleep(5 * time.Second)
		if got := f.used(g); got != 21 {
			t.Errorf("the store shows %d used, want 21", got)
		}
	})
}

// A band gets back its own part if a take is settled while the store is charged for it, also if
// another band has refilled meanwhile.
func TestSettle_FallbackBesideRefilled(t *testing.T) {
	for kind, plan := range slowBands {
		for _, refill := range []time.Duration{100 * time.Millisecond, 400 * time.Millisecond} {
			t.Run(fmt.Sprint(kind, refill), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFleet(t, 1, rules.Rule{ID: "r", Bands: []rules.Band{{Label: "burst", Capacity: 20, Refill: refill}, plan}})
					g := f.gateways[0]
					f.store.away(errNotSent)
					d := g.check(fluxgate.Request{Cost: 10})
					f.store.latency.Store(int64(40 * time.Millisecond)) // a charge begins at 50 ms and ends at 90 ms
					f.back(0)
					time.Sleep(70 * time.Millisecond)
					g.settle(&d, 0)
					time.Sleep(5 * time.Second)
					if got := f.used(g); got != 0 {
						t.Errorf("the store shows %d used, want 0", got)
					}
				})
			})
		}
	}
}
