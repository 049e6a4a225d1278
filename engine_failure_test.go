package fluxgate_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/storetest"
)

var errAway = errors.New("the store is away")

// failing is an engine over a store with faults. Its clock is stopped.
type failing struct {
	gate
	store    *faulty
	fallback *faulty
}

// newFailing has a fallback at a share, or none if the share is 0.
func newFailing(t testing.TB, share float64, list []rules.Rule, options ...fluxgate.Option) *failing {
	t.Helper()
	clock := storetest.NewClock()
	f := &failing{store: &faulty{Store: newStore(t, clock.Now)}, fallback: &faulty{Store: newStore(t, clock.Now)}}
	if share > 0 {
		options = append(options, fluxgate.WithFallback(f.fallback), fluxgate.WithFallbackShare(share))
	}
	f.gate = gate{TB: t, clock: clock, Engine: newEngine(t, f.store, ruleSet(t, list...), options...)}
	return f
}

// away makes the demands of these rules undecidable.
func (f *failing) away(rules ...string) {
	away := map[string]bool{}
	for _, id := range rules {
		away[id] = true
	}
	f.store.setAway(away)
}

// untilCharged waits until the store was charged for the tokens of the fallback.
func (f *failing) untilCharged() {
	for f.FallbackStats().Pending > 0 {
		time.Sleep(time.Millisecond)
	}
}

func onFailure(r rules.Rule, mode rules.OnFailure) rules.Rule {
	r.OnFailure = mode
	return r
}

// Each failure mode decides a rule as documented: if the store returns an
// error, and if it cannot decide this rule only.
func TestFailure_Modes(t *testing.T) {
	engineSays := func(mode rules.OnFailure) []fluxgate.Option {
		return []fluxgate.Option{fluxgate.WithOnFailure(mode)}
	}
	refused := answer{false, fluxgate.ReasonStoreFailure, "r"}
	passes := answer{true, fluxgate.ReasonStoreFailure, ""}
	for _, c := range []struct {
		name    string
		mode    rules.OnFailure
		options []fluxgate.Option
		share   float64
		want    answer
		source  store.Source
	}{
		{"open lets pass", rules.FailOpen, nil, 0.5, passes, store.FromStore},
		{"closed refuses", rules.FailClosed, nil, 0.5, refused, store.FromStore},
		{"local asks the fallback", rules.FailLocal, nil, 0.5, answer{true, fluxgate.ReasonOK, "r"}, store.FromFallback},
		{"local without a fallback lets pass", rules.FailLocal, nil, 0, passes, store.FromStore},
		{"a rule that says nothing is local", "", nil, 0.5, answer{true, fluxgate.ReasonOK, "r"}, store.FromFallback},
		{"a rule that says nothing does as the engine", "", engineSays(rules.FailClosed), 0.5, refused, store.FromStore},
		{"a rule that says local does not as the engine", rules.FailLocal, engineSays(rules.FailClosed), 0.5, answer{true, fluxgate.ReasonOK, "r"}, store.FromFallback},
		{"a rule that says local does as the engine without a fallback", rules.FailLocal, engineSays(rules.FailClosed), 0, refused, store.FromStore},
		{"a rule that says open does not as the engine", rules.FailOpen, engineSays(rules.FailClosed), 0.5, passes, store.FromStore},
	} {
		for fault, breakStore := range map[string]func(*failing){
			"an error":    func(f *failing) { f.store.setFails(errAway) },
			"unavailable": func(f *failing) { f.away("r") },
		} {
			t.Run(c.name+" on "+fault, func(t *testing.T) {
				f := newFailing(t, c.share, []rules.Rule{onFailure(rule("r", 0, 10), c.mode)}, c.options...)
				breakStore(f)
				for _, peek := range []bool{true, false} {
					d := f.check(fluxgate.Request{Peek: peek, Cost: 1})
					if answerOf(&d) != c.want || d.Source != c.source || !d.Degraded {
						t.Errorf("peek %t: %+v from %v, degraded %t; want %+v from %v", peek, answerOf(&d), d.Source, d.Degraded, c.want, c.source)
					}
					if want := map[bool]int64{true: 5, false: 4}[peek]; c.source == store.FromFallback && d.Remaining != want {
						t.Errorf("peek %t: %d left in the fallback, want %d", peek, d.Remaining, want)
					}
				}
				f.store.setFails(nil)
				f.away()
				f.untilCharged()
				d := f.check(fluxgate.Request{})
				want := map[bool]int64{true: 8, false: 9}[c.source == store.FromFallback]
				if answerOf(&d) != (answer{true, fluxgate.ReasonOK, "r"}) || d.Degraded || d.Source != store.FromStore || d.Remaining != want {
					t.Errorf("back again: %+v from %v, degraded %t, %d left, want %d", answerOf(&d), d.Source, d.Degraded, d.Remaining, want)
				}
			})
		}
	}
}

