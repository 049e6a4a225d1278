package lease_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/lease"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// fleet is a store in memory on virtual time, and gateways that share it.
type fleet struct {
	testing.TB
	store.Store
	latency time.Duration
	fail    error // what the store answers
	calls   atomic.Int64
	taken   atomic.Int64 // tokens of the store

	closeFails error
}

// Take takes as long as a call to a server.
func (f *fleet) Take(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
	f.calls.Add(1)
	time.Sleep(f.latency / 2)
	defer time.Sleep(f.latency / 2)
	if f.fail != nil {
		return f.fail
	}
	err := f.Store.Take(ctx, demands, out)
	for i := range out.Results {
		f.taken.Add(out.Results[i].Granted)
	}
	return err
}

func (f *fleet) Close() error { return f.closeFails }

func (f *fleet) Settle(ctx context.Context, takes store.Takes, actual []int64) ([]store.Settlement, error) {
	settled, err := f.Store.Settle(ctx, takes, actual)
	for i := range settled {
		f.taken.Add(-settled[i].Returned)
	}
	return settled, err
}

// onVirtualTime runs a test with a fleet whose calls take 2 ms.
func onVirtualTime(t *testing.T, run func(f *fleet, gateway func() *lease.Store)) {
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{TB: t, latency: 2 * time.Millisecond}
		f.Store = fluxgate.Must(memstore.New(memstore.Config{}))
		run(f, func() *lease.Store { return lease.New(f, lease.Config{}) })
		synctest.Wait()
	})
}

func (f *fleet) take(s store.Store, demands ...store.Demand) *store.Outcome {
	f.Helper()
	out := new(store.Outcome)
	if err := s.Take(f.Context(), demands, out); err != nil {
		f.Fatal(err)
	}
	return out
}

// load sends requests at an even rate and returns how many were admitted.
func (f *fleet) load(s store.Store, d store.Demand, perSecond int, during time.Duration) (admitted int64) {
	f.Helper()
	step := time.Second / time.Duration(perSecond)
	for end := time.Now().Add(during); time.Now().Before(end); {
		begin := time.Now()
		if f.take(s, d).Admitted() {
			admitted++
		}
		time.Sleep(step - time.Since(begin)) // calls take time too
	}
	return admitted
}

// untilFresh sends requests until a new slice was granted.
func (f *fleet) untilFresh(s *lease.Store, d store.Demand) {
	f.load(s, d, 1_000, 300*time.Millisecond)
	for n := s.Stats().Slices; s.Stats().Slices == n; {
		f.load(s, d, 1_000, time.Millisecond)
	}
}

// left is what the shared store has.
func (f *fleet) left(d store.Demand) int64 {
	f.Helper()
	d.Cost = 0
	out := new(store.Outcome)
	if err := f.Peek(f.Context(), []store.Demand{d}, out); err != nil {
		f.Fatal(err)
	}
	return out.Results[0].Bands[0].Remaining
}

// large has enough for a test, and refills no faster than a leased band has to.
var large = rules.Band{Capacity: 100_000, RefillTokens: 200, Refill: time.Second}

// A hot bucket is asked some times a second, and what was taken from it is what was
// admitted and what the gateway holds.
func TestLease_Spend(t *testing.T) {
	onVirtualTime(t, func(f *fleet, gateway func() *lease.Store) {
		s, d := gateway(), demand("a", 1, large)
		admitted := f.load(s, d, 10_000, 2*time.Second)
		stats := s.Stats()
		if admitted < 19_500 || f.calls.Load() > 100 || f.calls.Load() < 20 {
			t.Errorf("%d admitted with %d calls", admitted, f.calls.Load())
		}
		if taken := f.taken.Load(); taken != admitted+stats.Held+stats.Wasted {
			t.Errorf("%d were taken, %d admitted: %+v", taken, admitted, stats)
		}
		if stats.Wasted > 0 || stats.Buckets != 1 || stats.Granted/stats.Slices < 400 {
			t.Errorf("steady demand: %+v", stats)
		}
	})
}

