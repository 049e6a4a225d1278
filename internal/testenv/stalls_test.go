package testenv

import (
	"testing"
	"time"
)

// A stall begins when the watching goroutine should have run, and only what is of the measured
// time counts.
func TestStalls_Between(t *testing.T) {
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	s := &Stalls{last: start}
	for _, ms := range []int{5, 10, 110, 119, 124, 324, 329} { // 15 to 110 and 129 to 324 are stalls
		s.tick(at(ms))
	}
	for _, c := range []struct{ from, to, want int }{
		{0, 10, 10},
		{0, 110, 15},
		{0, 329, 329 - 95 - 195},
		{60, 124, 14},
		{60, 200, 19},
		{150, 200, 0},
		{110, 124, 14},
		{326, 338, 12},
		{326, 400, 8}, // a stall that has not ended
	} {
		if got := s.between(at(c.from), at(c.to)); got != time.Duration(c.want)*time.Millisecond {
			t.Errorf("%d to %d: %v, want %d ms", c.from, c.to, got, c.want)
		}
	}
}

// A goroutine that only sleeps is not stalled for long, and what it slept counts.
func TestStalls_Since(t *testing.T) {
	s := WatchStalls(t)
	start := time.Now()
	time.Sleep(100 * time.Millisecond)
	ran, passed := s.Since(start), time.Since(start)
	t.Logf("ran %v of %v", ran, passed)
	if ran <= 0 || ran > passed {
		t.Errorf("ran %v of %v", ran, passed)
	}
}
