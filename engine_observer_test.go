package fluxgate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// recorder is an observer that records events as text.
type recorder struct {
	mu     sync.Mutex
	events []string
}

var _ fluxgate.Observer = (*recorder)(nil)

func (r *recorder) add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, fmt.Sprintf(format, args...))
}

// all returns the events so far.
func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

func (r *recorder) Decided(_ context.Context, req *fluxgate.Request, d *fluxgate.Decision, err error) {
	if err != nil {
		r.add("decided: %v", err)
		return
	}
	r.add("decided: %s %s, %d bands", req.Path, d.Reason, len(bands(d)))
}

func (r *recorder) Waiting(_ context.Context, change int) { r.add("waiting: %+d", change) }

func (r *recorder) Settled(_ context.Context, s store.Settlement, err error) {
	if err != nil {
		r.add("settled: %v", err)
		return
	}
	r.add("settled: %d returned, %d charged", s.Returned, s.Charged)
}

func (r *recorder) StoreFailed(_ context.Context, err error) { r.add("store failed: %v", err) }

// An observer sees every decision once.
func TestObserver_Decisions(t *testing.T) {
	seen := new(recorder)
	g := newGate(t, []rules.Rule{with(rule("r", 0, 1), func(r *rules.Rule) { r.Paths = []string{"/a"} })},
		fluxgate.WithObserver(seen), fluxgate.WithAmend(func(_ context.Context, req *fluxgate.Request) error {
			if req.Path == "/broken" {
				return errors.New("no plan")
			}
			req.Path += "a"
			return nil
		}))
	for _, path := range []string{"/", "/", "/b", "/broken"} {
		g.Check(t.Context(), &fluxgate.Request{Path: path})
	}
	g.Check(t.Context(), &fluxgate.Request{Path: "/", Cost: -1})
	want := []string{
		"decided: /a ok, 1 bands", "decided: /a limited, 1 bands", "decided: /ba no-rule, 0 bands",
		"decided: a user's function failed: no plan", "decided: invalid cost: it cannot be negative",
	}
	if !slices.Equal(seen.all(), want) {
		t.Errorf("told\n%q\nwant\n%q", seen.all(), want)
	}
}

func TestObserver_CannotChangeDecision(t *testing.T) {
	g := newGate(t, []rules.Rule{rule("r", 0, 1)}, fluxgate.WithObserver(meddler{new(recorder)}))
	if d := g.check(fluxgate.Request{}); !d.Allowed || d.RuleID != "r" {
		t.Errorf("decided %+v", answerOf(&d))
	}
}

// meddler is an observer that changes its arguments.
type meddler struct{ *recorder }

func (meddler) Decided(_ context.Context, _ *fluxgate.Request, d *fluxgate.Decision, _ error) {
	*d = fluxgate.Decision{}
}

// An observer sees requests begin and end to wait.
func TestObserver_Waiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := new(recorder)
		engine := waiting(t, []rules.Rule{queueing("q", time.Second)}, fluxgate.WithWaiting(time.Minute, 5), fluxgate.WithObserver(seen))
		check(t, engine, fluxgate.Request{})
		go engine.Check(t.Context(), &fluxgate.Request{})
		synctest.Wait()
		want := []string{"decided:  ok, 1 bands", "waiting: +1"}
		if !slices.Equal(seen.all(), want) {
			t.Errorf("while it waits: told %q, want %q", seen.all(), want)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		want = append(want, "waiting: -1", "decided:  ok, 1 bands")
		if !slices.Equal(seen.all(), want) {
			t.Errorf("when it is served: told %q, want %q", seen.all(), want)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		engine.Check(ctx, &fluxgate.Request{})
		want = append(want, "waiting: +1", "settled: 1 returned, 0 charged", "waiting: -1", "decided: context canceled")
		if !slices.Equal(seen.all(), want) {
			t.Errorf("when it goes away: told %q, want %q", seen.all(), want)
		}
	})
}

// An observer sees every settlement once.
func TestObserver_Settlements(t *testing.T) {
	seen := new(recorder)
	f := newFailing(t, 0, []rules.Rule{rule("r", 0, 100)}, fluxgate.WithObserver(seen))
	for _, actual := range []int64{3, 12} {
		d := f.check(fluxgate.Request{Cost: 10})
		f.settle(&d, actual)
		f.Settle(t.Context(), d.Receipt(), actual) // ErrSettled: it was reported before
	}
	f.Settle(t.Context(), nil, 5)
	d := f.check(fluxgate.Request{})
	f.store.settleFails = errAway
	f.Settle(t.Context(), d.Receipt(), 0)
	want := []string{
		"decided:  ok, 1 bands", "settled: 7 returned, 0 charged",
		"decided:  ok, 1 bands", "settled: 0 returned, 2 charged",
		"decided:  ok, 1 bands", "settled: the store is away",
	}
	if !slices.Equal(seen.all(), want) {
		t.Errorf("told\n%q\nwant\n%q", seen.all(), want)
	}
}