// A decision from memory has the levels of the store's last answer: with what is held, and
// less the time that has passed.
func TestLease_Result(t *testing.T) {
	onVirtualTime(t, func(f *fleet, gateway func() *lease.Store) {
		s, d, start := gateway(), demand("a", 1, large), time.Now()
		d.Leased = true
		// It takes 10 more, after 1 of 2 ms: they come back in 55 ms.
		if left := f.take(s, d).Results[0].Bands[0].Remaining; left != large.Capacity-1 {
			t.Errorf("%d left with what is held, want %d", left, large.Capacity-1)
		}
		time.Sleep(10 * time.Millisecond)
		got := f.take(s, d).Results[0]
		want := store.Result{Source: store.FromLease, Granted: 1, Now: start.Add(time.Millisecond).UnixMicro(), Bands: []store.BandResult{
			{Remaining: large.Capacity - 2, MoreAfter: time.Microsecond, FullAfter: 43 * time.Millisecond},
		}}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
		for range 8 {
			f.take(s, d)
		}
		if stats := s.Stats(); stats.Held != 1 || stats.Buckets != 1 {
			t.Errorf("one token is left: %+v", stats)
		}
		time.Sleep(f.latency) // until the next slice is granted
		empty := demand("b", 1, large)
		empty.Leased = true
		f.take(f.Store, demand("b", large.Capacity, large))
		if r := f.take(s, empty).Results[0]; r.Status != store.Rejected || r.Bands[0].Remaining != 0 {
			t.Errorf("an empty bucket: %+v", r)
		}
	})
}

// A bucket is leased in the place of another one that has had no request in two epochs.
func TestLease_SharedPlace(t *testing.T) {
	onVirtualTime(t, func(f *fleet, gateway func() *lease.Store) {
		s, first, second := gateway(), demand("ab", 1, large), demand("abc", 1, large) // the place is by two bytes
		first.Leased, second.Leased = true, true
		f.take(s, first)
		for _, slices := range []int64{1, 1, 2} {
			time.Sleep(110 * time.Millisecond)
			if f.take(s, second); s.Stats().Slices != slices {
				t.Errorf("%+v, want %d slices", s.Stats(), slices)
			}
		}
	})
}

// A refusal that comes two epochs after its request changes no demand.
func TestLease_LateRefusal(t *testing.T) {
	onVirtualTime(t, func(f *fleet, gateway func() *lease.Store) {
		band := rules.Band{Capacity: 120, RefillTokens: 200, Refill: time.Second}
		s, d, other := gateway(), demand("a", 7, band), demand("a", 1, band)
		d.Leased, f.latency = true, 250*time.Millisecond
		go func() {
			if out := f.take(s, d); out.Admitted() || out.Results[0].Bands[0].Remaining != 0 {
				t.Errorf("an empty bucket: %+v", out.Results)
			}
		}()
		time.Sleep(f.latency/2 - time.Millisecond)
		f.take(f.Store, demand("a", 120, band))
		time.Sleep(90 * time.Millisecond)
		f.take(s, other)
	})
}

// What is left of two slices is not lost when the next one is granted.
func TestLease_Remnants(t *testing.T) {
	onVirtualTime(t, func(f *fleet, gateway func() *lease.Store) {
		s, d := gateway(), demand("a", 1, rules.Band{Capacity: 600, RefillTokens: 200, Refill: time.Second})
		f.latency = 0
		for i := range 600 {
			d.Cost = 1 + int64(i*i%7) // also more than a slice has left
			f.take(s, d)
			synctest.Wait()
		}
		if stats := s.Stats(); stats.Wasted > 0 || stats.Slices < 5 {
			t.Errorf("within the lease time: %+v", stats)
		}
	})
}

