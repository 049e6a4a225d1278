package fluxgate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// queueing is a rule that holds requests: one token every period.
func queueing(id string, every time.Duration) rules.Rule {
	return rules.Rule{
		ID: id, OnLimitExceed: rules.WaitForRefill, Scope: rules.ScopeUser,
		Bands: []rules.Band{{Capacity: 1, Refill: every}},
	}
}

// waiting is an engine whose store uses the time of the synctest bubble.
func waiting(t *testing.T, list []rules.Rule, options ...fluxgate.Option) *fluxgate.Engine {
	t.Helper()
	return newEngine(t, newStore(t, nil), ruleSet(t, list...), options...)
}

// A request waits exactly until its tokens are due.
func TestWait_Exact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := waiting(t, []rules.Rule{queueing("q", 300*time.Millisecond)}, fluxgate.WithWaiting(time.Second, 10))
		start := time.Now()
		for i := range 4 {
			if i == 3 {
				time.Sleep(100 * time.Millisecond) // a third of the token is refilled
			}
			before := time.Now()
			d := check(t, engine, fluxgate.Request{})
			want := time.Duration(i) * 300 * time.Millisecond
			if got := time.Since(start); !d.Allowed || got != want || d.Wait != time.Since(before) {
				t.Errorf("request %d: allowed %t after %v, want %v; it says it waited %v", i, d.Allowed, got, want, d.Wait)
			}
		}
	})
}

// Requests are served in the order they arrive.
func TestWait_Order(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := waiting(t, []rules.Rule{queueing("q", 100*time.Millisecond)}, fluxgate.WithWaiting(time.Minute, 100))
		start := time.Now()
		var mu sync.Mutex
		var served []string
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				check(t, engine, fluxgate.Request{})
				mu.Lock()
				defer mu.Unlock()
				served = append(served, fmt.Sprint(i, " after ", time.Since(start)))
			})
			synctest.Wait() // it is queued or served before the next one comes
		}
		wg.Wait()
		want := []string{"0 after 0s", "1 after 100ms", "2 after 200ms", "3 after 300ms", "4 after 400ms"}
		if !slices.Equal(served, want) {
			t.Errorf("served\n%q\nwant\n%q", served, want)
		}
	})
}

// A request that would wait too long is rejected at once.
func TestWait_TooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := waiting(t, []rules.Rule{queueing("q", 100*time.Millisecond)}, fluxgate.WithWaiting(250*time.Millisecond, 100))
		var wg sync.WaitGroup
		for range 3 { // due at 0, 100 and 200 ms
			wg.Go(func() { check(t, engine, fluxgate.Request{}) })
		}
		synctest.Wait()
		start := time.Now()
		for range 3 {
			d := check(t, engine, fluxgate.Request{})
			if answerOf(&d) != (answer{false, fluxgate.ReasonLimited, "q"}) || d.RetryAfter != 300*time.Millisecond || d.Wait != 0 {
				t.Errorf("decided %+v, retry after %v, waited %v", answerOf(&d), d.RetryAfter, d.Wait)
			}
		}
		if got := time.Since(start); got != 0 {
			t.Errorf("refused after %v, want at once", got)
		}
		wg.Wait()
	})
}

// At most as many requests wait as WithWaiting allows.
func TestWait_AtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, callers = 100, 10
		engine := waiting(t, []rules.Rule{queueing("q", 10*time.Millisecond)}, fluxgate.WithWaiting(5*time.Second, most))
		start := time.Now()
		var wg sync.WaitGroup
		for i := range callers + most {
			wg.Go(func() {
				if d := check(t, engine, fluxgate.Request{UserID: fmt.Sprint(i % callers)}); !d.Allowed {
					t.Errorf("one of the first %d is not held: %+v", most, answerOf(&d))
				}
			})
			synctest.Wait()
		}
		check(t, engine, ann)
		synctest.Wait()
		if d := check(t, engine, ann); d.Allowed || d.Reason != fluxgate.ReasonLimited || time.Since(start) != 0 {
			t.Errorf("one more is decided %+v after %v, want rejected at once", answerOf(&d), time.Since(start))
		}
		if d := check(t, engine, bob); !d.Allowed || d.Wait != 0 {
			t.Errorf("one more whose token is there is decided %+v", answerOf(&d))
		}
		if d := check(t, engine, bob); d.Allowed {
			t.Error("one more is held, though it is another caller's bucket")
		}
		time.Sleep(10 * time.Millisecond) // bob's token is refilled, and the first waiters are done
		synctest.Wait()
		check(t, engine, bob)
		if d := check(t, engine, bob); !d.Allowed || d.Wait != 10*time.Millisecond {
			t.Errorf("when one has gone the next is decided %+v, held for %v", answerOf(&d), d.Wait)
		}
		wg.Wait()
		if got := time.Since(start); got != most/callers*10*time.Millisecond {
			t.Errorf("the last of them waited %v, want 100ms", got)
		}
	})
}