// The fallback decides at a share of the bands.
func TestFallback_Share(t *testing.T) {
	for _, c := range []struct {
		name     string
		band     rules.Band
		share    float64
		admitted int
		next     time.Duration // until the next token
	}{
		{"a tenth of 100 a minute is 10", rules.PerMinute(100), 0.1, 10, 6 * time.Second},
		{"all of it is all of it", rules.PerMinute(100), 1, 100, 600 * time.Millisecond},
		{"half of a small refill of a large bucket", rules.Band{Capacity: 50, RefillTokens: 4, Refill: time.Hour}, 0.5, 25, 30 * time.Minute},
		{"a tenth of 5 a minute is one in two minutes", rules.PerMinute(5), 0.1, 1, 2 * time.Minute},
		{"a quarter of one an hour is one in four hours", rules.PerHour(1), 0.25, 1, 4 * time.Hour},
		{"a twentieth of ten a year is one in two years", rules.Band{Capacity: 10, Refill: 366 * 24 * time.Hour}, 0.05, 1, 2 * 366 * 24 * time.Hour},
		{"half of 3 a minute is one, and three in two minutes", rules.PerMinute(3), 0.5, 1, 40 * time.Second},
		{"a quarter of 2 in a sliding window is one in the same", rules.Band{Kind: rules.SlidingWindow, Capacity: 2, Refill: 16 * time.Second}, 0.25, 1, 16_876_543 * time.Microsecond}, // the rest of its second, and 16
		{"a tenth of one a year is one in ten years", rules.Band{Capacity: 1, Refill: 366 * 24 * time.Hour}, 0.1, 1, 10 * 366 * 24 * time.Hour},
		{"a hundredth of one a year is one in 35 years", rules.Band{Capacity: 1, Refill: 366 * 24 * time.Hour}, 0.01, 1, 1 << 50 * time.Microsecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFailing(t, c.share, []rules.Rule{{ID: "r", Bands: []rules.Band{c.band}}})
			f.store.setFails(errAway)
			if got := f.admitted(c.admitted+50, fluxgate.Request{}); got != c.admitted {
				t.Errorf("%d requests pass, want %d", got, c.admitted)
			}
			d := f.check(fluxgate.Request{})
			if answerOf(&d) != (answer{false, fluxgate.ReasonLimited, "r"}) || !d.Degraded || d.Source != store.FromFallback {
				t.Errorf("decided %+v from %v, degraded %t", answerOf(&d), d.Source, d.Degraded)
			}
			if d.Limit != int64(c.admitted) || d.RetryAfter != c.next {
				t.Errorf("limit %d, retry after %v; want %d, %v", d.Limit, d.RetryAfter, c.admitted, c.next)
			}
			f.clock.Advance(c.next - time.Microsecond)
			if f.check(fluxgate.Request{}).Allowed {
				t.Errorf("a token is there before %v", c.next)
			}
			f.clock.Advance(time.Microsecond)
			if !f.check(fluxgate.Request{}).Allowed {
				t.Errorf("no token is there after %v", c.next)
			}
		})
	}
}

// Over a store that does not count gateways the fallback has all of each band.
func TestFallback_AutoShare(t *testing.T) {
	away := &faulty{Store: newStore(t, nil), fails: errAway}
	engine := newEngine(t, away, ruleSet(t, rule("r", 0, 10)), fluxgate.WithFallback(newStore(t, nil)))
	if d := check(t, engine, fluxgate.Request{}); d.Limit != 10 || d.Source != store.FromFallback {
		t.Errorf("limit %d from %v, want 10", d.Limit, d.Source)
	}
}

// An allowed request takes from the store and from the fallback.
func TestFallback_TakesFromBothStores(t *testing.T) {
	f := newFailing(t, 0.1, []rules.Rule{rule("here", 9, 10), rule("gone", 1, 50)})
	f.away("gone")
	d := f.check(fluxgate.Request{Cost: 2})
	want := []string{"here.hour ok 8 of 10", "gone.hour ok 3 of 5 from fallback"}
	if got := bands(&d); !d.Allowed || !d.Degraded || !slices.Equal(got, want) {
		t.Errorf("allowed %t, degraded %t, bands\n%q\nwant\n%q", d.Allowed, d.Degraded, got, want)
	}
	f.away()
	f.untilCharged()
	if got := f.left(fluxgate.Request{}); !maps.Equal(got, map[string]int64{"here.hour": 8, "gone.hour": 48}) {
		t.Errorf("in the store are left %v", got)
	}
}

