package fluxgate_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// settle settles what a request took and fails the test if that is an error.
func (g *gate) settle(d *fluxgate.Decision, actual int64) store.Settlement {
	g.Helper()
	if d.Receipt() == nil {
		g.Fatalf("no receipt for %+v", answerOf(d))
	}
	s, err := g.Settle(g.Context(), d.Receipt(), actual)
	if err != nil {
		g.Fatal(err)
	}
	return s
}

func TestSettle_Corrects(t *testing.T) {
	for _, c := range []struct {
		name         string
		cost, actual int64
		want         store.Settlement
		left         int64
	}{
		{"a cost that was less comes back", 10, 3, store.Settlement{Returned: 7}, 97},
		{"a cost that was more is charged", 10, 15, store.Settlement{Charged: 5}, 85},
		{"a cost that was right moves nothing", 10, 10, store.Settlement{}, 90},
		{"a cost of nothing withdraws the request", 10, 0, store.Settlement{Returned: 10}, 100},
		{"a cost that nobody named was one", 0, 5, store.Settlement{Charged: 4}, 95},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGate(t, []rules.Rule{rule("small", 9, 100), rule("large", 1, 1_000)})
			d := g.check(fluxgate.Request{Cost: c.cost})
			if got := g.settle(&d, c.actual); got != c.want {
				t.Errorf("settled %+v, want %+v", got, c.want)
			}
			want := map[string]int64{"small.hour": c.left, "large.hour": c.left + 900}
			if got := g.left(fluxgate.Request{}); !maps.Equal(got, want) {
				t.Errorf("left %v, want %v", got, want)
			}
		})
	}
}

// An actual cost above what is left charges into debt.
func TestSettle_Debt(t *testing.T) {
	g := newGate(t, []rules.Rule{rule("r", 0, 10)})
	d := g.check(fluxgate.Request{})
	if got := g.settle(&d, 15); got != (store.Settlement{Charged: 14}) {
		t.Errorf("settled %+v, want 14 charged", got)
	}
	// 5 tokens of debt and the one it asks for, at 10 an hour.
	if d := g.check(fluxgate.Request{}); d.Allowed || d.RetryAfter != 36*time.Minute {
		t.Errorf("decided %+v, retry after %v; want 36m", answerOf(&d), d.RetryAfter)
	}
}

func TestSettle_Once(t *testing.T) {
	t.Run("however often it is asked for", func(t *testing.T) {
		g := newGate(t, []rules.Rule{rule("r", 0, 10)})
		d := g.check(fluxgate.Request{Cost: 5})
		copied := d
		g.settle(&d, 4)
		for _, receipt := range []*fluxgate.Receipt{d.Receipt(), copied.Receipt()} {
			if s, err := g.Settle(t.Context(), receipt, 0); !errors.Is(err, fluxgate.ErrSettled) || s != (store.Settlement{}) {
				t.Errorf("settled again: %+v, %v; want ErrSettled", s, err)
			}
		}
		if got := g.left(fluxgate.Request{})["r.hour"]; got != 6 {
			t.Errorf("%d left, want 6", got)
		}
	})
	t.Run("also by many at once", func(t *testing.T) {
		g := newGate(t, []rules.Rule{rule("r", 0, 10)})
		d := g.check(fluxgate.Request{Cost: 5})
		var settled atomic.Int64
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if _, err := g.Settle(t.Context(), d.Receipt(), 0); err == nil {
					settled.Add(1)
				}
			})
		}
		wg.Wait()
		if got, tokens := settled.Load(), g.left(fluxgate.Request{})["r.hour"]; got != 1 || tokens != 10 {
			t.Errorf("settled %d times with %d left, want once with 10", got, tokens)
		}
	})
	t.Run("and a negative cost does not use it up", func(t *testing.T) {
		g := newGate(t, []rules.Rule{rule("r", 0, 10)})
		d := g.check(fluxgate.Request{Cost: 5})
		if _, err := g.Settle(t.Context(), d.Receipt(), -1); !errors.Is(err, fluxgate.ErrCost) {
			t.Errorf("error %v, want ErrCost", err)
		}
		if got := g.settle(&d, 0); got.Returned != 5 {
			t.Errorf("settled %+v, want 5 returned", got)
		}
	})
}

