package retry_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxgate/fluxgate/internal/retry"
)

// Each item is tried until it is done, and not again. One that is added later is tried too.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const items, attempts = 100, 3
		var tried [2 * items]atomic.Int64
		q := retry.New(func(i int) bool { return tried[i].Add(1) < attempts })
		for part := range 2 {
			for i := range items {
				q.Add(part*items + i)
			}
			time.Sleep(10 * retry.Every)
		}
		for i := range tried {
			if n := tried[i].Load(); n != attempts {
				t.Errorf("item %d was tried %d times, want %d", i, n, attempts)
			}
		}
	})
}

// Items that wait can be dropped.
func TestQueue_Drop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tried atomic.Int64
		q := retry.New(func(int) bool { tried.Add(1); return true })
		q.Add(1)
		time.Sleep(retry.Every + 1)
		if n := len(q.Drop()); n != 1 || tried.Load() != 1 {
			t.Errorf("%d dropped after %d attempts, want 1 after 1", n, tried.Load())
		}
		time.Sleep(10 * retry.Every)
		if tried.Load() != 1 {
			t.Errorf("tried %d times", tried.Load())
		}
	})
}