// A bucket with few requests is not leased, and a small limit never.
func TestLease_Cold(t *testing.T) {
	for name, c := range map[string]struct {
		band        rules.Band
		consistency rules.Consistency
		perSecond   int
		leased      bool
	}{
		"few requests":                   {large, "", 50, false},
		"few requests of a leased rule":  {large, rules.ConsistencyLeased, 50, true},
		"many requests":                  {large, rules.ConsistencyAuto, 500, true},
		"many requests of a strict rule": {large, rules.ConsistencyStrict, 500, false},
		"a small limit of a leased rule": {rules.PerMinute(39), rules.ConsistencyLeased, 500, false},
		"a sliding window":               {rules.Band{Kind: rules.SlidingWindow, Capacity: 100_000, Refill: time.Minute}, rules.ConsistencyLeased, 500, false},
		"the smallest limit":             {rules.Band{Capacity: 40, RefillTokens: 200, Refill: time.Second}, rules.ConsistencyLeased, 500, true},
	} {
		t.Run(name, func(t *testing.T) {
			onVirtualTime(t, func(f *fleet, gateway func() *lease.Store) {
				s, d := gateway(), demand("a", 1, c.band)
				d.Strict, d.Leased = c.consistency == rules.ConsistencyStrict, c.consistency == rules.ConsistencyLeased
				f.load(s, d, c.perSecond, time.Second)
				if leased := s.Stats().Slices > 0; leased != c.leased {
					t.Errorf("leased %t: %+v", leased, s.Stats())
				}
			})
		})
	}
}

// A bucket that was hot is leased again only when it has many requests, however much
// they cost.
func TestLease_ColdAgain(t *testing.T) {
	onVirtualTime(t, func(f *fleet, gateway func() *lease.Store) {
		s, d := gateway(), demand("a", 1, large)
		f.load(s, d, 1_000, 200*time.Millisecond)
		before := s.Stats()
		time.Sleep(time.Second)
		d.Cost = 100
		f.load(s, d, 50, time.Second)
		if stats := s.Stats(); before.Slices == 0 || stats.Slices != before.Slices {
			t.Errorf("few requests that cost much: %+v, before %+v", stats, before)
		}
	})
}

// Requests that overtake each other at the end of an epoch are all counted.
func TestLease_Overtaken(t *testing.T) {
	w, late := newWorld(t), time.Duration(0)
	s := lease.New(w, lease.Config{
		Now: func() time.Time { return w.clock.Now().Add(-late) },
		Go:  func(call func()) { call() },
	})
	d := demand("a", 1, large)
	for i := range 2_000 {
		w.take(s, d)
		if i%100 == 0 {
			late = time.Millisecond
			w.take(s, d)
			late = 0
		}
		w.clock.Advance(time.Millisecond)
	}
	if stats := s.Stats(); stats.Slices == 0 || stats.Granted/stats.Slices < 60 {
		t.Errorf("slices of 3/4 of 100 requests: %+v", stats)
	}
}

// A cost that no bucket has is refused by the store, and changes nothing.
func TestLease_HostileCost(t *testing.T) {
	onVirtualTime(t, func(f *fleet, gateway func() *lease.Store) {
		s, d := gateway(), demand("a", 1, large)
		hostile := d
		hostile.Cost = store.MaxCost
		for range 500 {
			if r := f.take(s, hostile).Results[0]; r.Status != store.TooCostly || r.Source != store.FromStore {
				t.Fatalf("a cost of %d: %+v", hostile.Cost, r)
			}
			if !f.take(s, d).Admitted() {
				t.Fatal("a request is refused")
			}
		}
		if stats := s.Stats(); stats.Granted == 0 || stats.Granted/stats.Slices > 400 {
			t.Errorf("the cost counts as demand: %+v", stats)
		}
	})
}

// Nothing is spent after the lease time, of which the last part is for the request.
func TestLease_Expiry(t *testing.T) {
	onVirtualTime(t, func(f *fleet, gateway func() *lease.Store) {
		s, d := gateway(), demand("a", 1, large)
		f.untilFresh(s, d)
		time.Sleep(100 * time.Millisecond)
		if r := f.take(s, d).Results[0]; r.Source != store.FromLease {
			t.Errorf("within the lease time: %+v", r)
		}
		before, held := s.Stats().Wasted, s.Stats().Held
		time.Sleep(lease.Time - 100*time.Millisecond)
		if r := f.take(s, d).Results[0]; r.Source != store.FromStore || held < 10 {
			t.Errorf("after the lease time, with %d: %+v", held, r)
		}
		if stats := s.Stats(); stats.Wasted-before != held {
			t.Errorf("%d were held: %+v", held, stats)
		}
	})
}

