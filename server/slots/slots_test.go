package slots_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxgate/fluxgate/server/slots"
)

func take(t *testing.T, p *slots.Pool, caller string) (release func()) {
	t.Helper()
	release, err := p.Take(t.Context(), caller)
	if err != nil {
		t.Fatalf("%s: %v", caller, err)
	}
	return release
}

// One caller gets its share and no more, and leaves the rest to others.
func TestPool_Share(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := slots.New(3, 2, time.Second)
		first, second := take(t, p, "a"), take(t, p, "a")
		began := time.Now()
		if _, err := p.Take(t.Context(), "a"); !errors.Is(err, slots.ErrFull) || time.Since(began) != time.Second {
			t.Errorf("a third slot of one caller: %v after %v", err, time.Since(began))
		}
		third := take(t, p, "b")
		if _, err := p.Take(t.Context(), "c"); !errors.Is(err, slots.ErrFull) {
			t.Errorf("a fourth slot: %v", err)
		}
		first()
		take(t, p, "c")()
		take(t, p, "a")()
		second()
		third()
	})
}

// A waiter gets the slot that becomes free, in the order of arrival, unless its
// caller has its share already.
func TestPool_Order(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := slots.New(2, 1, time.Minute)
		a, b := take(t, p, "a"), take(t, p, "b")
		order := make(chan string, 3)
		for _, caller := range []string{"a", "c", "d"} {
			go func() {
				release := take(t, p, caller)
				order <- caller
				time.Sleep(time.Second)
				release()
			}()
			synctest.Wait() // it is in the queue
		}
		b()
		for _, want := range []string{"c", "d"} {
			if got := <-order; got != want {
				t.Errorf("%s got the slot, want %s", got, want)
			}
		}
		a()
		if got := <-order; got != "a" {
			t.Errorf("%s got the slot, want a", got)
		}
		time.Sleep(time.Second)
	})
}

// A caller that goes away while it waits leaves the queue, and the queue is
// bounded for each caller.
func TestPool_Queue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := slots.New(8, 1, time.Minute)
		held := take(t, p, "a")
		ctx, cancel := context.WithCancel(t.Context())
		var gone, full atomic.Int64
		for range 100 {
			go func() {
				switch _, err := p.Take(ctx, "a"); {
				case errors.Is(err, slots.ErrFull):
					full.Add(1)
				case errors.Is(err, context.Canceled):
					gone.Add(1)
				}
			}()
		}
		synctest.Wait()
		if full.Load() != 68 {
			t.Errorf("%d of 100 were refused at once, want 68", full.Load())
		}
		take(t, p, "b")() // others are not affected
		cancel()
		synctest.Wait()
		if gone.Load() != 32 {
			t.Errorf("%d have left, want 32", gone.Load())
		}
		held()
		take(t, p, "a")()
	})
}

// No order of taking, waiting and giving up loses a slot or hands one out twice.
func TestPool_Concurrent(t *testing.T) {
	p := slots.New(4, 2, 50*time.Microsecond)
	var used [5]atomic.Int64
	var total atomic.Int64
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			caller := i % len(used)
			for range 300 {
				release, err := p.Take(t.Context(), fmt.Sprint(caller))
				if err != nil {
					continue
				}
				if n, m := used[caller].Add(1), total.Add(1); n > 2 || m > 4 {
					t.Errorf("%d slots of one caller, %d in total", n, m)
				}
				used[caller].Add(-1)
				total.Add(-1)
				release()
			}
		})
	}
	all.Wait()
	for i := range 4 {
		take(t, p, fmt.Sprint(i))
	}
	if n := slots.Callers(p); n != 4 {
		t.Errorf("%d callers are remembered, want the 4 that have a slot", n)
	}
}
