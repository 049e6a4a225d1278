package fluxgate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
	"github.com/fluxgate/fluxgate/store/storetest"
)

// budget is a quota of 500 that warns at 80% and 100%.
func budget() rules.Band {
	return rules.Band{Label: "monthly", Kind: rules.Quota, Capacity: 500, Period: "month", WarnAt: rules.Percents{80, 100}}
}

// warner is an engine over a store in memory with one rule set that may change.
type warner struct {
	*gate
	sets    *replaceable
	store   *memstore.Store
	engines []*fluxgate.Engine
}

func newWarner(t testing.TB, rule rules.Rule, options ...fluxgate.Option) *warner {
	t.Helper()
	clock := storetest.NewClock()
	w := &warner{store: newStore(t, clock.Now), sets: new(replaceable)}
	w.sets.use(ruleSet(t, rule))
	w.gate = &gate{TB: t, clock: clock, Engine: w.another(options...)}
	return w
}

// another is an engine of another process.
func (w *warner) another(options ...fluxgate.Option) *fluxgate.Engine {
	e := fluxgate.Must(fluxgate.New(w.store, w.sets, append(options, fluxgate.WithRuleSet("api"))...))
	w.engines = append(w.engines, e)
	return e
}

// want fails unless these are the warnings since the last call, as "band percent used/capacity".
func (w *warner) want(want ...string) {
	w.Helper()
	if got := warningsOf(w, w.store, w.engines...); strings.Join(got, ", ") != strings.Join(want, ", ") {
		w.Errorf("the warnings are %q, want %q", got, want)
	}
}

// warningsOf returns the warnings since the last call. Those of one bucket may be in another order
// than the requests that reached their thresholds.
func warningsOf(t testing.TB, buckets *memstore.Store, engines ...*fluxgate.Engine) (texts []string) {
	t.Helper()
	for _, e := range engines {
		e.WaitWarnings()
	}
	pending, _ := buckets.PendingWarnings(t.Context(), "", 1_000)
	for _, p := range pending {
		texts = append(texts, fmt.Sprintf("%s %d%% %d/%d", p.Band, p.Percent, p.Used, p.Capacity))
		_ = buckets.DeliveredWarning(t.Context(), &p)
	}
	return texts
}

func (w *warner) spend(user string, cost int64) fluxgate.Decision {
	w.Helper()
	return w.check(fluxgate.Request{UserID: user, Cost: cost})
}

// A take warns when it sees a level at a threshold, once for all processes.
func TestWarn_Takes(t *testing.T) {
	w := newWarner(t, perUser(budget()))
	w.spend("ann", 399)
	w.want()
	w.spend("bob", 1)
	w.spend("ann", 1)
	w.want("monthly 80% 400/500")
	w.spend("ann", 50)
	check(t, w.another(), fluxgate.Request{UserID: "ann"})
	w.want()
	w.spend("bob", 499)
	w.want("monthly 80% 500/500", "monthly 100% 500/500")
	w.spend("ann", 49)
	w.want("monthly 100% 500/500")
	w.clock.Advance(31 * 24 * time.Hour)
	w.spend("ann", 400)
	w.want("monthly 80% 400/500")
}

// A rejected request warns of the level that it has seen: no request has to cross it.
func TestWarn_RejectedTake(t *testing.T) {
	quiet := budget()
	quiet.WarnAt = rules.Percents{}
	w := newWarner(t, perUser(quiet))
	w.spend("ann", 500)
	w.want()
	w.sets.use(ruleSet(t, perUser(budget())))
	if _, err := w.Check(t.Context(), &fluxgate.Request{UserID: "ann", Peek: true, Cost: 1}); err != nil {
		t.Fatal(err)
	}
	w.want() // a peek does not warn
	if w.spend("ann", 1).Allowed {
		t.Error("it is allowed")
	}
	w.want("monthly 80% 500/500", "monthly 100% 500/500")
}

