package fluxgate_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// outage is a store that all gateways share and that can be away. It counts
// gateways and takes. Its time is that of its synctest bubble.
type outage struct {
	*memstore.Store
	gateways atomic.Int64
	// fails is the error of all calls, chargeFails that of charges.
	fails, chargeFails atomic.Pointer[error]
	charges            atomic.Int64
	dead               atomic.Pointer[string] // a rule whose node is down
	latency            atomic.Int64           // of Take, a time.Duration
}

// firstCharge is when a gateway has charged the store.
const firstCharge = 100 * time.Millisecond

// errNotSent is the error of a breaker that is open.
var errNotSent = fmt.Errorf("breaker open: %w", store.ErrNotSent)

func newOutage(t testing.TB, gateways int64) *outage {
	o := &outage{Store: newStore(t, nil)}
	o.gateways.Store(gateways)
	return o
}

func (o *outage) Gateways() int { return int(o.gateways.Load()) }
func (o *outage) away(err error) {
	if err == nil {
		o.fails.Store(nil)
		return
	}
	o.fails.Store(&err)
}

func (o *outage) Take(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
	if err := o.fails.Load(); err != nil {
		return *err
	}
	if dead := o.dead.Load(); dead != nil && demands[0].Key.Rule == *dead {
		return errNotSent
	}
	if time.Sleep(time.Duration(o.latency.Load())); ctx.Err() != nil {
		return ctx.Err()
	}
	return o.Store.Take(ctx, demands, out)
}

func (o *outage) Peek(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
	if err := o.fails.Load(); err != nil {
		return *err
	}
	return o.Store.Peek(ctx, demands, out)
}

func (o *outage) Settle(ctx context.Context, takes store.Takes, actual []int64) ([]store.Settlement, error) {
	why := o.fails.Load()
	if takes[0].Source == store.FromFallback {
		o.charges.Add(1)
		why = cmp.Or(why, o.chargeFails.Load())
	}
	if dead := o.dead.Load(); dead != nil && takes[0].Key.Rule == *dead {
		why = &errNotSent
	}
	switch {
	case why == nil:
		return o.Store.Settle(ctx, takes, actual)
	case errors.Is(*why, store.ErrNotSent) || errors.Is(*why, store.ErrRefused):
		return slices.Repeat([]store.Settlement{{NotSent: *why}}, len(takes)), nil
	}
	return nil, *why
}

// view is the store as one gateway sees it after an outage: like a breaker, it
// is away until a moment, and is then only charged for a while.
type view struct {
	*outage
	back, decides atomic.Pointer[time.Time]
}

func before(at *atomic.Pointer[time.Time]) bool {
	t := at.Load()
	return t != nil && time.Now().Before(*t)
}

func (v *view) Take(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
	if before(&v.back) || before(&v.decides) && !demands[0].Charging {
		return errNotSent
	}
	return v.outage.Take(ctx, demands, out)
}

func (v *view) Settle(ctx context.Context, takes store.Takes, actual []int64) ([]store.Settlement, error) {
	if before(&v.back) {
		return slices.Repeat([]store.Settlement{{NotSent: errNotSent}}, len(takes)), nil
	}
	return v.outage.Settle(ctx, takes, actual)
}

// fleet are gateways over one store, each with a fallback of its own.
type fleet struct {
	store    *outage
	views    []*view
	gateways []*gate
}

// back ends the outage: each gateway sees the store some time after the one
// before it, and asks it a second later.
func (f *fleet) back(apart time.Duration) {
	for i, v := range f.views {
		back := time.Now().Add(time.Duration(i) * apart)
		decides := back.Add(time.Second)
		v.back.Store(&back)
		v.decides.Store(&decides)
	}
	f.store.away(nil)
}

func newFleet(t testing.TB, gateways int, list ...rules.Rule) *fleet {
	t.Helper()
	f := &fleet{store: newOutage(t, int64(gateways))}
	set := ruleSet(t, list...)
	for range gateways {
		f.views = append(f.views, &view{outage: f.store})
		engine := newEngine(t, f.views[len(f.views)-1], set, fluxgate.WithFallback(newStore(t, nil)))
		f.gateways = append(f.gateways, &gate{TB: t, Engine: engine})
	}
	return f
}