// What is held is spent, whatever else the store has refused: a request that can wait,
// one that costs more, or one of a strict rule.
func TestLease_SpentAfterRefusals(t *testing.T) {
	onVirtualTime(t, func(f *fleet, gateway func() *lease.Store) {
		s, d := gateway(), demand("a", 1, large)
		f.untilFresh(s, d)
		d.Cost = 5 // more than comes back meanwhile
		rest, waiting := d, d
		rest.Cost, rest.Strict = f.left(d), true
		waiting.MaxWait = time.Millisecond
		if !f.take(s, rest).Admitted() || f.take(s, waiting).Admitted() {
			t.Fatal("the store has tokens left")
		}
		if r := f.take(s, d).Results[0]; r.Source != store.FromLease || r.Granted != 5 {
			t.Errorf("with %d held: %+v", s.Stats().Held, r)
		}
	})
}

// A request stays all or nothing: what was spent for it comes back if another demand
// refuses it, or if there is no answer.
func TestLease_AllOrNothing(t *testing.T) {
	onVirtualTime(t, func(f *fleet, gateway func() *lease.Store) {
		s, hot, small := gateway(), demand("a", 1, large), demand("b", 1, rules.PerHour(3))
		f.untilFresh(s, hot)
		before := s.Stats().Held
		for i := range 6 {
			if out := f.take(s, hot, small); out.Admitted() != (i < 3) {
				t.Fatalf("request %d: %+v", i, out.Results)
			}
			time.Sleep(time.Millisecond)
		}
		if held := s.Stats().Held; held != before-3 {
			t.Errorf("%d of %d are held after 3 requests that were admitted", held, before)
		}
		synctest.Wait() // for calls ahead
		f.fail = errors.New("away")
		other := demand("c", 1, rules.PerHour(3))
		if err := s.Take(f.Context(), []store.Demand{hot, other}, new(store.Outcome)); !errors.Is(err, f.fail) {
			t.Errorf("the error is %v", err)
		}
		if held := s.Stats().Held; held != before-3 {
			t.Errorf("%d of %d are held after a request without an answer", held, before)
		}
		// What is held is spent while the store is away.
		if r := f.take(s, hot).Results[0]; r.Source != store.FromLease || r.Granted != 1 {
			t.Errorf("while the store is away: %+v", r)
		}
	})
}

// Requests that another bucket refuses take no tokens, however many they are and whatever
// they cost: a caller over its own limit must not empty a bucket that others share.
func TestLease_RefusedByAnother(t *testing.T) {
	for _, cost := range []int64{1, 8} {
		onVirtualTime(t, func(f *fleet, gateway func() *lease.Store) {
			s, shared, own := gateway(), demand("a", 1, large), demand("b", 1, rules.PerHour(1))
			costly := shared
			costly.Cost = cost
			own.Strict = true
			f.take(s, own)
			var crowd sync.WaitGroup
			done := make(chan struct{})
			for range 64 {
				crowd.Go(func() {
					for {
						select {
						case <-done:
							return
						default:
							f.take(s, costly, own)
						}
					}
				})
			}
			admitted := f.load(s, shared, 200, 2*time.Second)
			close(done)
			crowd.Wait()
			// Of a slice, what three quarters of a tenth of a second need, may be lost in every
			// Time: those that are refused hold its tokens for a moment.
			const lost = (2*time.Second/lease.Time + 1) * 15
			if taken := f.taken.Load(); taken > admitted+int64(lost) {
				t.Errorf("cost %d: %d tokens were taken and %d admitted: %+v", cost, taken, admitted, s.Stats())
			}
		})
	}
}

