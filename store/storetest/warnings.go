package storetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// Warnings are the warnings of a store, for those who deliver them.
type Warnings interface {
	// PendingWarnings returns the first warnings that are not delivered, after a place if it
	// is not empty.
	PendingWarnings(ctx context.Context, after string, most int) ([]store.Warning, error)
	// DeliveredWarning removes a warning from those that are pending.
	DeliveredWarning(ctx context.Context, w *store.Warning) error
	// RecentWarnings returns the last warnings, the newest first.
	RecentWarnings(ctx context.Context, most int) ([]store.Warning, error)
}

var warningChecks = []Check{
	{"warnings are one for each bucket, band, percent and capacity", warnOnce},
	{"warnings of a quota return in the next period, and late ones are kept", warnPeriods},
	{"warnings of a window return after a period, also if the clock steps back", warnWindows},
	{"warnings return after a reset of the rule", warnReset},
	{"warnings are pending until they are delivered, in their order", warnPending},
	{"settle reports the levels of quotas and windows", settleLevels},
}

// warning is of a quota that ends in a minute.
func (f *fixture) warning() store.Warning {
	return store.Warning{
		Key: f.key("rule"), Band: "monthly", Percent: 80, Capacity: 500, Used: 400, Measure: "usd", Identity: "user ann",
		At: f.now(), Ends: f.now() + time.Minute.Microseconds(),
	}
}

// warn adds a warning and returns whether it is new.
func (f *fixture) warn(w store.Warning) bool {
	f.Helper()
	before := len(f.warned(w.Key))
	if err := f.Store.Warn(f.Context(), &w); err != nil {
		f.Fatalf("Warn: %v", err)
	}
	return len(f.warned(w.Key)) > before
}

// warned are the warnings of a bucket set, the newest first.
func (f *fixture) warned(k store.Key) []store.Warning {
	f.Helper()
	if f.Warnings == nil {
		f.Skip("the Backend has no Warnings")
	}
	all, err := f.Warnings.RecentWarnings(f.Context(), 200)
	if err != nil {
		f.Fatalf("RecentWarnings: %v", err)
	}
	return slices.DeleteFunc(all, func(w store.Warning) bool { return w.Key.ID != k.ID })
}

func (f *fixture) wantWarning(what string, w store.Warning, want bool) {
	f.Helper()
	if got := f.warn(w); got != want {
		f.Errorf("%s: new is %t, want %t", what, got, want)
	}
}

func warnOnce(t testing.TB, b Backend) {
	f := newFixture(t, b)
	w := f.warning()
	f.wantWarning("the first", w, true)
	got := f.warned(w.Key)[0]
	want := w
	if want.ID, want.Place = got.ID, got.Place; got != want || got.ID == "" {
		t.Errorf("it is %+v, want %+v", got, want)
	}
	f.Advance(time.Second)
	again := w
	again.At, again.Used, again.Identity = f.now(), 401, ""
	f.wantWarning("again", again, false)
	for what, change := range map[string]func(*store.Warning){
		"another percent":    func(w *store.Warning) { w.Percent = 100 },
		"another capacity":   func(w *store.Warning) { w.Capacity = 501 },
		"another band":       func(w *store.Warning) { w.Band = "daily" },
		"another bucket set": func(w *store.Warning) { w.Key = f.key("rule") },
	} {
		other := w
		change(&other)
		f.wantWarning(what, other, true)
		f.wantWarning(what+" again", other, false)
		if f.warned(other.Key)[0].ID == got.ID {
			t.Errorf("%s: it has the same ID", what)
		}
	}
}

func warnPeriods(t testing.TB, b Backend) {
	f := newFixture(t, b)
	w := f.warning()
	f.wantWarning("the first", w, true)
	late := w
	late.Percent = 100
	f.Advance(time.Minute)
	f.wantWarning("one that was seen before", w, false)
	next := w
	next.At, next.Ends = f.now(), f.now()+time.Minute.Microseconds()
	f.wantWarning("in the next period", next, true)
	f.wantWarning("in the next period again", next, false)
	all := f.warned(w.Key)
	if len(all) == 2 && all[0].ID == all[1].ID {
		t.Error("the warnings of two periods have one ID")
	}
	f.wantWarning("one of the last period that comes late", late, true)
	f.wantWarning("and comes again", late, false)
}