func perMinute(n int64) rules.Rule {
	return rules.Rule{ID: "r", Bands: []rules.Band{rules.PerMinute(n)}}
}

// load sends requests in turn to all gateways, one every interval, and returns
// how many pass.
func (f *fleet) load(lasts, interval time.Duration) (admitted int) {
	for i := range int(lasts / interval) {
		admitted += f.gateways[i%len(f.gateways)].admitted(1, fluxgate.Request{})
		time.Sleep(interval)
	}
	return admitted
}

func (f *fleet) stats() (sum fluxgate.FallbackStats) {
	for _, g := range f.gateways {
		s := g.FallbackStats()
		sum.Admitted += s.Admitted
		sum.Pending += s.Pending
		sum.Charged += s.Charged
		sum.Uncharged += s.Uncharged
	}
	return sum
}

// The buckets of the fallback begin at the level that the store last reported,
// also if a single call fails.
func TestCarryover_BeginsAtLastLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 4, perMinute(400))
		g := f.gateways[0]
		g.admitted(400, fluxgate.Request{})
		f.store.away(errAway)
		d := g.check(fluxgate.Request{})
		if answerOf(&d) != (answer{false, fluxgate.ReasonLimited, "r"}) || d.Source != store.FromFallback || d.Limit != 100 || d.RetryAfter != 600*time.Millisecond {
			t.Errorf("decided %+v from %v, limit %d, retry after %v", answerOf(&d), d.Source, d.Limit, d.RetryAfter)
		}
		time.Sleep(30 * time.Second)
		if n := g.admitted(100, fluxgate.Request{}); n != 50 {
			t.Errorf("%d requests pass after half of the period, want 50", n)
		}
	})
}

// A bucket that the store has refilled begins full.
func TestCarryover_ForgetsFullBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1, perMinute(10))
		g := f.gateways[0]
		g.admitted(10, fluxgate.Request{})
		if _, err := f.store.Reset(t.Context(), store.Reset{Key: store.Key{RuleSet: "api"}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond) // a later answer of the store
		g.left(fluxgate.Request{})
		f.store.away(errAway)
		if n := g.admitted(20, fluxgate.Request{}); n != 10 {
			t.Errorf("%d requests pass, want 10", n)
		}
	})
}

// The store is charged what the fallback has granted and the time has not
// refilled, less what is left of the level that it began with.
func TestCarryover_Charges(t *testing.T) {
	for _, c := range []struct {
		name          string
		before, local int
		outage        time.Duration
		charged, left int64
	}{
		// Until it is charged a part of a token refills.
		{"all of it at once", 0, 40, 0, 39, 360},
		{"on top of what was used before", 200, 20, 0, 20, 180},
		{"less what refilled", 0, 40, 12*time.Second + time.Millisecond, 19, 380},
		{"less what refilled of that before", 200, 40, 12 * time.Second, 40, 240},
		{"nothing that refilled", 0, 40, time.Minute, 0, 400},
		{"at most its share", 0, 300, 0, 99, 300},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, 4, perMinute(400))
				g := f.gateways[0]
				g.admitted(c.before, fluxgate.Request{})
				f.store.away(errNotSent)
				g.admitted(c.local, fluxgate.Request{})
				time.Sleep(c.outage)
				f.store.away(nil)
				time.Sleep(firstCharge)
				if got := f.stats().Charged; got != c.charged {
					t.Errorf("charged %d tokens, want %d", got, c.charged)
				}
				if got := g.left(fluxgate.Request{})["r.400-per-1m"]; got != c.left {
					t.Errorf("%d left, want %d", got, c.left)
				}
				if s := f.stats(); s.Pending != 0 || s.Uncharged != 0 {
					t.Errorf("stats %+v", s)
				}
			})
		})
	}
}

// Bands are charged what each of them holds.
func TestCarryover_ChargesEachBand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1, rules.Rule{ID: "r", Bands: []rules.Band{rules.PerSecond(10), rules.PerDay(1000)}})
		g := f.gateways[0]
		f.store.away(errNotSent)
		for range 5 {
			g.admitted(10, fluxgate.Request{})
			time.Sleep(time.Second)
		}
		g.admitted(3, fluxgate.Request{})
		f.store.away(nil)
		time.Sleep(3 * time.Second)
		if got := g.left(fluxgate.Request{}); got["r.10-per-1s"] != 10 || got["r.1000-per-1d"] != 947 {
			t.Errorf("left %v, want 10 and 947", got)
		}
	})
}

