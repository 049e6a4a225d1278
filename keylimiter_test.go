package fluxgate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
)

func ExampleNewKeyLimiter() {
	store := fluxgate.Must(memstore.New(memstore.Config{}))
	logins := fluxgate.NewKeyLimiter(store, "logins", rules.PerMinute(2))
	for range 3 {
		d, err := logins.Allow(context.Background(), "user:42")
		if err != nil {
			fmt.Println(err) // the store could not decide
			return
		}
		fmt.Println(d.Allowed, d.Remaining)
	}
	// Output:
	// true 1
	// true 0
	// false 0
}

// Each key has its bucket, each name its own, and several bands all must admit.
func TestKeyLimiter_Buckets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, nil)
		a := fluxgate.NewKeyLimiter(store, "a", rules.PerMinute(2), rules.PerHour(3))
		again := fluxgate.NewKeyLimiter(store, "a", rules.PerMinute(2), rules.PerHour(3))
		b := fluxgate.NewKeyLimiter(store, "b", rules.PerMinute(2))
		engine := newEngine(t, store, ruleSet(t, rules.Rule{ID: "a", Scope: rules.ScopeUser, Bands: []rules.Band{rules.PerMinute(2)}}),
			fluxgate.WithIdentity(func(*rules.Rule, *fluxgate.Request) string { return "x" }))
		allow := func(l *fluxgate.KeyLimiter, key string, n int64, want bool) {
			t.Helper()
			if d, err := l.AllowN(t.Context(), key, n); err != nil || d.Allowed != want {
				t.Errorf("%s: %+v, %v, want %v", key, d, err, want)
			}
		}
		allow(a, "x", 2, true)
		allow(again, "x", 1, false)
		allow(a, "y", 1, true)
		allow(b, "x", 2, true)
		if d := check(t, engine, fluxgate.Request{}); !d.Allowed || d.Remaining != 1 {
			t.Errorf("a rule of the same name shares the bucket: %+v", d)
		}
		time.Sleep(time.Minute)
		allow(a, "x", 2, false) // the hourly band has one left
		allow(a, "x", 1, true)
		d, err := a.Peek(t.Context(), "x")
		if err != nil || !d.Allowed || d.Remaining != 0 {
			t.Errorf("peek: %+v, %v", d, err)
		}
		if d, err := a.AllowN(t.Context(), "z", 3); err != nil || d.Allowed || d.Reason != fluxgate.ReasonCostTooHigh {
			t.Errorf("too costly: %+v, %v", d, err)
		}
	})
}

func TestKeyLimiter_Wait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fluxgate.NewKeyLimiter(newStore(t, nil), "queue", rules.Band{Capacity: 1, Refill: time.Second})
		start := time.Now()
		for i := range 3 {
			if err := l.Wait(t.Context(), "x"); err != nil || time.Since(start) != time.Duration(i)*time.Second {
				t.Errorf("call %d: %v after %v", i, err, time.Since(start))
			}
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if err := l.Wait(short, "x"); !errors.Is(err, fluxgate.ErrLimited) || time.Since(start) != 2*time.Second {
			t.Errorf("no time to wait: %v after %v", err, time.Since(start))
		}
		left, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second/4, leave)
		if err := l.Wait(left, "x"); !errors.Is(err, context.Canceled) {
			t.Errorf("canceled: %v", err)
		}
		time.Sleep(3 * time.Second / 4)
		if err := l.Wait(t.Context(), "x"); err != nil || time.Since(start) != 3*time.Second {
			t.Errorf("the token of the one who left: %v after %v", err, time.Since(start))
		}
	})
}

func TestKeyLimiter_Settle(t *testing.T) {
	l := fluxgate.NewKeyLimiter(newStore(t, nil), "tokens", rules.PerHour(10))
	d, err := l.AllowN(t.Context(), "x", 8)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := l.Settle(t.Context(), d.Receipt(), 3); err != nil || s.Returned != 5 {
		t.Errorf("settled %+v, %v", s, err)
	}
	if _, err := l.Settle(t.Context(), d.Receipt(), 3); !errors.Is(err, fluxgate.ErrSettled) {
		t.Errorf("settled again: %v", err)
	}
	if d, _ := l.Peek(t.Context(), "x"); d.Remaining != 7 {
		t.Errorf("%d left", d.Remaining)
	}
}

// stalled is a store that gets no settlements for a while.
type stalled struct {
	store.Store
	now atomic.Bool
}

func (s *stalled) Settle(ctx context.Context, takes store.Takes, actual []int64) ([]store.Settlement, error) {
	if s.now.Load() {
		return slices.Repeat([]store.Settlement{{NotSent: errNotSent}}, len(takes)), nil
	}
	return s.Store.Settle(ctx, takes, actual)
}

// A settlement that the store does not get is sent later: its receipt is used up.
func TestKeyLimiter_SettleNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stalled{Store: newStore(t, nil)}
		l := fluxgate.NewKeyLimiter(s, "jobs", rules.Band{Kind: rules.Concurrency, Capacity: 1, Hold: time.Hour})
		d, err := l.Allow(t.Context(), "x")
		if err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
		s.now.Store(true)
		if _, err := l.Settle(t.Context(), d.Receipt(), 1); err != nil {
			t.Error(err)
		}
		time.Sleep(5 * time.Second)
		s.now.Store(false)
		time.Sleep(time.Second)
		if d, err := l.Allow(t.Context(), "x"); err != nil || !d.Allowed {
			t.Errorf("the slot is lost: %+v, %v", d, err)
		}
	})
}

func TestKeyLimiter_Errors(t *testing.T) {
	l := fluxgate.NewKeyLimiter(newStore(t, nil), "a", rules.PerMinute(1))
	if _, err := l.Allow(t.Context(), ""); !errors.Is(err, store.ErrDemand) {
		t.Errorf("an empty key: %v", err)
	}
	if _, err := l.AllowN(t.Context(), "x", -1); !errors.Is(err, store.ErrDemand) {
		t.Errorf("a negative cost: %v", err)
	}
	away := fluxgate.NewKeyLimiter(failingStore{newStore(t, nil)}, "a", rules.PerMinute(1))
	if d, err := away.Allow(t.Context(), "x"); !errors.Is(err, fluxgate.ErrUndecided) || d.Allowed {
		t.Errorf("the store is away: %+v, %v", d, err)
	}
	for name, make := range map[string]func(){
		"the name":  func() { fluxgate.NewKeyLimiter(newStore(t, nil), "a b", rules.PerMinute(1)) },
		"the bands": func() { fluxgate.NewKeyLimiter(newStore(t, nil), "a") },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s is accepted", name)
				}
			}()
			make()
		}()
	}
}

type failingStore struct{ store.Store }

func (failingStore) Take(context.Context, []store.Demand, *store.Outcome) error {
	return errors.New("no connection")
}