func warnWindows(t testing.TB, b Backend) {
	f := newFixture(t, b)
	w := f.warning()
	w.Window = true
	seen := func(advance time.Duration) store.Warning {
		f.Advance(advance)
		w.At, w.Ends = f.now(), f.now()+time.Minute.Microseconds()
		return w
	}
	f.wantWarning("the first", seen(0), true)
	first := w
	shorter := w
	shorter.Ends = w.At + time.Second.Microseconds() // by a server with other rules
	f.wantWarning("of another period", shorter, true)
	f.wantWarning("in its period", seen(time.Minute-time.Microsecond), false)
	again := w
	if err := f.Store.Warn(t.Context(), &again); err != nil || again.Ends != first.Ends {
		t.Errorf("the warning that is there ends at %d, want %d, %v", again.Ends, first.Ends, err)
	}
	f.Advance(time.Microsecond)
	f.wantWarning("seen in its period, and reported after it", w, false)
	f.wantWarning("after it", seen(0), true)
	f.wantWarning("after a step back of the clock", seen(-time.Hour), false)
	f.wantWarning("in a period from there", seen(time.Minute-time.Microsecond), false)
	f.wantWarning("after that", seen(time.Microsecond), true)
}

func warnReset(t testing.TB, b Backend) {
	f := newFixture(t, b)
	w := f.warning()
	f.wantWarning("the first", w, true)
	if _, err := f.Store.Reset(t.Context(), store.Reset{Key: store.Key{RuleSet: w.Key.RuleSet, Rule: w.Key.Rule}}); err != nil {
		t.Fatal(err)
	}
	f.wantWarning("after a reset of the rule", w, true)
	f.wantWarning("and again", w, false)
}

func warnPending(t testing.TB, b Backend) {
	f := newFixture(t, b)
	w := f.warning()
	for n := range 3 {
		w.Percent = 70 + n
		f.Advance(time.Millisecond)
		w.At = f.now()
		f.wantWarning("a new one", w, true)
	}
	pending := func() (percents []int, all []store.Warning) {
		found, err := f.Warnings.PendingWarnings(t.Context(), "", 10_000)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range found {
			if p.Key == w.Key {
				percents, all = append(percents, p.Percent), append(all, p)
			}
		}
		return percents, all
	}
	percents, all := pending()
	if !slices.Equal(percents, []int{70, 71, 72}) {
		t.Fatalf("pending are those at %v percent", percents)
	}
	for _, i := range []int{1, 0} {
		if err := f.Warnings.DeliveredWarning(t.Context(), &all[i]); err != nil {
			t.Fatal(err)
		}
	}
	if percents, _ := pending(); !slices.Equal(percents, []int{72}) {
		t.Errorf("after two were delivered those at %v percent are pending", percents)
	}
	if recent := f.warned(w.Key); len(recent) != 3 || recent[0].Percent != 72 || recent[2].Percent != 70 {
		t.Errorf("recent are %+v", recent)
	}
	f.wantWarning("one that was delivered", all[0], false)
	if first, err := f.Warnings.PendingWarnings(t.Context(), "", 1); err != nil || len(first) != 1 {
		t.Errorf("of one there are %+v, %v", first, err)
	}
	for n := range 3 {
		w.Percent = 90 + n
		f.Advance(time.Millisecond)
		w.At = f.now()
		f.wantWarning("another", w, true)
	}
	_, all = pending()
	var read []store.Warning
	for place := ""; ; {
		next, err := f.Warnings.PendingWarnings(t.Context(), place, 1)
		if err != nil || len(next) > 1 {
			t.Fatalf("after %q there are %+v, %v", place, next, err)
		}
		if len(next) == 0 {
			break
		}
		if place = next[0].Place; next[0].Key != w.Key {
			continue
		}
		read = append(read, next...)
		if err := f.Warnings.DeliveredWarning(t.Context(), &next[0]); err != nil { // its place is still one
			t.Fatal(err)
		}
	}
	if !slices.Equal(read, all) {
		t.Errorf("one after the other there are %+v, want %+v", read, all)
	}
}

// settleLevels: the levels after a settlement are those that a take would find.
func settleLevels(t testing.TB, b Backend) {
	f := newFixture(t, b)
	window := rules.Band{Kind: rules.SlidingWindow, Capacity: 100, Refill: time.Minute}
	for _, actual := range []int64{10, 130, 0} {
		demands := []store.Demand{
			f.quota(40, 100, 0, time.Minute), f.demand(40, window), f.demand(40, band("", 100, 1, time.Hour), window),
		}
		takes := store.NewTakes(demands, f.mustTake(demands...))
		f.Advance(time.Second)
		settled := f.settleEach(takes, takes.Same(actual)...)
		for i, d := range demands {
			d.Cost = 0
			found, level, last := f.peek(d).Results[0], settled[i].Level, len(d.Bands)-1
			found.Bands[last].Wait = 0 // it is that of a demand
			if level == nil || level.Now != f.now() || level.Bands[last] != found.Bands[last] {
				t.Errorf("demand %d settled at %d has the level %+v, want %+v", i, actual, level, found)
			}
		}
	}
}
