package chaos

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// Timing is how long the parts of a run take. The zero value is what make chaos
// uses.
type Timing struct {
	Before time.Duration // until buckets are used up; 0 means 1.5 s
	During time.Duration // while the fault lasts; 0 means 5 s
}

func (t Timing) withDefaults() Timing {
	if t.Before == 0 {
		t.Before = 1500 * time.Millisecond
	}
	if t.During == 0 {
		t.During = 5 * time.Second
	}
	return t
}

const (
	// calm is how long no answer may be disturbed to count as recovered.
	calm = 500 * time.Millisecond
	// tail is how long the load goes on after that: buckets must then hand out what
	// is due.
	tail = time.Second
	// patience bounds the wait for recovery, above the bars.
	patience = 20 * time.Second
	// faultTimeout bounds Begin and End.
	faultTimeout = time.Minute
)

// Run sets up a fault, sends load, injects the fault, heals it, waits for recovery
// and returns what callers saw. It fails the test only if the fault cannot be
// injected: [Row.Broken] and [Row.Missed] compare with what is promised.
func Run(tb testing.TB, f Fault, load Load, timing Timing) Row {
	tb.Helper()
	load, timing = load.withDefaults(), timing.withDefaults()
	scene := f.Setup(tb)
	testenv.Eventually(tb, "health is up", func() bool { return scene.Path.Healthy(tb.Context()) })
	ctx, stop := context.WithCancel(tb.Context())
	defer stop()
	r := recording{ledger: newLedger(load.Callers)}
	var work sync.WaitGroup
	work.Go(func() { load.send(ctx, scene.Path, r.ledger) })
	work.Go(func() { r.watch(ctx, scene.Path) })

	pause(ctx, timing.Before)
	r.begun = r.ledger.since()
	inject(tb, f.Name+": begin", scene.Begin)
	if !scene.HealsItself {
		pause(ctx, timing.During)
	}
	inject(tb, f.Name+": end", scene.End)
	r.healed = r.ledger.since()
	r.awaitCalm(ctx, r.healed)
	r.settled = r.ledger.since()
	pause(ctx, tail)
	r.awaitCalm(ctx, r.settled+tail) // a busy machine may have disturbed the end
	stop()
	work.Wait()
	row := r.row(f, scene, load)
	ctx, cancel := context.WithTimeout(tb.Context(), faultTimeout)
	defer cancel()
	if p, ok := scene.Path.(*proxied); ok {
		var err error
		if row.Degraded, err = p.degraded(ctx); err != nil {
			row.Broken = append(row.Broken, err.Error())
		}
	}
	if scene.Verify != nil {
		if err := scene.Verify(ctx); err != nil {
			row.Broken = append(row.Broken, err.Error())
		}
	}
	return row
}

func inject(tb testing.TB, what string, f func(context.Context) error) {
	tb.Helper()
	if f == nil {
		return
	}
	ctx, cancel := context.WithTimeout(tb.Context(), faultTimeout)
	defer cancel()
	if err := f(ctx); err != nil {
		tb.Fatalf("%s: %v", what, err)
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// recording is a run as it goes on. Times are since its start.
type recording struct {
	ledger                 *ledger
	begun, healed, settled time.Duration

	mu     sync.Mutex
	health []reading // bounded by the time of a run
}

// reading is one answer of health.
type reading struct {
	at time.Duration
	up bool
}

// healthInterval is how often health is read: often enough to tell when it
// changes.
const healthInterval = 25 * time.Millisecond

// watch reads health until ctx ends.
func (r *recording) watch(ctx context.Context, path Path) {
	for ctx.Err() == nil {
		one, cancel := context.WithTimeout(ctx, 3*time.Second)
		up := path.Healthy(one)
		cancel()
		if ctx.Err() != nil {
			return
		}
		r.mu.Lock()
		r.health = append(r.health, reading{r.ledger.since(), up})
		r.mu.Unlock()
		pause(ctx, healthInterval)
	}
}

// awaitCalm waits until the run is calm, or for [patience] since a moment.
func (r *recording) awaitCalm(ctx context.Context, since time.Duration) {
	for r.ledger.since() < since+patience && !r.calm() {
		pause(ctx, 10*time.Millisecond)
	}
}

// calm reports whether health is up and no answer was disturbed for a while.
func (r *recording) calm() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	up := len(r.health) > 0 && r.health[len(r.health)-1].up && r.health[len(r.health)-1].at > r.healed
	last := max(r.healed, time.Duration(r.ledger.lastDisturbed.Load()))
	return up && r.ledger.since() >= last+calm
}

// noticed returns how long after the fault began health was no longer up.
func (r *recording) noticed() (time.Duration, bool) {
	for _, h := range r.health {
		if h.at >= r.begun && h.at <= r.settled && !h.up {
			return h.at - r.begun, true
		}
	}
	return 0, false
}

// up returns how long after the fault ended health was up for the rest of the run.
func (r *recording) up() (time.Duration, bool) {
	for i := len(r.health) - 1; i >= 0; i-- {
		if h := r.health[i]; !h.up {
			if i == len(r.health)-1 {
				return 0, false
			}
			return max(0, r.health[i+1].at-r.healed), true
		}
	}
	return 0, len(r.health) > 0
}