// A bucket that runs dry is asked 20 times a second, and everything it regains is spent.
func TestLease_Saturated(t *testing.T) {
	onVirtualTime(t, func(f *fleet, gateway func() *lease.Store) {
		s, d := gateway(), demand("a", 1, rules.PerSecond(1_000))
		f.load(s, d, 5_000, time.Second) // it is empty then
		f.calls.Store(0)
		admitted := f.load(s, d, 5_000, 2*time.Second)
		stats := s.Stats()
		if admitted < 1_940 || admitted > 2_000+int64(lease.Time/time.Millisecond) || f.calls.Load() > 2*30 || stats.Wasted > 0 {
			t.Errorf("%d admitted with %d calls: %+v", admitted, f.calls.Load(), stats)
		}
		var paused *store.Result
		for paused == nil {
			if r := f.take(s, d).Results[0]; r.Status == store.Rejected && r.Source == store.FromLease {
				paused = &r
			}
		}
		if paused.Wait <= 0 || paused.Wait > lease.MaxPause || paused.Bands[0].Wait != paused.Wait || paused.Granted != 0 || paused.Now != time.Now().Add(f.latency/2).UnixMicro() {
			t.Errorf("a pause refuses with %+v", paused)
		}
		// Requests that can wait go to the store, and those of strict rules.
		waiting, strict := d, d
		waiting.MaxWait, strict.Strict = time.Second, true
		if out := f.take(s, waiting); !out.Admitted() || out.Results[0].Source != store.FromStore {
			t.Errorf("a request that can wait: %+v", out.Results[0])
		}
		if r := f.take(s, strict).Results[0]; r.Source != store.FromStore {
			t.Errorf("a request of a strict rule: %+v", r)
		}
	})
}

// A limit that refills slowly is not leased: what is lost of a slice comes back late.
func TestLease_SlowLimits(t *testing.T) {
	for _, band := range []rules.Band{rules.PerSecond(199), rules.PerDay(1_000_000)} {
		onVirtualTime(t, func(f *fleet, gateway func() *lease.Store) {
			s, d := gateway(), demand("a", 1, band)
			d.Leased = true
			f.load(s, d, 2_000, 3*time.Second)
			if stats := s.Stats(); stats.Paused > 0 || stats.Slices > 0 {
				f.Errorf("%+v: %+v", band, stats)
			}
		})
	}
}

// A pause refuses neither other rules' requests nor for shadow rules.
func TestLease_PauseOfShadowRule(t *testing.T) {
	onVirtualTime(t, func(f *fleet, gateway func() *lease.Store) {
		s, shadow, other := gateway(), demand("a", 1, rules.PerSecond(1_000)), demand("b", 1, large)
		shadow.Shadow = true
		rejected := 0
		for range 10_000 {
			out := f.take(s, shadow, other)
			if !out.Admitted() || out.Results[1].Granted != 1 {
				t.Fatalf("a shadow rule refuses: %+v", out.Results)
			}
			if out.Results[0].Status == store.Rejected {
				rejected++
			}
			time.Sleep(200 * time.Microsecond)
		}
		if rejected < 5_000 || s.Stats().Paused > 0 {
			t.Errorf("%d requests would have been rejected: %+v", rejected, s.Stats())
		}
	})
}

// A pause does not keep an overdraft of the same request from the store.
func TestLease_PauseAndOverdraft(t *testing.T) {
	onVirtualTime(t, func(f *fleet, gateway func() *lease.Store) {
		s, d, used := gateway(), demand("a", 1, rules.PerSecond(1_000)), demand("b", 100, large)
		used.Overdraft = true
		f.load(s, d, 5_000, time.Second)
		for s.Stats().Paused == 0 || f.take(s, d).Results[0].Source != store.FromLease {
			time.Sleep(time.Millisecond)
		}
		if out := f.take(s, d, used); out.Results[1].Granted != 100 || f.left(used) != large.Capacity-100 {
			t.Errorf("%d are left: %+v", f.left(used), out.Results)
		}
	})
}

