package fluxgate_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/storetest"
)

// explain explains a request and fails the test if that is not possible.
func explain(t testing.TB, engine *fluxgate.Engine, req fluxgate.Request) fluxgate.Explanation {
	t.Helper()
	x, err := engine.Explain(t.Context(), &req)
	if err != nil {
		t.Fatalf("no explanation for %+v: %v", req, err)
	}
	return x
}

// An explanation takes no tokens and calls no observer.
func TestExplain_NoSideEffects(t *testing.T) {
	seen := new(recorder)
	g := newGate(t, []rules.Rule{rule("r", 0, 3)}, fluxgate.WithObserver(seen))
	for range 5 {
		x := explain(t, g.Engine, fluxgate.Request{Cost: 2})
		if d := x.Decision; answerOf(&d) != (answer{true, fluxgate.ReasonOK, "r"}) || d.Remaining != 3 || d.Receipt() != nil {
			t.Errorf("decided %+v with %d left and receipt %v", answerOf(&d), d.Remaining, d.Receipt())
		}
	}
	if events := seen.all(); len(events) > 0 {
		t.Errorf("the observer saw %q", events)
	}
}

// An explanation uses the cost of the request.
func TestExplain_Cost(t *testing.T) {
	g := newGate(t, []rules.Rule{rule("r", 0, 3)})
	g.check(fluxgate.Request{Cost: 3})
	limited, ok := fluxgate.ReasonLimited, fluxgate.ReasonOK
	for _, c := range []struct {
		name string
		req  fluxgate.Request
		want fluxgate.Reason
	}{
		{"a token if it says nothing", fluxgate.Request{}, limited},
		{"what it says", fluxgate.Request{Cost: 4}, fluxgate.ReasonCostTooHigh},
		{"what it says where it is a peek", fluxgate.Request{Cost: 1, Peek: true}, limited},
		{"nothing where it asks for the state", fluxgate.Request{Peek: true}, ok},
	} {
		t.Run(c.name, func(t *testing.T) {
			if x := explain(t, g.Engine, c.req); x.Decision.Reason != c.want {
				t.Errorf("decided %s, want %s", x.Decision.Reason, c.want)
			}
			if d := g.check(c.req); d.Reason != c.want {
				t.Errorf("and Check decides %s, want %s", d.Reason, c.want)
			}
		})
	}
}

// A peek names the band that a take would. Of two full bands the second is half
// empty after the request.
func TestPeek_BindingBand(t *testing.T) {
	g := newGate(t, []rules.Rule{{ID: "r", Bands: []rules.Band{perHour("many", 100), perHour("few", 10)}}})
	for _, req := range []fluxgate.Request{{Peek: true, Cost: 5}, {Cost: 5}} {
		if d := g.check(req); d.Band != "few" {
			t.Errorf("peek %t: %s binds, want few", req.Peek, d.Band)
		}
	}
}