func TestSettle_NothingTaken(t *testing.T) {
	g := newGate(t, []rules.Rule{
		with(rule("r", 0, 1), func(r *rules.Rule) { r.Paths = []string{"/a"} }),
		{ID: "deny", Paths: []string{"/b"}, Action: rules.ActionDeny},
		{ID: "allow", Paths: []string{"/c"}, Action: rules.ActionAllow},
	})
	peek := g.check(fluxgate.Request{Path: "/a", Peek: true, Cost: 1})
	g.check(fluxgate.Request{Path: "/a"})
	for name, d := range map[string]fluxgate.Decision{
		"a peek": peek, "a rejection": g.check(fluxgate.Request{Path: "/a"}), "a denial": g.check(fluxgate.Request{Path: "/b"}),
		"an exemption": g.check(fluxgate.Request{Path: "/c"}), "no rule": g.check(fluxgate.Request{Path: "/d"}), "no decision": {},
	} {
		if d.Receipt() != nil {
			t.Errorf("%s has a receipt", name)
		}
		if s, err := g.Settle(t.Context(), d.Receipt(), 7); err != nil || s != (store.Settlement{}) {
			t.Errorf("settling %s: %+v, %v", name, s, err)
		}
	}
}

func TestSettle_ShadowRule(t *testing.T) {
	shadow := with(rule("measured", 0, 100), func(r *rules.Rule) { r.Mode = rules.ModeShadow })
	g := newGate(t, []rules.Rule{shadow})
	d := g.check(fluxgate.Request{Cost: 10})
	if got := g.settle(&d, 4); got != (store.Settlement{Returned: 6}) {
		t.Errorf("settled %+v, want 6 returned", got)
	}
	if got := g.left(fluxgate.Request{})["measured.hour"]; got != 96 {
		t.Errorf("%d left, want 96", got)
	}
}

// Of a receipt with takes from the store and the fallback, each store settles
// its own.
func TestSettle_StoreAndFallback(t *testing.T) {
	for _, c := range []struct {
		name             string
		fail             func(*failing)
		fails            bool
		settled          store.Settlement
		inStore, charged int64
		inFallback       int64
	}{
		{"where both can", func(*failing) {}, false, store.Settlement{Returned: 6}, 96, 96, 46},
		{"where the store cannot", func(f *failing) { f.store.settleFails = errAway }, true, store.Settlement{}, 90, 96, 46},
		{"where the fallback cannot", func(f *failing) { f.fallback.settleFails = errAway }, true, store.Settlement{}, 96, 90, 40},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFailing(t, 0.5, []rules.Rule{rule("here", 9, 100), rule("gone", 1, 100)})
			f.away("gone")
			d := f.check(fluxgate.Request{Cost: 10})
			c.fail(f)
			s, err := f.Settle(t.Context(), d.Receipt(), 4)
			if s != c.settled || errors.Is(err, errAway) != c.fails {
				t.Errorf("settled %+v, error %v; want %+v, an error: %t", s, err, c.settled, c.fails)
			}
			f.store.setSettleFails(nil)
			f.away()
			f.untilCharged()
			want := map[string]int64{"here.hour": c.inStore, "gone.hour": c.charged}
			if got := f.left(fluxgate.Request{}); !maps.Equal(got, want) {
				t.Errorf("the store has %v left, want %v", got, want)
			}
			f.store.setFails(errAway)
			want = map[string]int64{"here.hour": 50, "gone.hour": c.inFallback}
			if got := f.left(fluxgate.Request{}); !maps.Equal(got, want) {
				t.Errorf("the fallback has %v left, want %v", got, want)
			}
		})
	}
}

// What the store was charged in a former period of a quota does not keep tokens of a later outage
// from coming back, and its receipts give back none of the later ones.
func TestSettle_SecondOutage(t *testing.T) {
	for _, c := range []struct {
		name  string
		apart time.Duration
		left  []int64 // after the takes of two outages, and as the receipts of the last and of the first are settled
	}{
		{"same period", time.Second, []int64{80, 86, 92}},
		{"next period", time.Minute, []int64{90, 96, 96}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFailing(t, 0.5, []rules.Rule{{ID: "r", Bands: []rules.Band{{Label: "minute", Kind: rules.Quota, Capacity: 100, Period: "minute"}}}})
			var receipts []*fluxgate.Receipt
			for outage := range 2 {
				f.clock.Advance(time.Duration(outage) * c.apart)
				f.away("r")
				d := f.check(fluxgate.Request{Cost: 10})
				receipts = append(receipts, d.Receipt())
				f.away()
				f.untilCharged()
			}
			got := []int64{f.left(fluxgate.Request{})["r.minute"]}
			for _, receipt := range slices.Backward(receipts) {
				if _, err := f.Settle(t.Context(), receipt, 4); err != nil {
					t.Fatal(err)
				}
				got = append(got, f.left(fluxgate.Request{})["r.minute"])
			}
			if !slices.Equal(got, c.left) {
				t.Errorf("left %v, want %v", got, c.left)
			}
		})
	}
}