// A reset and a change of the rule void what is held.
func TestLease_Void(t *testing.T) {
	onVirtualTime(t, func(f *fleet, gateway func() *lease.Store) {
		s, d := gateway(), demand("a", 1, large)
		f.load(s, d, 1_000, 200*time.Millisecond)
		if _, err := s.Reset(f.Context(), store.Reset{Key: d.Key}); err != nil {
			t.Fatal(err)
		}
		if r := f.take(s, d).Results[0]; r.Source != store.FromStore {
			t.Errorf("after a reset: %+v", r)
		}
		f.load(s, d, 1_000, 200*time.Millisecond)
		changed := demand("a", 1, rules.Band{Capacity: 200_000, RefillTokens: 1, Refill: time.Hour})
		if r := f.take(s, changed).Results[0]; r.Source != store.FromStore {
			t.Errorf("after a change of the rule: %+v", r)
		}
		if stats := s.Stats(); stats.Wasted == 0 {
			t.Errorf("nothing was void: %+v", stats)
		}
	})
}

// What is left of a slice when the bucket gets other numbers goes back to the store, whether
// the new numbers can be leased or not, also what is granted meanwhile.
func TestLease_ChangedNumbers(t *testing.T) {
	for name, band := range map[string]rules.Band{
		"more":     {Capacity: 200_000, RefillTokens: 200, Refill: time.Second},
		"too slow": {Capacity: 100_000, RefillTokens: 1, Refill: time.Hour},
		"few":      {Capacity: 10, RefillTokens: 10, Refill: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			onVirtualTime(t, func(f *fleet, gateway func() *lease.Store) {
				s, d := gateway(), demand("a", 1, large)
				admitted := f.load(s, d, 10_000, 500*time.Millisecond)
				f.untilFresh(s, d)
				for f.calls.Store(0); f.calls.Load() == 0; synctest.Wait() {
					f.take(s, d) // the next slice is on its way
				}
				held := s.Stats().Held
				before := f.taken.Load()
				changed := f.take(s, demand("a", 1, band)).Results[0]
				time.Sleep(time.Second)
				synctest.Wait()
				stats := s.Stats()
				if held == 0 || stats.Held > 0 || changed.Source != store.FromStore {
					t.Errorf("%d were held before and %+v now, after %+v", held, stats, changed)
				}
				if back := before - f.taken.Load(); back < held/2 && name != "few" {
					t.Errorf("%d of %d came back, of %d admitted", back, held, admitted)
				}
			})
		})
	}
}

// A slice that is granted after a reset is lost too, and counted.
func TestLease_VoidGrant(t *testing.T) {
	onVirtualTime(t, func(f *fleet, gateway func() *lease.Store) {
		s, d := gateway(), demand("a", 1, large)
		f.untilFresh(s, d)
		before := s.Stats()
		for f.calls.Store(0); f.calls.Load() == 0; synctest.Wait() {
			f.take(s, d)
		}
		if _, err := s.Reset(t.Context(), store.Reset{Key: d.Key}); err != nil {
			t.Fatal(err)
		}
		f.take(s, d)
		time.Sleep(f.latency)
		synctest.Wait()
		stats := s.Stats()
		if stats.Slices != before.Slices+1 || stats.Held != 0 || stats.Granted != int64(stats.Spent)+stats.Wasted {
			t.Errorf("after a reset: %+v, before %+v", stats, before)
		}
	})
}

// A slice whose answer is lost is not asked for again at once: the store may have
// granted it.
func TestLease_LostAnswer(t *testing.T) {
	onVirtualTime(t, func(f *fleet, gateway func() *lease.Store) {
		s, d := gateway(), demand("a", 1, large)
		d.Leased = true
		synctest.Wait() // for calls ahead
		f.fail = errors.New("away")
		for range 20 {
			_ = s.Take(f.Context(), []store.Demand{d}, new(store.Outcome))
		}
		f.fail = nil
		if r := f.take(s, d).Results[0]; r.Granted != 1 || s.Stats().Slices > 0 {
			t.Errorf("within the pause: %+v, %+v", r, s.Stats())
		}
		time.Sleep(lease.Pause)
		f.take(s, d)
		if s.Stats().Slices != 1 {
			t.Errorf("after the pause: %+v", s.Stats())
		}
	})
}