// If the fallback rejects a request, the tokens taken from the store are given
// back.
func TestFallback_RejectionGivesBack(t *testing.T) {
	for _, c := range []struct {
		name  string
		gone  []rules.Rule
		share float64
		want  answer
	}{
		{
			"where a rule fails closed", []rules.Rule{onFailure(rule("gone", 1, 10), rules.FailClosed)}, 0.5,
			answer{false, fluxgate.ReasonStoreFailure, "gone"},
		},
		{
			"where the fallback rejects", []rules.Rule{rule("gone", 1, 4)}, 0.5,
			answer{false, fluxgate.ReasonCostTooHigh, "gone"},
		},
		{
			"where one rule fails closed and another is local",
			[]rules.Rule{rule("local", 2, 10), onFailure(rule("gone", 1, 10), rules.FailClosed)}, 1,
			answer{false, fluxgate.ReasonStoreFailure, "gone"},
		},
		{
			"where the fallback rejects one of two rules",
			[]rules.Rule{rule("local", 2, 10), rule("gone", 1, 2)}, 1,
			answer{false, fluxgate.ReasonCostTooHigh, "gone"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			shadow := with(rule("measured", 7, 20), func(r *rules.Rule) { r.Mode = rules.ModeShadow })
			f := newFailing(t, c.share, append([]rules.Rule{rule("here", 9, 10), shadow}, c.gone...))
			f.check(fluxgate.Request{Cost: 1})
			f.away("gone", "local")
			for i := range 20 {
				d := f.check(fluxgate.Request{Cost: 3, Peek: i%2 == 0})
				if answerOf(&d) != c.want || !d.Degraded || d.Receipt() != nil {
					t.Fatalf("decided %+v, degraded %t, receipt %v; want %+v", answerOf(&d), d.Degraded, d.Receipt(), c.want)
				}
			}
			f.away()
			d := f.check(fluxgate.Request{Peek: true})
			if got, want := bands(&d)[:2], []string{"here.hour ok 9 of 10", "measured.hour ok 19 of 20 shadow"}; !slices.Equal(got, want) || d.Degraded {
				t.Errorf("in the store are %q, want %q; degraded %t", got, want, d.Degraded)
			}
			if s := f.FallbackStats(); s != (fluxgate.FallbackStats{}) {
				t.Errorf("the fallback has taken: %+v", s)
			}
		})
	}
}

// Alternatives reject a request only if all are over, whether the store or the fallback
// decides them. A refused request takes nothing from either.
func TestFallback_Alternatives(t *testing.T) {
	for _, c := range []struct {
		name                string
		stored, gone, local int64 // capacities of an alternative in the store, one in the fallback, a rule in the fallback
		allowed             bool
		left                map[string]int64
	}{
		{"one fits in the store", 10, 2, 10, true, map[string]int64{"here.hour": 7, "stored.day": 7, "gone.day": -1, "local.hour": 7}},
		{"one fits in the fallback", 2, 10, 10, true, map[string]int64{"here.hour": 7, "stored.day": -1, "gone.day": 7, "local.hour": 7}},
		{"none fits", 2, 2, 10, false, map[string]int64{"here.hour": 10, "stored.day": -1, "gone.day": -1, "local.hour": 10}},
		{"another rule of the fallback rejects", 10, 10, 2, false, map[string]int64{"here.hour": 10, "stored.day": 10, "gone.day": 10, "local.hour": 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFailing(t, 1, []rules.Rule{rule("here", 0, 10), alternative("stored", c.stored), alternative("gone", c.gone), rule("local", 0, c.local)})
			f.away("gone", "local")
			if d := f.check(fluxgate.Request{Cost: 3}); d.Allowed != c.allowed {
				t.Errorf("decided %+v with bands %q", answerOf(&d), bands(&d))
			}
			f.away()
			f.untilCharged()
			d, left := f.check(fluxgate.Request{Peek: true}), map[string]int64{}
			for b := range d.Bands() {
				left[b.Rule.ID+"."+b.Band.Name()] = b.Remaining - b.Owed
			}
			if !maps.Equal(left, c.left) {
				t.Errorf("left are %v, want %v", left, c.left)
			}
		})
	}
}

// A rejection by the store is final, whatever the failure modes of undecided
// rules are.
func TestFailure_StoreRejectionIsFinal(t *testing.T) {
	f := newFailing(t, 1, []rules.Rule{
		rule("here", 9, 1), rule("local", 2, 5), onFailure(rule("gone", 1, 5), rules.FailClosed),
	})
	f.check(fluxgate.Request{})
	f.away("local", "gone")
	d := f.check(fluxgate.Request{})
	if answerOf(&d) != (answer{false, fluxgate.ReasonLimited, "here"}) || d.RetryAfter != time.Hour {
		t.Errorf("decided %+v, retry after %v", answerOf(&d), d.RetryAfter)
	}
	if !d.Degraded {
		t.Error("not degraded, though the store was not asked for every rule")
	}
}