// Quotas and sliding windows continue in the fallback, and the store is charged all
// that it granted and that has not come back.
func TestCarryover_OtherKinds(t *testing.T) {
	t.Parallel()
	quota := rules.Band{Kind: rules.Quota, Capacity: 100, Period: "day"}
	window := rules.Band{Kind: rules.SlidingWindow, Capacity: 60, Refill: 16 * time.Minute}
	const quotaName, windowName = "r.100-per-day", "r.60-per-16m"
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1, rules.Rule{ID: "r", Bands: []rules.Band{quota, window}})
		g := f.gateways[0]
		g.admitted(20, fluxgate.Request{})
		f.store.away(errNotSent)
		if n := g.admitted(100, fluxgate.Request{}); n != 40 {
			t.Errorf("%d requests pass in the outage, want the 40 that were left in the window", n)
		}
		f.store.away(nil)
		time.Sleep(3 * time.Second)
		if got := g.left(fluxgate.Request{}); got[quotaName] != 40 || got[windowName] != 0 {
			t.Errorf("left %v, want 40 and 0", got)
		}
		// A period that ends in the outage is not charged to the next one.
		time.Sleep(23*time.Hour + 40*time.Minute)
		f.store.away(errNotSent)
		g.admitted(30, fluxgate.Request{})
		time.Sleep(20 * time.Minute) // past midnight, and the window is empty
		g.admitted(5, fluxgate.Request{})
		f.store.away(nil)
		time.Sleep(3 * time.Second)
		if got := g.left(fluxgate.Request{}); got[quotaName] != 95 || got[windowName] != 55 {
			t.Errorf("left %v, want 95 and 55", got)
		}
		if s := f.stats(); s.Pending != 0 || s.Uncharged != 0 {
			t.Errorf("stats %+v", s)
		}
	})
}

// Refused hits are counted in the fallback, and the store is charged all of them, also
// beyond the limit. Alternatives are decided there as in the store.
func TestCarryover_CountsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1, alternative("r", 10))
		g := f.gateways[0]
		check := func(r fluxgate.Request) fluxgate.Decision { return fluxgate.Must(g.Check(t.Context(), &r)) }
		check(fluxgate.Request{Cost: 8})
		f.store.away(errNotSent)
		if d := check(fluxgate.Request{Cost: 30}); d.Allowed || !d.Degraded {
			t.Errorf("38 of 10 in the outage: %+v", d)
		}
		if d := check(fluxgate.Request{Peek: true}); d.Allowed {
			t.Errorf("a look in the outage: %+v", d)
		}
		f.store.away(nil)
		time.Sleep(3 * time.Second)
		if d := check(fluxgate.Request{Peek: true}); d.Allowed || d.Degraded || d.Owed != 28 {
			t.Errorf("a look after the outage: %+v", d)
		}
		if s := f.stats(); s.Pending != 0 || s.Uncharged != 0 || s.Charged != 30 {
			t.Errorf("stats %+v", s)
		}
		time.Sleep(24 * time.Hour)
		if d := check(fluxgate.Request{Cost: 10}); !d.Allowed {
			t.Errorf("10 in the next period: %+v", d)
		}
	})
}

// The gateways together admit no more than the limit in an outage that begins
// with an empty bucket and in the minute after it, however much is asked, and
// even if some see the store again later than others.
func TestCarryover_FleetStaysWithinLimit(t *testing.T) {
	t.Parallel()
	for _, limit := range []int64{400, 4_000} {
		for _, interval := range []time.Duration{500 * time.Microsecond, 20 * time.Millisecond} {
			t.Run(fmt.Sprint(limit, " every ", interval), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					f := newFleet(t, 4, perMinute(limit))
					f.gateways[0].admitted(int(limit), fluxgate.Request{})
					f.load(100*time.Millisecond, interval) // all have seen the level
					f.store.away(errNotSent)
					admitted := f.load(30*time.Second, interval)
					f.back(100 * time.Millisecond)
					admitted += f.load(time.Minute, interval)
					due := min(float64(limit)*1.5, float64(90*time.Second/interval))
					t.Logf("%d admitted, %.0f due, %+v", admitted, due, f.stats())
					if got := float64(admitted) / due; got > 1.05 || got < 0.95 {
						t.Errorf("%d admitted, which is %.3f of what is due", admitted, got)
					}
				})
			})
		}
	}
}