// A slice that was not asked for because the store is away is asked for again at once:
// otherwise each request would ask the store when it is back.
func TestLease_NotSent(t *testing.T) {
	onVirtualTime(t, func(f *fleet, gateway func() *lease.Store) {
		s, d := gateway(), demand("a", 1, large)
		d.Leased = true
		synctest.Wait() // for calls ahead
		f.fail = store.ErrNotSent
		_ = s.Take(f.Context(), []store.Demand{d}, new(store.Outcome))
		f.fail = nil
		f.take(s, d)
		if s.Stats().Slices != 1 {
			t.Errorf("after a call that was not sent: %+v", s.Stats())
		}
	})
}

// A bucket that is hot is leased with its next request: those that made it hot are not
// counted twice.
func TestLease_FirstSlice(t *testing.T) {
	onVirtualTime(t, func(f *fleet, gateway func() *lease.Store) {
		s, d := gateway(), demand("a", 1, large)
		for range 11 {
			if s.Stats().Slices > 0 {
				t.Fatal("it is not hot yet")
			}
			f.take(s, d)
		}
		if s.Stats().Slices != 1 {
			t.Errorf("after 11 requests: %+v", s.Stats())
		}
	})
}

// A store that is closed gives back what it holds, as far as that is possible, and
// asks for nothing more.
func TestLease_Close(t *testing.T) {
	onVirtualTime(t, func(f *fleet, gateway func() *lease.Store) {
		s, d := gateway(), demand("a", 1, large)
		f.untilFresh(s, d)
		taken, held := f.taken.Load(), s.Stats().Held
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if back := taken - f.taken.Load(); back > held || back < held*3/4 || held < 20 {
			t.Errorf("%d of %d came back", back, held)
		}
	})
}

// All that is held comes back, of many buckets and of a slice that is under way.
func TestLease_CloseAll(t *testing.T) {
	onVirtualTime(t, func(f *fleet, gateway func() *lease.Store) {
		s, spent := gateway(), map[string]int64{}
		take := func(name string) {
			d := demand(name, 1, large)
			d.Leased = true
			f.take(s, d)
			spent[name]++
		}
		f.latency = 0
		for i := range store.MaxMatches + 1 {
			take(fmt.Sprintf("%02d", i))
		}
		f.latency = 2 * time.Microsecond
		for range 8 { // of the 10 that are held, so that more are asked for
			take("00")
		}
		for _, f.closeFails = range []error{errors.New("cannot close"), nil} {
			if err := s.Close(); !errors.Is(err, f.closeFails) {
				t.Errorf("closed with %v, want %v", err, f.closeFails)
			}
		}
		if stats := s.Stats(); stats.Held != 0 || stats.Buckets != 0 {
			t.Errorf("held after it was closed: %+v", stats)
		}
		for name, n := range spent {
			// A part may have refilled, which does not come back.
			if left := f.left(demand(name, 1, large)); left > large.Capacity-n || left < large.Capacity-n-1 {
				t.Errorf("%s has %d left after %d were spent", name, left, n)
			}
		}
	})
}

// crowd sends requests at once and returns how long they took.
func (f *fleet) crowd(s store.Store, request func(i int) []store.Demand) time.Duration {
	start := time.Now()
	var crowd sync.WaitGroup
	for i := range 64 {
		crowd.Go(func() { f.take(s, request(i)...) })
	}
	crowd.Wait()
	took := time.Since(start)
	time.Sleep(2 * f.latency) // until the slices that are under way are granted
	return took
}

// Requests that arrive while a slice is under way wait for it.
func TestLease_Crowd(t *testing.T) {
	onVirtualTime(t, func(f *fleet, gateway func() *lease.Store) {
		s, d := gateway(), demand("a", 1, large)
		d.Leased = true
		took := f.crowd(s, func(int) []store.Demand { return []store.Demand{d} })
		time.Sleep(f.latency) // a slice may be under way
		if stats := s.Stats(); took > 3*f.latency || f.calls.Load() > 20 || f.taken.Load() != 64+stats.Held {
			f.Errorf("64 requests took %v and %d calls: %+v", took, f.calls.Load(), stats)
		}
	})
}