// An undecided shadow rule rejects no request.
func TestFailure_ShadowRule(t *testing.T) {
	for _, mode := range []rules.OnFailure{rules.FailClosed, rules.FailLocal} {
		shadow := onFailure(with(rule("measured", 9, 1), func(r *rules.Rule) { r.Mode = rules.ModeShadow }), mode)
		for name, list := range map[string][]rules.Rule{
			"beside an enforced one": {shadow, rule("enforced", 1, 100)}, "alone": {shadow},
		} {
			t.Run(fmt.Sprint(name, " that fails ", mode), func(t *testing.T) {
				f := newFailing(t, 1, list)
				f.away("measured")
				for range 5 {
					d := f.check(fluxgate.Request{})
					if !d.Allowed || !d.Degraded {
						t.Fatalf("decided %+v, degraded %t", answerOf(&d), d.Degraded)
					}
					if got := bands(&d)[0]; got != "measured.hour unavailable 0 of 1 shadow" {
						t.Errorf("band %s", got)
					}
				}
			})
		}
	}
}

// If the fallback fails too, the request is refused.
func TestFallback_Fails(t *testing.T) {
	f := newFailing(t, 1, []rules.Rule{rule("here", 9, 10), rule("gone", 1, 10)})
	f.away("gone")
	f.fallback.setFails(errors.New("out of memory"))
	d := f.check(fluxgate.Request{})
	if answerOf(&d) != (answer{false, fluxgate.ReasonStoreFailure, "gone"}) || !d.Degraded {
		t.Errorf("decided %+v, degraded %t", answerOf(&d), d.Degraded)
	}
	f.away()
	if got := f.left(fluxgate.Request{})["here.hour"]; got != 10 {
		t.Errorf("the other rule has %d left, want 10", got)
	}
}

// A context that ended is returned as its error and is not a store failure.
func TestFailure_ContextEnded(t *testing.T) {
	for _, mode := range []rules.OnFailure{rules.FailOpen, rules.FailClosed, rules.FailLocal} {
		t.Run("before the store answers, by a rule that fails "+string(mode), func(t *testing.T) {
			seen := new(recorder)
			f := newFailing(t, 1, []rules.Rule{onFailure(rule("r", 0, 10), mode)}, fluxgate.WithObserver(seen))
			ctx, cancel := context.WithCancel(t.Context())
			f.store.setAnswered(cancel)
			f.store.setFails(errAway)
			d, err := f.Check(ctx, &fluxgate.Request{})
			if !errors.Is(err, context.Canceled) || d.Allowed || d.Reason != "" {
				t.Errorf("decided %+v, error %v; want context.Canceled", answerOf(&d), err)
			}
			if want := []string{"decided: context canceled"}; !slices.Equal(seen.all(), want) {
				t.Errorf("the observer saw %q, want %q", seen.all(), want)
			}
		})
	}
	t.Run("before it is asked", func(t *testing.T) {
		g := newGate(t, []rules.Rule{rule("r", 0, 10)})
		ctx, cancel := context.WithTimeout(t.Context(), -time.Second)
		defer cancel()
		if _, err := g.Check(ctx, &fluxgate.Request{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want context.DeadlineExceeded", err)
		}
	})
	t.Run("between the store and the fallback, and gives back", func(t *testing.T) {
		seen := new(recorder)
		f := newFailing(t, 1, []rules.Rule{rule("here", 9, 10), rule("gone", 1, 10)}, fluxgate.WithObserver(seen))
		ctx, cancel := context.WithCancel(t.Context())
		f.store.answered = cancel
		f.away("gone")
		d, err := f.Check(ctx, &fluxgate.Request{})
		if !errors.Is(err, context.Canceled) || d.Allowed || d.Reason != "" {
			t.Errorf("decided %+v, error %v; want context.Canceled", answerOf(&d), err)
		}
		if want := []string{"settled: 1 returned, 0 charged", "decided: context canceled"}; !slices.Equal(seen.all(), want) {
			t.Errorf("the observer saw %q, want %q", seen.all(), want)
		}
		f.away()
		if got := f.left(fluxgate.Request{})["here.hour"]; got != 10 {
			t.Errorf("the other rule has %d left, want 10", got)
		}
	})
}

// An invalid demand is an error, not a store failure.
func TestFailure_InvalidDemand(t *testing.T) {
	f := newFailing(t, 1, []rules.Rule{onFailure(rule("r", 0, 10), rules.FailOpen)})
	f.store.setFails(fmt.Errorf("%w: 17 bands", store.ErrDemand))
	if d, err := f.Check(t.Context(), &fluxgate.Request{}); !errors.Is(err, store.ErrDemand) || d.Allowed {
		t.Errorf("decided %+v, error %v; want ErrDemand", answerOf(&d), err)
	}
}