// An observer sees failures of the store and of the fallback.
func TestObserver_StoreFailures(t *testing.T) {
	seen := new(recorder)
	f := newFailing(t, 1, []rules.Rule{rule("r", 9, 100), rule("s", 1, 1)}, fluxgate.WithObserver(seen))
	f.store.setFails(errAway)
	f.check(fluxgate.Request{})
	f.check(fluxgate.Request{}) // the fallback rejects it and has taken nothing: nothing is settled
	f.fallback.setFails(errors.New("out of memory"))
	f.check(fluxgate.Request{})
	want := []string{
		"store failed: the store is away", "decided:  ok, 2 bands",
		"decided:  limited, 2 bands", // the buckets stay in the fallback until the store is charged
		"store failed: out of memory", "decided:  store-failure, 2 bands",
	}
	if !slices.Equal(seen.all(), want) {
		t.Errorf("told\n%q\nwant\n%q", seen.all(), want)
	}
}

func TestObserver_None(t *testing.T) {
	f := newFailing(t, 1, []rules.Rule{rule("r", 0, 5)}, fluxgate.WithObserver(nil))
	d := f.check(fluxgate.Request{})
	f.settle(&d, 0)
	f.store.setFails(errAway)
	f.fallback.setFails(errAway)
	if d := f.check(fluxgate.Request{}); d.Reason != fluxgate.ReasonStoreFailure {
		t.Errorf("decided %+v", answerOf(&d))
	}
}

// An observer that panics changes no decision and no settlement. Its panics are passed to it.
func TestObserver_Panics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slot := rules.Band{Label: "slot", Kind: rules.Concurrency, Capacity: 1, Hold: time.Hour}
		view, observer := &faulty{Store: newStore(t, nil)}, new(panicking)
		engine := newEngine(t, view, ruleSet(t, rules.Rule{ID: "slots", Bands: []rules.Band{slot}}, queueing("q", time.Second)),
			fluxgate.WithFallback(newStore(t, nil)), fluxgate.WithWaiting(time.Minute, 5), fluxgate.WithObserver(observer))
		settle := func(d fluxgate.Decision, err error) {
			t.Helper()
			if err != nil || !d.Allowed {
				t.Fatalf("decided %+v, %v", answerOf(&d), err)
			}
			if _, err := engine.Settle(t.Context(), d.Receipt(), 1); err != nil {
				t.Fatalf("settling: %v", err)
			}
		}
		settle(engine.Check(t.Context(), &fluxgate.Request{})) // decided, settled
		settle(engine.Check(t.Context(), &fluxgate.Request{})) // also waiting
		d, _, err := engine.CheckAll(t.Context(), []fluxgate.Request{{}})
		settle(d, err)
		view.setFails(errAway)
		settle(engine.Check(t.Context(), &fluxgate.Request{})) // also the failure of the store
		got := observer.panics()
		slices.Sort(got)
		if want := []string{"decided", "settled", "the store is away", "waiting"}; !slices.Equal(slices.Compact(got), want) {
			t.Errorf("the panics are %q, want %q", got, want)
		}
	})
}

// panicking is an observer whose methods panic.
type panicking struct {
	mu   sync.Mutex
	seen []string
}

func (p *panicking) panics() []string { p.mu.Lock(); defer p.mu.Unlock(); return slices.Clone(p.seen) }

func (*panicking) Decided(context.Context, *fluxgate.Request, *fluxgate.Decision, error) {
	panic("decided")
}
func (*panicking) Waiting(context.Context, int)                     { panic("waiting") }
func (*panicking) Settled(context.Context, store.Settlement, error) { panic("settled") }

// StoreFailed notes the error, without what is before the value of a panic.
func (p *panicking) StoreFailed(_ context.Context, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := err.Error()
	if errors.Is(err, fluxgate.ErrHook) {
		if text = text[strings.LastIndex(text, ": ")+2:]; text == errAway.Error() {
			return // the panic below
		}
	}
	p.seen = append(p.seen, text)
	panic(text)
}