// Verdicts and decision come from the same rule set, even if it is replaced
// meanwhile.
func TestExplain_OneRuleSet(t *testing.T) {
	sets := &alternating{versions: []*rules.Set{ruleSet(t, rule("old", 0, 1)), ruleSet(t, rule("new", 0, 2))}}
	engine, err := fluxgate.New(newStore(t, storetest.NewClock().Now), sets, fluxgate.WithRuleSet("api"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		want := sets.versions[i%2]
		x := explain(t, engine, fluxgate.Request{})
		if x.RuleSet != want || x.Rules[0].Rule.ID != x.Decision.RuleID {
			t.Errorf("verdicts on %s, decided by %s", x.Rules[0].Rule.ID, x.Decision.RuleID)
		}
	}
}

// alternating returns another rule set on every call.
type alternating struct {
	versions []*rules.Set
	asked    int
}

func (a *alternating) RuleSet(context.Context, string) *fluxgate.Compiled {
	a.asked++
	return compile(a.versions[(a.asked-1)%len(a.versions)])
}

// The function of WithAmend changes a copy of the explained request.
func TestExplain_AmendsACopy(t *testing.T) {
	g := newGate(t, []rules.Rule{with(rule("acme", 0, 1), func(r *rules.Rule) {
		r.When.Attributes = map[string][]string{"tenant": {"acme"}}
	})}, fluxgate.WithAmend(func(_ context.Context, req *fluxgate.Request) error {
		req.Attributes["tenant"] = "acme"
		req.Headers["X-Seen"][0] = "changed"
		req.Descriptor[0].Value = "changed"
		req.Path += "/added"
		return nil
	}))
	req := fluxgate.Request{Path: "/a", Attributes: map[string]string{"region": "eu"}, Headers: map[string][]string{"X-Seen": {"no"}}, Descriptor: []fluxgate.DescriptorEntry{{Key: "k"}}}
	x, err := g.Explain(t.Context(), &req)
	if err != nil || !x.Rules[0].Applies {
		t.Errorf("the rule does not apply: %q, %v", words(x.Rules), err)
	}
	if req.Path != "/a" || !maps.Equal(req.Attributes, map[string]string{"region": "eu"}) || req.Headers["X-Seen"][0] != "no" || req.Descriptor[0].Value != "" {
		t.Errorf("the request was changed to %+v", req)
	}
}

func TestExplain_Errors(t *testing.T) {
	failing := errors.New("no plan")
	engine := func(options ...fluxgate.Option) *fluxgate.Engine {
		return newGate(t, []rules.Rule{rule("r", 0, 1)}, options...).Engine
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	notLoaded, err := fluxgate.New(newStore(t, nil), &alternating{versions: []*rules.Set{nil}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		engine *fluxgate.Engine
		ctx    context.Context
		req    fluxgate.Request
		want   error
		reason fluxgate.Reason
	}{
		{"a rule set that is not known", engine(), t.Context(), fluxgate.Request{RuleSet: "other"}, fluxgate.ErrNoRuleSet, fluxgate.ReasonNoRuleSet},
		{"a rule set that was not loaded in time", notLoaded, ended, fluxgate.Request{}, context.Canceled, ""},
		{"a negative cost", engine(), t.Context(), fluxgate.Request{Cost: -1}, fluxgate.ErrCost, ""},
		{"what the user's function refuses", engine(fluxgate.WithAmend(func(context.Context, *fluxgate.Request) error { return failing })),
			t.Context(), fluxgate.Request{}, failing, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, verdicts, err := c.engine.Effective(c.ctx, &c.req)
			if !errors.Is(err, c.want) || verdicts != nil {
				t.Errorf("Effective: %q, %v", words(verdicts), err)
			}
			x, err := c.engine.Explain(c.ctx, &c.req)
			if !errors.Is(err, c.want) || x.Decision.Reason != c.reason {
				t.Errorf("Explain: %s, %v", x.Decision.Reason, err)
			}
			if _, err := c.engine.Buckets(c.ctx, &c.req); !errors.Is(err, c.want) {
				t.Errorf("Buckets: %v", err)
			}
		})
	}
}

// A request that too many rules apply to is explained with all verdicts.
func TestExplain_TooManyRules(t *testing.T) {
	var list []rules.Rule
	for i := range store.MaxMatches + 1 {
		list = append(list, rule(fmt.Sprint("r", i), 0, 1))
	}
	g := newGate(t, list)
	x, err := g.Explain(t.Context(), &fluxgate.Request{})
	if err != nil || x.Decision.Reason != fluxgate.ReasonTooManyRules || len(x.Rules) != len(list) || !x.Rules[store.MaxMatches].Applies {
		t.Errorf("%d verdicts, %v", len(x.Rules), err)
	}
	if _, err := g.Buckets(t.Context(), &fluxgate.Request{}); !errors.Is(err, fluxgate.ErrTooManyRules) {
		t.Errorf("Buckets: %v", err)
	}
}

// An explanation applies the failure modes of the rules.
func TestExplain_FailureModes(t *testing.T) {
	for _, c := range []struct {
		mode   rules.OnFailure
		want   answer
		source store.Source
	}{
		{rules.FailOpen, answer{true, fluxgate.ReasonStoreFailure, ""}, store.FromStore},
		{rules.FailClosed, answer{false, fluxgate.ReasonStoreFailure, "r"}, store.FromStore},
		{rules.FailLocal, answer{true, fluxgate.ReasonOK, "r"}, store.FromFallback},
	} {
		t.Run(string(c.mode), func(t *testing.T) {
			f := newFailing(t, 0.5, []rules.Rule{onFailure(rule("r", 0, 10), c.mode)})
			f.store.setFails(errAway)
			for range 3 {
				x := explain(t, f.Engine, fluxgate.Request{})
				d := x.Decision
				if answerOf(&d) != c.want || d.Source != c.source || !d.Degraded || !x.Rules[0].Applies {
					t.Errorf("decided %+v from %v, degraded %t", answerOf(&d), d.Source, d.Degraded)
				}
				if c.source == store.FromFallback && d.Remaining != 5 {
					t.Errorf("%d left in the fallback, want 5", d.Remaining)
				}
			}
			if d := f.check(fluxgate.Request{}); answerOf(&d) != c.want {
				t.Errorf("and Check decides %+v", answerOf(&d))
			}
		})
	}
}

// An explanation occupies no wait slot.
func TestExplain_NoWaitSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := waiting(t, []rules.Rule{queueing("q", time.Second)}, fluxgate.WithWaiting(time.Minute, 1))
		check(t, engine, fluxgate.Request{})
		start := time.Now()
		for range 3 {
			if d := explain(t, engine, fluxgate.Request{}).Decision; !d.Allowed || d.Wait != time.Second {
				t.Errorf("a place is free, and it is allowed: %t after %v", d.Allowed, d.Wait)
			}
		}
		var wg sync.WaitGroup
		wg.Go(func() { check(t, engine, fluxgate.Request{}) })
		synctest.Wait()
		for range 3 { // the only slot is taken: the next request is rejected, as by Check
			d := explain(t, engine, fluxgate.Request{}).Decision
			if answerOf(&d) != (answer{false, fluxgate.ReasonLimited, "q"}) || d.RetryAfter != 2*time.Second {
				t.Errorf("no place is free, and it is decided %+v, again in %v", answerOf(&d), d.RetryAfter)
			}
		}
		if d := check(t, engine, fluxgate.Request{}); answerOf(&d) != (answer{false, fluxgate.ReasonLimited, "q"}) || d.RetryAfter != 2*time.Second {
			t.Errorf("and Check decides %+v, again in %v", answerOf(&d), d.RetryAfter)
		}
		if got := time.Since(start); got != 0 {
			t.Errorf("explained after %v, want at once", got)
		}
		wg.Wait()
		if d := explain(t, engine, fluxgate.Request{}).Decision; !d.Allowed || d.Wait != time.Second {
			t.Errorf("the place is free again, and it is allowed: %t after %v", d.Allowed, d.Wait)
		}
	})
}

// A request gets the only wait slot while the store answers an explanation.
func TestExplain_LeavesTheWaitSlotFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faulty{Store: newStore(t, nil)}
		engine := newEngine(t, store, ruleSet(t, queueing("q", time.Second)), fluxgate.WithWaiting(time.Minute, 1))
		check(t, engine, fluxgate.Request{})
		store.answered = func() {
			store.answered = nil
			if d := check(t, engine, fluxgate.Request{}); !d.Allowed || d.Wait != time.Second {
				t.Errorf("the place is free, and it is decided %+v after %v", answerOf(&d), d.Wait)
			}
		}
		if d := explain(t, engine, fluxgate.Request{}).Decision; !d.Allowed || store.answered != nil {
			t.Errorf("explained as %+v", answerOf(&d))
		}
	})
}