// Requests that ask for a slice each do not wait for each other. Requests that are not decided
// yet make a bucket hot, so that a crowd asks for slices.
func TestLease_CrowdOfTwoRules(t *testing.T) {
	for _, leased := range []bool{true, false} {
		onVirtualTime(t, func(f *fleet, gateway func() *lease.Store) {
			s, a, b := gateway(), demand("a", 1, large), demand("b", 1, large)
			a.Leased, b.Leased = leased, leased
			took := f.crowd(s, func(i int) []store.Demand {
				if i%2 == 0 {
					return []store.Demand{a, b}
				}
				return []store.Demand{b, a}
			})
			taken := f.taken.Load()
			if stats := s.Stats(); took > 5*f.latency || taken != 2*64+stats.Held || stats.Slices == 0 {
				f.Errorf("leased %t: 64 requests took %v and %d tokens: %+v", leased, took, taken, stats)
			}
		})
	}
}

// A request waits for the slices of all its rules together no longer than for one, and what
// it has spent meanwhile is spent in time.
func TestLease_CrowdOfSlowRules(t *testing.T) {
	onVirtualTime(t, func(f *fleet, gateway func() *lease.Store) {
		s, held, slow := gateway(), demand("a", 1, large), make([]store.Demand, 4)
		spent := func() int64 { stats := s.Stats(); return f.taken.Load() - stats.Held - stats.Wasted }
		f.untilFresh(s, held)
		before := spent()
		time.Sleep(140 * time.Millisecond)
		f.latency = 90 * time.Millisecond
		var asks sync.WaitGroup
		for i := range slow {
			slow[i] = demand(fmt.Sprint(i), 1, large)
			slow[i].Leased = true
			asks.Go(func() {
				time.Sleep(time.Duration(i) * f.latency * 3 / 4)
				f.take(s, slow[i])
			})
		}
		time.Sleep(time.Millisecond)
		begin := time.Now()
		out := f.take(s, append([]store.Demand{held}, slow...)...)
		if took := time.Since(begin); took > 3*f.latency || out.Results[0].Source != store.FromStore {
			t.Errorf("it took %v: %+v", took, out.Results)
		}
		asks.Wait()
		if n := spent() - before; n != 4+5 {
			t.Errorf("%d tokens are spent: %+v", n, s.Stats())
		}
	})
}

// Requests that wait for a slice get the error of a store that does not answer.
func TestLease_CrowdWithoutAnswer(t *testing.T) {
	onVirtualTime(t, func(f *fleet, gateway func() *lease.Store) {
		s, d := gateway(), demand("a", 1, large)
		d.Leased = true
		synctest.Wait() // for calls ahead
		f.fail = errors.New("away")
		var crowd sync.WaitGroup
		for range 64 {
			crowd.Go(func() {
				if err := s.Take(f.Context(), []store.Demand{d}, new(store.Outcome)); !errors.Is(err, f.fail) {
					t.Errorf("the error is %v", err)
				}
			})
		}
		crowd.Wait()
		if f.calls.Load() != 1 {
			t.Errorf("%d calls", f.calls.Load())
		}
	})
}

// damaged is a store that cannot read bucket a, and counts the slices that it is
// asked for.
type damaged struct {
	store.Store
	slices int
}

func (s *damaged) Take(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
	err := s.Store.Take(ctx, demands, out)
	for i := range demands {
		if demands[i].Key.ID[0] == 'a' {
			out.Results[i] = store.Result{Status: store.Unavailable, Bands: out.Results[i].Bands}
			if demands[i].Cost > 1 {
				s.slices++
			}
		}
	}
	out.Decide(demands)
	return err
}

// A bucket that the store cannot read is asked for a slice once in a pause, not with every
// request.
func TestLease_Unavailable(t *testing.T) {
	onVirtualTime(t, func(f *fleet, _ func() *lease.Store) {
		shared := &damaged{Store: f}
		s, a, b := lease.New(shared, lease.Config{}), demand("a", 1, large), demand("b", 1, large)
		step := 5 * time.Millisecond
		for range 200 {
			begin := time.Now()
			f.take(s, a, b)
			time.Sleep(step - time.Since(begin))
		}
		if most := int(200 * step / lease.Pause); shared.slices == 0 || shared.slices > most {
			t.Errorf("asked for %d slices in a second, want 1 to %d", shared.slices, most)
		}
	})
}
