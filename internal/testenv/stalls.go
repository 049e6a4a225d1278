package testenv

import (
	"sync"
	"testing"
	"time"
)

// Stalls are the times in which goroutines that were ready did not run, because the machine
// was busy. A test that bounds how long something takes leaves them out.
type Stalls struct {
	mu   sync.Mutex
	last time.Time // when the watching goroutine last ran
	all  []stall
}

type stall struct{ from, to time.Time }

// stallTick is how often the watching goroutine runs. It is a stall if it runs a whole tick late.
const stallTick = 5 * time.Millisecond

// WatchStalls records stalls until the test ends.
func WatchStalls(tb testing.TB) *Stalls {
	s := &Stalls{last: time.Now()}
	end := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		ticker := time.NewTicker(stallTick)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				s.tick(time.Now())
			case <-end:
				return
			}
		}
	})
	tb.Cleanup(func() {
		close(end)
		watching.Wait()
	})
	return s
}

// Since is [time.Since] without stalls.
func (s *Stalls) Since(t time.Time) time.Duration { return s.between(t, time.Now()) }

func (s *Stalls) tick(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if lost, ok := s.lost(now); ok {
		s.all = append(s.all, lost)
	}
	s.last = now
}

// lost is the stall that ends now, if there is one. The lock is held.
func (s *Stalls) lost(now time.Time) (stall, bool) {
	return stall{s.last.Add(stallTick), now}, now.Sub(s.last) > 2*stallTick
}

func (s *Stalls) between(from, to time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.all
	if lost, ok := s.lost(to); ok {
		all = append(all[:len(all):len(all)], lost)
	}
	ran := to.Sub(from)
	for _, lost := range all {
		if lost.from.Before(from) {
			lost.from = from
		}
		if lost.to.After(to) {
			lost.to = to
		}
		ran -= max(0, lost.to.Sub(lost.from))
	}
	return ran
}