// Settlements warn by what they charge, and use the identity of the take.
func TestWarn_Settlements(t *testing.T) {
	w := newWarner(t, perUser(budget()), fluxgate.WithNamedWarnings())
	d := w.spend("ann", 100)
	if _, err := w.Settle(t.Context(), d.Receipt(), 450); err != nil {
		t.Fatal(err)
	}
	w.WaitWarnings()
	pending, _ := w.store.PendingWarnings(t.Context(), "", 1)
	if len(pending) != 1 || pending[0].Identity != "user ann" || pending[0].Measure != rules.MeasureRequests || pending[0].Key.Rule != "standard" {
		t.Errorf("pending are %+v", pending)
	}
	w.want("monthly 80% 450/500")
	d = w.spend("ann", 10)
	if _, err := w.Settle(t.Context(), d.Receipt(), 200); err != nil {
		t.Fatal(err)
	}
	w.want("monthly 100% 650/500")
}

// A window warns once in each period while it stays above.
func TestWarn_Window(t *testing.T) {
	w := newWarner(t, perUser(rules.Band{Label: "hour", Kind: rules.SlidingWindow, Capacity: 100, Refill: time.Hour, WarnAt: rules.Percents{50}}))
	for minute := range 180 {
		w.spend("ann", 1)
		w.WaitWarnings()
		if minute == 49 {
			w.want("hour 50% 50/100")
		}
		w.clock.Advance(time.Minute)
	}
	w.want("hour 50% 63/100", "hour 50% 63/100") // a window counts 17/16 of its period
	w.clock.Advance(-24 * time.Hour)             // the mark lasts for a period from here on
	w.spend("ann", 1)
	w.want()
	w.clock.Advance(10 * time.Minute)
	w.spend("ann", 30)
	w.want()
	w.clock.Advance(51 * time.Minute)
	w.spend("ann", 60)
	w.want("hour 50% 96/100")
}

// A rule whose thresholds or capacity change while a bucket is above them warns of the new ones.
func TestWarn_RuleChanges(t *testing.T) {
	w := newWarner(t, perUser(budget()))
	w.spend("ann", 420)
	w.want("monthly 80% 420/500")
	changed := budget()
	changed.WarnAt = rules.Percents{50, 80, 100}
	w.sets.use(ruleSet(t, perUser(changed)))
	w.spend("ann", 1)
	w.want("monthly 50% 421/500")
	changed.Capacity = 1_000
	w.sets.use(ruleSet(t, perUser(changed)))
	w.spend("ann", 79)
	w.want("monthly 50% 500/1000")
	w.sets.use(ruleSet(t, perUser(budget())))
	w.spend("ann", 1)
	w.want("monthly 100% 500/500")
}

// After a reset of its rule a bucket is warned of again.
func TestWarn_Reset(t *testing.T) {
	w := newWarner(t, perUser(budget()))
	for range 2 {
		w.spend("ann", 400)
		w.want("monthly 80% 400/500")
		if err := w.Reset(t.Context(), store.Key{RuleSet: "api", Rule: "standard"}); err != nil {
			t.Fatal(err)
		}
	}
}

// The thresholds are of the capacity that an override gives, for takes and settlements.
func TestWarn_Overrides(t *testing.T) {
	o := newOverridden(t, perUser(budget()))
	o.put(times("acme", 2_000))
	for _, c := range []struct {
		user         string
		cost, actual int64
		want         string
	}{
		{"acme", 799, 799, ""}, {"acme", 1, 1, "monthly 80% 800/1000"}, {"other", 400, 400, "monthly 80% 400/500"},
		{"acme", 1, 250, "monthly 100% 1050/1000"},
	} {
		d := o.check(fluxgate.Request{UserID: c.user, Cost: c.cost})
		if _, err := o.engine.Settle(t.Context(), d.Receipt(), c.actual); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(warningsOf(t, o.store, o.engine), ", "); got != c.want {
			t.Errorf("%+v: the warnings are %q", c, got)
		}
	}
}