// A caller that reaches each gateway only every two seconds finds its buckets
// held too, whether it took from them once or often: it cannot take from the
// store what the gateways have granted in the outage and not yet charged.
func TestCarryover_SlowCallerStaysWithinLimit(t *testing.T) {
	t.Parallel()
	const gateways, limit, interval = 10, 1_000, 200 * time.Millisecond
	for _, c := range []struct {
		name  string
		cost  int64
		begin time.Duration // of its burst, after the outage
	}{
		{"many takes", 1, 0},
		{"one take from each gateway", limit / gateways, 0},
		{"some buckets are charged before the burst", 1, 300 * time.Millisecond},
		{"all buckets are charged before the burst", 1, 2 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, gateways, rules.Rule{
					ID: "r", Scope: rules.ScopeIP, Bands: []rules.Band{perHour("hour", limit)},
				})
				slow := fluxgate.Request{IP: here, Cost: c.cost}
				f.store.away(errNotSent)
				start := time.Now()
				admitted := int64(0)
				for i := range limit / c.cost {
					admitted += c.cost * int64(f.gateways[i%gateways].admitted(1, slow))
					time.Sleep(interval)
				}
				if admitted != limit {
					t.Fatalf("%d tokens admitted in the outage, want %d", admitted, limit)
				}
				f.back(70 * time.Millisecond)
				time.Sleep(c.begin)
				slow.Cost = 1
				after := 0
				for i := range 5_000 { // a burst of five seconds
					after += f.gateways[i%gateways].admitted(1, slow)
					time.Sleep(time.Millisecond)
				}
				refilled := int(limit * time.Since(start) / time.Hour)
				t.Logf("%d admitted after the outage, %d refilled, %+v", after, refilled, f.stats())
				if after > refilled+1 {
					t.Errorf("%d admitted after the outage, %d refilled", after, refilled)
				}
				if s := f.stats(); s.Pending != 0 {
					t.Errorf("stats %+v", s)
				}
			})
		})
	}
}

// After a call that times out while the store answers others, its bucket stays in
// the fallback until the store was charged, which is soon.
func TestCarryover_StrayTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 4, perMinute(400))
		g := f.gateways[0]
		g.admitted(10, fluxgate.Request{})
		f.store.away(errAway)
		g.admitted(10, fluxgate.Request{})
		f.store.away(nil)
		if d := g.check(fluxgate.Request{}); d.Source != store.FromFallback {
			t.Errorf("decided from %v before the store was charged", d.Source)
		}
		time.Sleep(firstCharge)
		if d := g.check(fluxgate.Request{}); d.Source != store.FromStore {
			t.Errorf("decided from %v after %v", d.Source, firstCharge)
		}
		// 22 taken, and a part of a token refilled.
		if got := g.left(fluxgate.Request{})["r.400-per-1m"]; got != 378 {
			t.Errorf("%d left, want 378", got)
		}
	})
}

// A bucket whose node is down stays in the fallback while others answer, and is
// charged soon after the node answers again, also without a request.
func TestCarryover_DeadNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		alive, dead := rule("alive", 1, 1_000), rule("dead", 2, 60)
		alive.Paths, dead.Paths = []string{"/alive"}, []string{"/dead/**"}
		dead.Scope = rules.ScopeIP
		f := newFleet(t, 1, alive, dead)
		g := f.gateways[0]
		f.store.dead.Store(&dead.ID)
		const buckets = 10
		for ip, i := here, 0; i < buckets; ip, i = ip.Next(), i+1 {
			g.admitted(10, fluxgate.Request{IP: ip, Path: "/dead/x"})
		}
		for range 20 {
			g.check(fluxgate.Request{Path: "/alive"})
			time.Sleep(100 * time.Millisecond)
		}
		if s := f.stats(); s.Charged+s.Uncharged != 0 || s.Pending != 10*buckets {
			t.Errorf("stats %+v while the node is down", s)
		}
		f.store.dead.Store(nil)
		time.Sleep(firstCharge)
		// Two seconds have refilled a thirtieth of a token.
		if s := f.stats(); s.Charged < 9*buckets || s.Uncharged != 0 || s.Pending != 0 {
			t.Errorf("stats %+v, want about %d charged", s, 10*buckets)
		}
	})
}

