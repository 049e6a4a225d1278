package logthrottle_test

import (
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/logthrottle"
)

// The first line is logged, others in the interval are counted, and the next one returns
// the count.
func TestThrottle_Allow(t *testing.T) {
	throttle, start := logthrottle.New(time.Minute), time.Now()
	for i, c := range []struct {
		after      time.Duration
		ok         bool
		suppressed int
	}{{0, true, 0}, {time.Second, false, 0}, {59 * time.Second, false, 0}, {time.Minute, true, 2}, {2 * time.Minute, true, 0}} {
		if ok, suppressed := throttle.Allow(start.Add(c.after)); ok != c.ok || suppressed != c.suppressed {
			t.Errorf("line %d: %t, %d", i, ok, suppressed)
		}
	}
}