// A receipt that this engine cannot settle is an error that a caller can test.
// It is not used up: the one that made the decision can still settle it.
func TestSettle_ReceiptOfAnother(t *testing.T) {
	g := newGate(t, []rules.Rule{rule("r", 0, 10)})
	fallback := newFailing(t, 1, []rules.Rule{rule("here", 9, 10), rule("gone", 1, 10)})
	fallback.away("gone")
	degraded := fallback.check(fluxgate.Request{Cost: 5})
	for name, receipt := range map[string]*fluxgate.Receipt{
		"of a server":                            {Token: "as a client gets it"},
		"of nothing":                             {},
		"of a fallback, where there is none":     degraded.Receipt(),
		"without bands":                          {Takes: []store.Taken{{Cost: 1}}},
		"with more bands than a bucket can have": {Takes: []store.Taken{{Cost: 1, Bands: make([]store.ExactBand, store.MaxBands+1)}}},
	} {
		if s, err := g.Settle(t.Context(), receipt, 0); !errors.Is(err, fluxgate.ErrReceipt) || s != (store.Settlement{}) {
			t.Errorf("a receipt %s: %+v, %v; want ErrReceipt", name, s, err)
		}
		if name != "of a fallback, where there is none" && !receipt.Spend() {
			t.Errorf("a receipt %s is used up", name)
		}
	}
	if s, err := fallback.Settle(t.Context(), degraded.Receipt(), 0); err != nil || s.Returned != 5 {
		t.Errorf("settled where it was made: %+v, %v; want 5 returned", s, err)
	}
	if got := g.left(fluxgate.Request{})["r.hour"]; got != 10 {
		t.Errorf("%d left, want 10", got)
	}
}

// A receipt is settled although its client has disconnected.
func TestSettle_EndedContext(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	slot := rules.Band{Label: "slot", Kind: rules.Concurrency, Capacity: 1, Hold: time.Hour}
	list := []rules.Rule{{ID: "slots", Bands: []rules.Band{slot}}, rule("r", 0, 100)}
	for name, away := range map[string]bool{"in the store": false, "in the fallback": true} {
		t.Run(name, func(t *testing.T) {
			f := newFailing(t, 1, list)
			if away {
				f.store.setFails(errAway)
			}
			for _, settle := range []func(*fluxgate.Receipt) error{
				func(r *fluxgate.Receipt) error { _, err := f.Settle(ended, r, 0); return err },
				func(r *fluxgate.Receipt) error { _, err := f.SettleUsage(ended, r, &fluxgate.Usage{}); return err },
			} {
				d := f.check(fluxgate.Request{})
				if !d.Allowed {
					t.Fatalf("no slot is free: %+v", d)
				}
				if err := settle(d.Receipt()); err != nil {
					t.Errorf("settling: %v", err)
				}
			}
		})
	}
	t.Run("of a key limiter", func(t *testing.T) {
		l := fluxgate.NewKeyLimiter(newStore(t, nil), "keys", slot)
		d, err := l.Allow(t.Context(), "ann")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Settle(ended, d.Receipt(), 1); err != nil {
			t.Errorf("settling: %v", err)
		}
		if d, err = l.Allow(t.Context(), "ann"); err != nil || !d.Allowed {
			t.Errorf("no slot is free: %+v, %v", d, err)
		}
	})
}

// A settlement that takes long ends a second after its context.
func TestSettle_StuckStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := newEngine(t, stuckStore{newStore(t, nil)}, ruleSet(t, rule("r", 0, 100)))
		d := check(t, engine, fluxgate.Request{})
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		begun := time.Now()
		_, err := engine.Settle(ctx, d.Receipt(), 0)
		if took := time.Since(begun); !errors.Is(err, context.Canceled) || took != 4*time.Second {
			t.Errorf("settling ends after %v: %v", took, err)
		}
	})
}

// stuckStore is a store that does not settle.
type stuckStore struct{ store.Store }

func (stuckStore) Settle(ctx context.Context, _ store.Takes, _ []int64) ([]store.Settlement, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