// A caller that stays within its rate in an outage of ten minutes is not refused
// afterwards.
func TestCarryover_HonestCaller_NoRace(t *testing.T) {
	t.Parallel()
	for round := range 5 { // make model has many more
		seed := rand.Uint64()
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 0))
			gateways := 1 + random.IntN(8)
			limit := int64(gateways * (2 + random.IntN(100)))
			interval := time.Minute / time.Duration(limit)
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, gateways, perMinute(limit))
				f.load(time.Minute, interval)
				f.store.away(errNotSent)
				f.load(10*time.Minute, interval)
				f.store.away(nil)
				want := int(2 * time.Minute / interval)
				if got := f.load(2*time.Minute, interval); got != want {
					t.Errorf("seed %d, %d gateways, limit %d: %d of %d requests pass after the outage", seed, gateways, limit, got, want)
				}
			})
		})
	}
}

// A charge that was certainly not sent is made later, one that may have been
// made is not, and one under bands that changed is not.
func TestCarryover_SentOnce(t *testing.T) {
	for _, c := range []struct {
		name               string
		err                error
		charged, uncharged int64
	}{
		{"not sent", errNotSent, 40, 0},
		{"lost reply", errors.New("timeout"), 0, 39},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, 1, perMinute(400))
				g := f.gateways[0]
				f.store.away(errNotSent)
				g.admitted(40, fluxgate.Request{})
				f.store.chargeFails.Store(&c.err)
				f.store.away(nil)
				time.Sleep(firstCharge)
				before := f.store.charges.Load()
				f.store.chargeFails.Store(nil)
				time.Sleep(2 * time.Second)
				s := f.stats()
				// The fallback refills while the charge waits.
				if s.Charged > c.charged || s.Charged < c.charged/2 || s.Uncharged != c.uncharged || s.Pending != 0 {
					t.Errorf("stats %+v, want about %d charged and %d not", s, c.charged, c.uncharged)
				}
				if n := f.store.charges.Load() - before; n != min(c.charged, 1) {
					t.Errorf("%d charges were sent", n)
				}
			})
		})
	}
}

// A store that has just answered the first take has the whole time for the charge: after
// a freeze that answer may come late.
func TestCarryover_SlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1, rules.Rule{ID: "r", Bands: []rules.Band{{Kind: rules.Quota, Capacity: 100, Period: "day"}}})
		f.store.away(errNotSent)
		f.gateways[0].admitted(40, fluxgate.Request{})
		f.store.latency.Store(int64(900 * time.Millisecond))
		f.store.away(nil)
		time.Sleep(10 * time.Second)
		if s := f.stats(); s.Charged != 40 || s.Uncharged != 0 || s.Pending != 0 {
			t.Errorf("stats %+v, want 40 charged", s)
		}
	})
}

// Buckets under bands that changed are not charged.
func TestCarryover_ChangedBands(t *testing.T) {
	for name, c := range map[string]struct {
		after int // requests under the new bands
		want  fluxgate.FallbackStats
		left  int64
	}{
		"not used again": {0, fluxgate.FallbackStats{Admitted: 40, Uncharged: 39}, 200},
		"used again":     {10, fluxgate.FallbackStats{Admitted: 50, Charged: 10, Uncharged: 40}, 190},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sets := new(replaceable)
				sets.use(ruleSet(t, perMinute(400)))
				store := newOutage(t, 1)
				engine := fluxgate.Must(fluxgate.New(store, sets, fluxgate.WithRuleSet("api"), fluxgate.WithFallback(newStore(t, nil))))
				g := &gate{TB: t, Engine: engine}
				store.away(errNotSent)
				g.admitted(40, fluxgate.Request{})
				sets.use(ruleSet(t, perMinute(200)))
				g.admitted(c.after, fluxgate.Request{})
				store.away(nil)
				time.Sleep(firstCharge)
				if s := g.FallbackStats(); s != c.want {
					t.Errorf("stats %+v, want %+v", s, c.want)
				}
				if got := g.left(fluxgate.Request{})["r.200-per-1m"]; got != c.left {
					t.Errorf("%d left, want %d", got, c.left)
				}
			})
		})
	}
}

