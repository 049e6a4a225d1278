package chaos

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// fakePath is a path in memory with a fault that a test controls.
type fakePath struct {
	engine *fluxgate.Engine
	away   atomic.Bool
	faulty func(Answer) Answer // applied while away
	free   string              // whose users are not limited while away
}

func (p *fakePath) Send(ctx context.Context, _ int, user string) Answer {
	d, err := p.engine.Check(ctx, &fluxgate.Request{APIKey: user, Path: pathOf(user)})
	a := Answer{Allowed: d.Allowed, Err: err}
	if p.away.Load() {
		a = p.faulty(a)
		a.Allowed = a.Allowed || p.free != "" && pathOf(user) == "/"+p.free
	}
	if a.Allowed {
		a.work(ctx, user)
	}
	if holdsSlot(user) {
		_, _ = p.engine.Settle(ctx, d.Receipt(), 1)
	}
	return a
}
func (p *fakePath) Healthy(context.Context) bool { return !p.away.Load() }
func (p *fakePath) Deadline() time.Duration      { return 100 * time.Millisecond }

func degraded(a Answer) Answer { a.Degraded = true; return a }

// A run reports what a fault did: nothing wrong, too many tokens, errors, a steady
// user refused, no recovery in time.
func TestRun_Row(t *testing.T) {
	for name, c := range map[string]struct {
		faulty func(Answer) Answer
		free   string
		expect Expect
		broken string // empty if nothing is broken
	}{
		"degraded within the bound": {faulty: degraded},
		"too many tokens":           {faulty: degraded, free: "user", broken: "user-4 got"},
		"too many of a quota":       {faulty: degraded, free: "quota", broken: "quota-6 got"},
		"too many of a window":      {faulty: degraded, free: "window", broken: "window-9 got"},
		"too many at once":          {faulty: degraded, free: "slots", broken: "requests of slots-12 at the same time"},
		"of one of several bands":   {faulty: degraded, free: "joined", broken: "joined-15 got"},
		"of one of several rules":   {faulty: degraded, free: "apart", broken: "requests of apart-18 at the same time"},
		"errors":                    {faulty: func(Answer) Answer { return Answer{Err: errors.New("refused")} }, broken: "errors, the first: refused"},
		"errors that are expected":  {faulty: func(Answer) Answer { return Answer{Err: errors.New("refused")} }, expect: Expect{Errors: true}},
		"a steady user is refused":  {faulty: func(Answer) Answer { return Answer{Degraded: true} }, broken: "user-0 was refused within its limit"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, err := memstore.New(memstore.Config{})
				if err != nil {
					t.Fatal(err)
				}
				path := &fakePath{faulty: c.faulty, free: c.free}
				if path.engine, err = fluxgate.New(store, fluxgate.Static(ruleSet(t))); err != nil {
					t.Fatal(err)
				}
				f := Fault{Name: name, Expect: c.expect, Setup: func(testing.TB) *Scene {
					return &Scene{
						Path:  path,
						Begin: func(context.Context) error { path.away.Store(true); return nil },
						End:   func(context.Context) error { path.away.Store(false); return nil },
					}
				}}
				row := Run(t, f, Load{}, Timing{Before: 900 * time.Millisecond, During: 1100 * time.Millisecond})
				if got := strings.Join(row.Broken, "\n"); c.broken == "" && got != "" || !strings.Contains(got, c.broken) {
					t.Errorf("broken: %q, want %q", got, c.broken)
				}
				if row.Noticed == never || row.Recovered == never || row.Up == never {
					t.Errorf("%+v", row)
				}
			})
		})
	}
}

// quiet finds the first span without a disturbed answer.
func TestQuiet_FirstSpan(t *testing.T) {
	var all []entry
	for ms := range 2_000 {
		at := time.Duration(ms) * time.Millisecond
		all = append(all, entry{sent: at, degraded: ms < 700 || ms == 900})
	}
	if at, ok := quiet(all, 500*time.Millisecond, 150*time.Millisecond); !ok || at != 699*time.Millisecond {
		t.Errorf("150 ms: %v %t", at, ok)
	}
	if at, ok := quiet(all, 500*time.Millisecond, 500*time.Millisecond); !ok || at != 900*time.Millisecond {
		t.Errorf("500 ms: %v %t", at, ok)
	}
	if _, ok := quiet(all, 500*time.Millisecond, 2*time.Second); ok {
		t.Error("no span has 2 s")
	}
}

func TestQuantiles_Sorted(t *testing.T) {
	all := make([]entry, 1_000)
	for i := range all {
		all[i].took = time.Duration(i+1) * time.Millisecond
	}
	got := quantiles(all, tookOf, 0.5, 0.999, 1)
	if got[0] != 501*time.Millisecond || got[1] != time.Second || got[2] != time.Second {
		t.Errorf("%v", got)
	}
	if got := quantiles(nil, tookOf, 0.5); got[0] != 0 {
		t.Errorf("of nothing %v", got)
	}
}
