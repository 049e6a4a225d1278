package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// Soak is a long run of a server process under mixed load and random faults, after
// which it must use no more than before.
type Soak struct {
	Seed     uint64
	Duration time.Duration
	// FaultFor is the longest time that a fault lasts, and the longest pause after it.
	FaultFor time.Duration
	// WarmUp is how many of the faults happen once before the first measurement, so
	// that what the server allocates once is there. 0 means all of them.
	WarmUp int
}

// SoakResult is what a run found.
type SoakResult struct {
	Begin, End Usage
	Faults     int
	// Load says what was sent. Broken are broken promises.
	Load   string
	Broken []string
}

const (
	soakCallers   = 16
	soakPerSecond = 400
)

// Run warms the server up, measures, injects random faults under load, heals them and
// measures again.
func (s Soak) Run(tb testing.TB) SoakResult {
	tb.Helper()
	scene := startSoakScene(tb)
	r := rand.New(rand.NewPCG(s.Seed, 0))
	faults := scene.faults()
	r.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	load := &soakLoad{scene: scene, seed: s.Seed, callers: soakCallers, perSecond: soakPerSecond, http: newHTTPClient(tb)}
	var result SoakResult
	warm := faults
	if s.WarmUp > 0 {
		warm = faults[:s.WarmUp]
	}
	load.everyone(tb.Context())
	load.during(tb, func() {
		for _, f := range warm {
			result.Broken = append(result.Broken, scene.inject(tb, f, r, s.FaultFor)...)
		}
	})
	result.Begin = load.usage(tb)
	load.during(tb, func() {
		for start := time.Now(); time.Since(start) < s.Duration; result.Faults++ {
			result.Broken = append(result.Broken, scene.inject(tb, warm[r.IntN(len(warm))], r, s.FaultFor)...)
		}
	})
	// What times out, such as an idle connection, may take a while.
	for end := time.Now().Add(time.Minute); ; {
		if result.End = load.usage(tb); len(result.End.Above(result.Begin)) == 0 || time.Now().After(end) {
			break
		}
	}
	result.Broken = append(result.Broken, result.End.Above(result.Begin)...)
	result.Load = load.String()
	if n := load.failed.Load(); n > 0 {
		result.Broken = append(result.Broken, fmt.Sprintf("%d calls failed, the first: %v", n, *load.first.Load()))
	}
	if err := scene.daemon.verify(tb.Context()); err != nil {
		result.Broken = append(result.Broken, err.Error())
	}
	return result
}

// during sends load while f runs.
func (l *soakLoad) during(tb testing.TB, f func()) {
	tb.Helper()
	ctx, stop := context.WithCancel(tb.Context())
	var work sync.WaitGroup
	work.Go(func() { l.send(ctx) })
	f()
	stop()
	work.Wait()
}

// inject injects a fault for a random time, heals it and waits until health is up.
func (s *soakScene) inject(tb testing.TB, f soakFault, r *rand.Rand, longest time.Duration) (broken []string) {
	tb.Helper()
	inject(tb, f.name+": begin", f.begin)
	pause(tb.Context(), time.Duration(r.Int64N(int64(longest))))
	inject(tb, f.name+": end", f.end)
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	err := until(ctx, func() error {
		if !s.daemon.Healthy(ctx) {
			return fmt.Errorf("health is not up %v after %s", patience, f.name)
		}
		return nil
	})
	if err != nil {
		broken = append(broken, err.Error())
	}
	pause(tb.Context(), time.Duration(r.Int64N(int64(longest))))
	return broken
}

// usage measures the server after its pools of connections have grown to what the
// callers of the load can need: faults make them smaller.
func (l *soakLoad) usage(tb testing.TB) Usage {
	tb.Helper()
	r := rand.New(rand.NewPCG(l.seed, 0))
	receipts := make([]string, l.callers)
	l.scene.proxy.SetLatency(0, soakTimeout/10)
	for i := range receipts {
		receipts[i] = l.receipt(tb.Context(), body(r, "/other", ""))
	}
	l.concurrently(func(caller int) { l.settle(tb.Context(), receipts[caller], 1) })
	l.scene.proxy.SetLatency(0, 0)
	var u Usage
	most := l.scene.proxy.Connections() // or those that end meanwhile would be more the next time
	for range 2 {                       // a connection may become idle just after the others were closed
		l.http.CloseIdleConnections()
		u = l.scene.daemon.usage(tb)
		most = max(most, l.scene.proxy.Connections())
	}
	u.Connections = most
	return u
}