// Consumption in the fallback carries over if the number of gateways changes.
func TestCarryover_GatewaysChange(t *testing.T) {
	for _, c := range []struct{ gateways, left int64 }{{2, 100}, {4, 50}, {8, 25}} {
		t.Run(fmt.Sprint(c.gateways), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, 4, perMinute(400))
				g := f.gateways[0]
				f.store.away(errAway)
				g.admitted(50, fluxgate.Request{}) // half of its share
				f.store.gateways.Store(c.gateways)
				if got := g.left(fluxgate.Request{})["r.400-per-1m"]; got != c.left {
					t.Errorf("%d left of the share of %d gateways, want %d", got, c.gateways, c.left)
				}
			})
		})
	}
}

// What was granted at another share is charged as it was granted.
func TestCarryover_ChargesOtherShares(t *testing.T) {
	for _, gateways := range [][]int64{{1, 2}, {2, 1}, {4, 1, 2}, {3, 1, 7}} {
		t.Run(fmt.Sprint(gateways), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, 1, rules.Rule{ID: "r", Bands: []rules.Band{slowBands["token bucket"]}})
				g := f.gateways[0]
				g.check(fluxgate.Request{Cost: 10})
				f.store.away(errNotSent)
				for _, n := range gateways {
					f.store.gateways.Store(n)
					g.admitted(8, fluxgate.Request{})
					time.Sleep(time.Second)
				}
				f.back(0)
				time.Sleep(5 * time.Second)
				if got, want := f.used(g), int64(10+8*len(gateways)); got != want {
					t.Errorf("the store shows %d used, want %d", got, want)
				}
			})
		})
	}
}

// An overdraft is charged what it took from each band, also if another band has its largest
// debt and nothing was granted.
func TestCarryover_Overdraft(t *testing.T) {
	quota := rules.Band{Label: "quota", Kind: rules.Quota, Capacity: 100, Period: "day"}
	larger := rules.Band{Label: "larger", Kind: rules.Quota, Capacity: 1_000, Period: "day"}
	tokens := rules.Band{Label: "tokens", Capacity: 1_000, Refill: 24 * time.Hour}
	for _, c := range []struct {
		gateways []int64       // at each request
		latency  time.Duration // of a charge, in which the last request comes
	}{{[]int64{1}, 0}, {[]int64{1, 2}, 0}, {[]int64{1, 2}, 40 * time.Millisecond}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, 1, rules.Rule{ID: "r", Overdraft: true, Bands: []rules.Band{quota, larger, tokens}})
				g := f.gateways[0]
				g.check(fluxgate.Request{Cost: 200})
				f.store.away(errNotSent)
				f.store.latency.Store(int64(c.latency))
				for i, n := range c.gateways {
					if i > 0 && c.latency > 0 {
						f.back(0)
						time.Sleep(70 * time.Millisecond) // a charge begins at 50 ms and ends at 90 ms
					}
					f.store.gateways.Store(n)
					g.check(fluxgate.Request{Cost: 30})
				}
				f.back(0)
				time.Sleep(5 * time.Second)
				left, want := g.left(fluxgate.Request{}), int64(800-30*len(c.gateways))
				if left["r.larger"] != want || left["r.tokens"] != want {
					t.Errorf("left %v, want %d", left, want)
				}
			})
		})
	}
}

