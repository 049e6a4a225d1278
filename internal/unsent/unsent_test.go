package unsent

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/store"
)

// away is a store that does not get settlements until it is back.
type away struct {
	mu    sync.Mutex
	why   error // as NotSent, or as an error if it may have run
	runs  bool
	calls int
	got   map[int64]int // by their actual costs
	lost  []error
}

func (a *away) settle(_ context.Context, takes store.Takes, actual []int64) ([]store.Settlement, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls++
	if a.why != nil && !a.runs {
		return []store.Settlement{{NotSent: a.why}}, nil
	}
	a.got[actual[0]]++
	return make([]store.Settlement, len(takes)), a.why
}

func (a *away) set(why error, runs bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.why, a.runs = why, runs
}

func newQueue() (*Queue, *away) {
	a := &away{why: store.ErrNotSent, got: map[int64]int{}}
	return New(a.settle, func(err error) { a.lost = append(a.lost, err) }), a
}

var minute = store.Taken{Cost: 1, Bands: []store.ExactBand{{Kind: bucket.Concurrency, Period: time.Minute}}}

// Settlements are sent until the store has them, each once.
func TestQueue_UntilSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, a := newQueue()
		for i := range int64(100) {
			if err := q.Add(&minute, i); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if q.Waiting() != 100 || a.calls < 10*100 {
			t.Errorf("%d wait after %d calls, want 100 that are tried again and again", q.Waiting(), a.calls)
		}
		a.set(nil, false)
		time.Sleep(time.Second)
		synctest.Wait()
		calls := a.calls
		time.Sleep(time.Minute)
		synctest.Wait()
		for i := range int64(100) {
			if a.got[i] != 1 {
				t.Errorf("settlement %d was sent %d times", i, a.got[i])
			}
		}
		if q.Waiting() != 0 || q.Lost() != 0 || a.calls != calls {
			t.Errorf("%d wait, %d are lost, %d more calls", q.Waiting(), q.Lost(), a.calls-calls)
		}
	})
}

// A settlement that may have run is not sent again, and is counted.
func TestQueue_MayHaveRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, a := newQueue()
		timeout := errors.New("no answer")
		a.set(timeout, true)
		_ = q.Add(&minute, 1)
		time.Sleep(time.Minute)
		synctest.Wait()
		if a.calls != 1 || q.Waiting() != 0 || q.Lost() != 1 || len(a.lost) != 1 || !errors.Is(a.lost[0], timeout) {
			t.Errorf("%d calls, %d wait, %d lost: %v", a.calls, q.Waiting(), q.Lost(), a.lost)
		}
	})
}

// No more than Most settlements wait. One that is tried again keeps its place.
func TestQueue_Full(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, a := newQueue()
		full := 0
		for range Most + 5 {
			if err := q.Add(&minute, 1); errors.Is(err, ErrFull) {
				full++
			}
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if full != 5 || q.Lost() != 5 || len(a.lost) != 5 || q.Waiting() != Most {
			t.Errorf("%d were refused, %d lost, %d wait", full, q.Lost(), q.Waiting())
		}
		q.Close()
	})
}

// A settlement is given up when it cannot change anything any more.
func TestQueue_Late(t *testing.T) {
	year := 366 * 24 * time.Hour
	daily, err := bucket.NewBand(1, 10, 10, 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		bands []store.ExactBand
		from  time.Duration
		until time.Duration
	}{
		"slots":           {minute.Bands, 59 * time.Second, 61 * time.Second},
		"a quota":         {[]store.ExactBand{{Kind: bucket.Quota, Period: time.Hour}}, 59 * time.Minute, 61 * time.Minute},
		"a window":        {[]store.ExactBand{{Kind: bucket.Window, Period: 16 * time.Hour}}, 1019 * time.Minute, 1021 * time.Minute},
		"a bucket":        {[]store.ExactBand{daily}, 47 * time.Hour, 49 * time.Hour}, // in the largest debt
		"slots and years": {append([]store.ExactBand{{Kind: bucket.Quota, Period: year}}, minute.Bands...), year - time.Hour, year + time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			if got := matters(c.bands); got < c.from || got > c.until {
				t.Errorf("it matters for %v", got)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		q, a := newQueue()
		_ = q.Add(&minute, 1)
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if q.Waiting() != 1 || q.Lost() != 0 {
			t.Errorf("%d wait and %d are lost while the request holds its slot", q.Waiting(), q.Lost())
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if q.Waiting() != 0 || q.Lost() != 1 || !errors.Is(errors.Join(a.lost...), ErrLate) {
			t.Errorf("%d wait and %d are lost after that: %v", q.Waiting(), q.Lost(), a.lost)
		}
	})
}

// Close loses what waits, and says how many. Nothing is kept after that.
func TestQueue_Close(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, a := newQueue()
		_ = q.Add(&minute, 1)
		_ = q.Add(&minute, 2)
		if n := q.Close(); n != 2 || q.Waiting() != 0 || q.Lost() != 2 {
			t.Errorf("%d are lost, %d wait, %d are counted", n, q.Waiting(), q.Lost())
		}
		if err := q.Add(&minute, 3); !errors.Is(err, ErrClosed) || q.Lost() != 3 {
			t.Errorf("after that: %v, %d are lost", err, q.Lost())
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if a.calls != 0 {
			t.Errorf("%d calls", a.calls)
		}
	})
}
