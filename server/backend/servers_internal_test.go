package backend

import (
	"testing"
	"time"
)

// A larger count is kept at once, a smaller one when it has lasted: a fleet that stops or
// restarts has fewer servers for a while.
func TestLastCount_Due(t *testing.T) {
	now := time.Now()
	var lower time.Time
	last := lastCount{Servers: 4}
	for i, step := range []struct {
		after   time.Duration
		servers int
		want    bool
	}{
		{0, 0, false}, {time.Second, 4, false}, {time.Second, 5, true},
		{time.Second, 1, false}, {lowerAfter - time.Second, 3, false}, {time.Second, 4, false}, // back in time
		{time.Second, 3, false}, {lowerAfter / 2, 2, false}, {lowerAfter / 2, 2, true},
	} {
		now = now.Add(step.after)
		if got := last.due(step.servers, now, &lower); got != step.want {
			t.Errorf("step %d: %v", i, got)
		}
	}
}