// One request under three rules, each with another failure mode.
func TestCarryover_AllModesInOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := onFailure(rule("closed", 1, 10), rules.FailClosed)
		closed.Paths = []string{"/closed"}
		f := newFleet(t, 1, onFailure(rule("open", 3, 2), rules.FailOpen), onFailure(rule("local", 2, 5), rules.FailLocal), closed)
		g := f.gateways[0]
		if !g.check(fluxgate.Request{Path: "/closed"}).Allowed {
			t.Fatal("refused while the store is available")
		}
		f.store.away(errAway)
		for range 3 {
			d := g.check(fluxgate.Request{Path: "/closed"})
			if answerOf(&d) != (answer{false, fluxgate.ReasonStoreFailure, "closed"}) {
				t.Errorf("all three: %+v", answerOf(&d))
			}
		}
		if n := g.admitted(10, fluxgate.Request{Path: "/"}); n != 4 {
			t.Errorf("open and local: %d requests pass, want the 4 that local has left", n)
		}
		if s := f.stats(); s.Admitted != 4 {
			t.Errorf("%d tokens admitted, want 4", s.Admitted)
		}
	})
}

// While a bucket stays in the fallback after an outage, other rules of the same
// request are decided by the store.
func TestCarryover_HeldBesideOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := onFailure(rule("closed", 1, 100), rules.FailClosed)
		closed.Paths = []string{"/both"}
		f := newFleet(t, 2, rule("local", 2, 100), closed)
		g := f.gateways[0]
		f.store.away(errNotSent)
		f.load(2*time.Second, 500*time.Millisecond)
		time.Sleep(10 * time.Millisecond) // a charge is made every 50 ms
		f.store.away(nil)
		d := g.check(fluxgate.Request{Path: "/both"})
		if got, want := fmt.Sprint(bands(&d)), "[local.hour ok 47 of 50 from fallback closed.hour ok 99 of 100]"; got != want || !d.Allowed || !d.Degraded {
			t.Errorf("allowed %t, degraded %t, bands %s, want %s", d.Allowed, d.Degraded, got, want)
		}
		time.Sleep(2 * time.Second)
		d = g.check(fluxgate.Request{Path: "/both"})
		// Four in the outage, one while held, and one now.
		if got, want := fmt.Sprint(bands(&d)), "[local.hour ok 94 of 100 closed.hour ok 98 of 100]"; got != want || d.Degraded {
			t.Errorf("degraded %t, bands %s, want %s", d.Degraded, got, want)
		}
	})
}

// While an alternative stays in the fallback after an outage, one that is over in the store
// does not keep other rules from taking there.
func TestCarryover_HeldAlternative(t *testing.T) {
	for name, c := range map[string]struct {
		held    rules.Rule
		allowed bool
		left    int64 // of another rule
	}{
		"an alternative that fits":    {alternative("held", 10), true, 7},
		"an alternative that is over": {alternative("held", 3), false, 10},
		"another rule that fits":      {rule("held", 0, 10), false, 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				over, here := alternative("over", 2), rule("here", 0, 10)
				over.Paths, here.Paths = []string{"/all"}, []string{"/all"}
				f := newFleet(t, 1, c.held, over, here)
				g := f.gateways[0]
				f.store.away(errNotSent)
				g.check(fluxgate.Request{})
				f.store.away(nil)
				if d := g.check(fluxgate.Request{Path: "/all", Cost: 3}); d.Allowed != c.allowed || !d.Degraded {
					t.Errorf("decided %+v, bands %q", answerOf(&d), bands(&d))
				}
				if got := g.left(fluxgate.Request{Path: "/all"})["here.hour"]; got != c.left {
					t.Errorf("the other rule has %d left, want %d", got, c.left)
				}
				time.Sleep(time.Second) // until the store is charged
			})
		})
	}
}

// Requests stay in the fallback if the store is away again before the last charge.
func TestCarryover_AwayAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1, rule("r", 0, 100))
		g := f.gateways[0]
		f.store.away(errNotSent)
		g.check(fluxgate.Request{})
		f.store.away(nil)
		f.store.latency.Store(int64(40 * time.Millisecond)) // a charge begins at 50 ms and ends at 90 ms
		time.Sleep(70 * time.Millisecond)
		g.check(fluxgate.Request{})
		time.Sleep(30 * time.Millisecond)
		f.store.away(errNotSent) // at 140 ms the next charge fails
		time.Sleep(50 * time.Millisecond)
		f.store.away(nil)
		if d := g.check(fluxgate.Request{}); d.Source != store.FromFallback || d.Remaining != 97 {
			t.Errorf("%d left from %v, want 97 from the fallback", d.Remaining, d.Source)
		}
		time.Sleep(time.Second)
		if s, want := f.stats(), (fluxgate.FallbackStats{Admitted: 3, Charged: 2}); s != want {
			t.Errorf("stats %+v, want %+v", s, want) // a part has refilled
		}
	})
}