// A canceled request gives its tokens back.
func TestWait_Canceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := waiting(t, []rules.Rule{queueing("q", time.Second)}, fluxgate.WithWaiting(time.Minute, 1))
		check(t, engine, fluxgate.Request{})
		start := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(400*time.Millisecond, cancel)
		d, err := engine.Check(ctx, &fluxgate.Request{})
		if !errors.Is(err, context.Canceled) || d.Allowed || time.Since(start) != 400*time.Millisecond {
			t.Fatalf("allowed %t, error %v after %v; want canceled after 400ms", d.Allowed, err, time.Since(start))
		}
		// Its place in the queue is free: the next one gets the token that it
		// was waiting for, and the slot it was waiting in.
		if d := check(t, engine, fluxgate.Request{}); !d.Allowed || d.Wait != 600*time.Millisecond {
			t.Errorf("the next one waits %v, want 600ms", d.Wait)
		}
	})
}

// A request whose deadline is before its tokens are due is rejected at once.
func TestWait_Deadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := waiting(t, []rules.Rule{queueing("q", time.Second)}, fluxgate.WithWaiting(time.Minute, 1))
		check(t, engine, fluxgate.Request{})
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
		defer cancel()
		d, err := engine.Check(ctx, &fluxgate.Request{})
		if err != nil || d.Allowed || time.Since(start) != 0 {
			t.Fatalf("allowed %t, error %v after %v; want a rejection at once", d.Allowed, err, time.Since(start))
		}
		if d := check(t, engine, fluxgate.Request{}); !d.Allowed || d.Wait != time.Second {
			t.Errorf("the next one waits %v, want 1s: the refused one has booked", d.Wait)
		}
	})
}

func TestWait_Policies(t *testing.T) {
	wait := fluxgate.WithWaiting(time.Minute, 10)
	for _, c := range []struct {
		name    string
		rule    rules.Policy
		options []fluxgate.Option
		waits   bool
	}{
		{"those of a rule that says so", rules.WaitForRefill, []fluxgate.Option{wait}, true},
		{"none while waiting is not enabled", rules.WaitForRefill, nil, false},
		{"none by default", "", []fluxgate.Option{wait}, false},
		{"all where the engine says so", "", []fluxgate.Option{wait, fluxgate.WithPolicy(rules.WaitForRefill)}, true},
		{"not those of a rule that says otherwise", rules.Reject, []fluxgate.Option{wait, fluxgate.WithPolicy(rules.WaitForRefill)}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := with(queueing("q", time.Second), func(r *rules.Rule) { r.OnLimitExceed = c.rule })
				engine := waiting(t, []rules.Rule{r}, c.options...)
				check(t, engine, fluxgate.Request{})
				start := time.Now()
				d := check(t, engine, fluxgate.Request{})
				if waited := time.Since(start) > 0; d.Allowed != c.waits || waited != c.waits {
					t.Errorf("allowed %t after %v, want held %t", d.Allowed, time.Since(start), c.waits)
				}
				if !c.waits && d.RetryAfter != time.Second {
					t.Errorf("retry after %v, want 1s", d.RetryAfter)
				}
			})
		})
	}
}

// A peek is not held.
func TestWait_Peek(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := waiting(t, []rules.Rule{queueing("q", time.Second)}, fluxgate.WithWaiting(time.Minute, 1))
		check(t, engine, fluxgate.Request{})
		start := time.Now()
		for range 3 {
			d := check(t, engine, fluxgate.Request{Peek: true, Cost: 1})
			if !d.Allowed || d.Wait != time.Second || time.Since(start) != 0 {
				t.Errorf("allowed %t, would wait %v, answered after %v", d.Allowed, d.Wait, time.Since(start))
			}
		}
	})
}

// A request that another rule rejects does not wait.
func TestWait_RejectingRule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := waiting(t, []rules.Rule{queueing("q", time.Second), rule("strict", 9, 1)}, fluxgate.WithWaiting(time.Minute, 10))
		check(t, engine, fluxgate.Request{})
		start := time.Now()
		for range 5 {
			if d := check(t, engine, fluxgate.Request{}); answerOf(&d) != (answer{false, fluxgate.ReasonLimited, "strict"}) {
				t.Errorf("decided %+v", answerOf(&d))
			}
		}
		if got := time.Since(start); got != 0 {
			t.Errorf("rejected after %v, want at once", got)
		}
		d := check(t, engine, fluxgate.Request{Peek: true})
		for b := range d.Bands() {
			if b.Rule.ID == "q" && b.FullAfter != time.Second {
				t.Errorf("the rule that would have waited is full after %v: a rejected request booked", b.FullAfter)
			}
		}
	})
}

func TestWait_LongestOfAllRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := waiting(t, []rules.Rule{queueing("short", time.Second), queueing("long", 3*time.Second)}, fluxgate.WithWaiting(time.Minute, 10))
		check(t, engine, fluxgate.Request{})
		start := time.Now()
		if d := check(t, engine, fluxgate.Request{}); !d.Allowed || d.Wait != 3*time.Second || time.Since(start) != 3*time.Second {
			t.Errorf("allowed %t after %v, want 3s", d.Allowed, time.Since(start))
		}
	})
}

// A shadow rule holds no request.
func TestWait_ShadowRule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shadow := with(queueing("measured", time.Second), func(r *rules.Rule) { r.Mode = rules.ModeShadow })
		engine := waiting(t, []rules.Rule{shadow, rule("enforced", 0, 10)}, fluxgate.WithWaiting(time.Minute, 10))
		start := time.Now()
		for range 5 {
			if d := check(t, engine, fluxgate.Request{}); !d.Allowed || d.Wait != 0 || time.Since(start) != 0 {
				t.Errorf("allowed %t after %v", d.Allowed, time.Since(start))
			}
		}
	})
}