// The charge of what was granted during an outage warns, and so does a settlement that was
// sent later.
func TestWarn_AfterOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1, rules.Rule{ID: "r", Bands: []rules.Band{budget()}})
		g := f.gateways[0]
		d := g.check(fluxgate.Request{Cost: 10})
		f.store.away(errNotSent)
		g.check(fluxgate.Request{Cost: 400})
		if got := warningsOf(t, f.store.Store); len(got) > 0 {
			t.Errorf("during the outage there are the warnings %q", got)
		}
		if _, err := g.Settle(t.Context(), d.Receipt(), 100); err != nil && !errors.Is(err, store.ErrNotSent) {
			t.Fatal(err)
		}
		f.store.away(nil)
		time.Sleep(2 * firstCharge)
		synctest.Wait()
		got := strings.Join(warningsOf(t, f.store.Store), ", ")
		if got != "monthly 80% 410/500, monthly 100% 500/500" && got != "monthly 80% 500/500, monthly 100% 500/500" {
			t.Errorf("afterwards the warnings are %q", got)
		}
	})
}

// storeFailures is an observer that keeps the errors of the store.
type storeFailures struct {
	fluxgate.Observer
	mu  sync.Mutex
	all []error
}

func (f *storeFailures) Decided(context.Context, *fluxgate.Request, *fluxgate.Decision, error) {}

func (f *storeFailures) StoreFailed(_ context.Context, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, err)
}

// A flood of callers costs no more memory, and each of them is warned of.
func TestWarn_ManyCallers(t *testing.T) {
	band := budget()
	band.Capacity = 1
	var failed storeFailures
	w := newWarner(t, perUser(band), fluxgate.WithObserver(&failed))
	for i := range 12_000 {
		w.spend(fmt.Sprint("caller-", i), 1)
		if i%1_000 == 0 {
			w.WaitWarnings()
		}
	}
	w.WaitWarnings()
	if len(failed.all) > 0 { // each may have lost two
		t.Logf("%d reports failed, first: %v", len(failed.all), failed.all[0])
	}
	pending, _ := w.store.PendingWarnings(t.Context(), "", 1_000_000)
	if dropped := w.store.Stats().DroppedWarnings; len(pending) != 10_000 || dropped > 2*12_000-10_000 || dropped+2*uint64(len(failed.all)) < 2*12_000-10_000 {
		t.Errorf("%d are pending and %d were dropped", len(pending), dropped)
	}
}

// The largest capacity warns at its thresholds exactly.
func TestWarn_LargestCapacity(t *testing.T) {
	band := budget()
	band.Capacity = 1_000_000_000_000_000
	w := newWarner(t, perUser(band))
	w.spend("ann", band.Capacity/10*8-1)
	w.want()
	w.spend("ann", 1)
	w.want("monthly 80% 800000000000000/1000000000000000")
	d := w.spend("ann", 1)
	if _, err := w.Settle(t.Context(), d.Receipt(), 2*band.Capacity); err != nil {
		t.Fatal(err)
	}
	w.want("monthly 100% 2000000000000000/1000000000000000")
}

// slowWarnings is a store that takes time for a warning.
type slowWarnings struct{ *memstore.Store }

func (s slowWarnings) Warn(ctx context.Context, w *store.Warning) error {
	time.Sleep(50 * time.Millisecond)
	return s.Store.Warn(ctx, w)
}

// No decision and no settlement waits for a warning.
func TestWarn_NoRequestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var list []rules.Rule
		for _, id := range []string{"a", "b", "c"} {
			list = append(list, rules.Rule{ID: id, Scope: rules.ScopeUser, Bands: []rules.Band{budget()}})
		}
		buckets := newStore(t, time.Now)
		e := fluxgate.Must(fluxgate.New(slowWarnings{buckets}, fluxgate.Static(ruleSet(t, list...))))
		began := time.Now()
		d := check(t, e, fluxgate.Request{UserID: "ann", Cost: 450})
		if _, err := e.Settle(t.Context(), d.Receipt(), 500); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("the warnings delay by %v", took)
		}
		if got := warningsOf(t, buckets, e); len(got) != 6 {
			t.Errorf("the warnings are %q", got)
		}
	})
}