// An observer sees each charge that fails.
func TestCarryover_Observer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen, store := new(recorder), newOutage(t, 1)
		engine := newEngine(t, store, ruleSet(t, rule("r", 0, 100)), fluxgate.WithFallback(newStore(t, nil)), fluxgate.WithObserver(seen))
		store.away(errAway)
		check(t, engine, fluxgate.Request{})
		time.Sleep(60 * time.Millisecond) // a charge is made every 50 ms
		store.away(nil)
		time.Sleep(time.Second)
		if want := []string{"store failed: the store is away", "decided:  ok, 1 bands", "store failed: the store is away"}; !slices.Equal(seen.all(), want) {
			t.Errorf("seen are %q, want %q", seen.all(), want)
		}
	})
}

// Tokens are not charged if the fallback fails when it is asked what it holds.
func TestCarryover_FallbackFails(t *testing.T) {
	f := newFailing(t, 1, []rules.Rule{rule("r", 0, 10)})
	f.store.setFails(errAway)
	f.check(fluxgate.Request{Cost: 3})
	f.fallback.setFails(errors.New("out of memory"))
	f.untilCharged()
	if s, want := f.FallbackStats(), (fluxgate.FallbackStats{Admitted: 3, Uncharged: 3}); s != want {
		t.Errorf("stats %+v, want %+v", s, want)
	}
}

// Setting the levels of the fallback allocates nothing. The race detector drops pooled values.
func TestCarryover_Allocations_NoRace(t *testing.T) {
	store := newStore(t, nil)
	engine := newEngine(t, store, ruleSet(t, perMinute(1_000_000_000)), fluxgate.WithFallback(newStore(t, nil)), fluxgate.WithFallbackShare(1))
	req := &fluxgate.Request{IP: here}
	got := testing.AllocsPerRun(1_000, func() {
		if d, err := engine.Check(t.Context(), req); err != nil || !d.Allowed {
			t.Fatal(d.Reason, err)
		}
	})
	if got > 1 {
		t.Errorf("%v allocations, want 1", got)
	}
}

// BenchmarkCheck_Fallback is a decision with and without a fallback that gets the
// levels.
func BenchmarkCheck_Fallback(b *testing.B) {
	for name, options := range map[string][]fluxgate.Option{
		"none": nil, "levels": {fluxgate.WithFallback(newStore(b, nil)), fluxgate.WithFallbackShare(0.25)},
	} {
		b.Run(name, func(b *testing.B) {
			engine := newEngine(b, newStore(b, nil), ruleSet(b, perMinute(1_000_000_000)), options...)
			req := &fluxgate.Request{IP: here}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := engine.Check(b.Context(), req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Requests that wait for the store's answer to another rule do not keep a bucket in the
// fallback, however many there are.
func TestCarryover_LeavesBesideSlowRule(t *testing.T) {
	for _, latency := range []time.Duration{6 * time.Millisecond, 90 * time.Millisecond} {
		t.Run(latency.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				other := rule("other", 1, 100_000)
				other.Paths = []string{"/both"}
				f := newFleet(t, 1, rule("local", 2, 100_000), other)
				g := f.gateways[0]
				f.store.away(errNotSent)
				g.check(fluxgate.Request{})
				f.store.latency.Store(int64(latency))
				f.back(0)
				var requests sync.WaitGroup
				for range 3_000 {
					requests.Go(func() { g.check(fluxgate.Request{Path: "/both"}) })
					time.Sleep(time.Millisecond)
				}
				d := g.check(fluxgate.Request{Path: "/both"})
				requests.Wait()
				if d.Degraded {
					t.Error("the fallback decides two seconds after the outage")
				}
				time.Sleep(time.Second)
				if got := 100_000 - g.left(fluxgate.Request{})["local.hour"]; got < 2_850 || got > 3_002 {
					t.Errorf("%d of 3,002 tokens are used, less what has refilled", got)
				}
			})
		})
	}
}
