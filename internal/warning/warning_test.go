package warning

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// slow is a store that takes time for a warning, and may fail.
type slow struct {
	takes time.Duration
	mu    sync.Mutex
	err   error
	got   []string
	most  int // at once
	now   int
}

func (s *slow) Resets() uint64 { return 0 }

func (s *slow) Warn(ctx context.Context, w *store.Warning) error {
	s.mu.Lock()
	s.now++
	s.most = max(s.most, s.now)
	s.mu.Unlock()
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now--
	if s.err != nil {
		return s.err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.got = append(s.got, fmt.Sprintf("%s of %x", w.Band, w.Key.ID[:2]), fmt.Sprint(w.Percent, "%"))
	return nil
}

func (s *slow) set(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func of(caller int, ends int64) *store.Warning {
	return &store.Warning{Key: store.Key{ID: store.KeyID{byte(caller), byte(caller >> 8)}}, Band: "month", Capacity: 100, Used: 90, Ends: ends}
}

// A report takes no time, and each crossing is reported once while the store has it or is asked.
func TestReport_Once(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{takes: 200 * time.Millisecond}
		r, began := New(s, func(err error) { t.Error(err) }), time.Now()
		for range 100 {
			r.Report(0, of(1, 1_000), rules.Percents{50, 80})
		}
		r.Report(0, of(2, 1_000), rules.Percents{50})
		if took := time.Since(began); took != 0 {
			t.Errorf("reports took %v", took)
		}
		r.Wait()
		r.Report(0, of(1, 1_000), rules.Percents{50}) // the level is lower again
		r.Report(0, of(1, 1_000), rules.Percents{50, 80})
		r.Wait()
		if len(s.got) != 2*3 {
			t.Errorf("the store has %q", s.got)
		}
		r.Report(0, of(1, 2_000), rules.Percents{50}) // the next period
		r.Wait()
		r.Reset()
		r.Report(0, of(1, 2_000), rules.Percents{50})
		r.Wait()
		if len(s.got) != 2*5 {
			t.Errorf("the store has %q", s.got)
		}
	})
}

// A report that fails is repeated by the next request that sees the level.
func TestReport_Fails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away, failed := errors.New("away"), 0
		s := &slow{err: away}
		r := New(s, func(err error) {
			if failed++; !errors.Is(err, away) {
				t.Error(err)
			}
		})
		for range 3 {
			r.Report(0, of(1, 1_000), rules.Percents{50, 80})
			r.Wait()
		}
		s.set(nil)
		r.Report(0, of(1, 1_000), rules.Percents{50, 80})
		r.Wait()
		if failed != 3 || len(s.got) != 2*2 {
			t.Errorf("%d failed, and the store has %q", failed, s.got)
		}
	})
}

// Reports of a store that does not answer are bounded, in number and at once, and what is dropped
// is an error.
func TestReport_Bounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dropped, late := &slow{takes: time.Hour}, 0, 0
		var mu sync.Mutex
		r := New(s, func(err error) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, ErrTooMany):
				dropped++
			case errors.Is(err, context.DeadlineExceeded):
				late++
			default:
				t.Error(err)
			}
		})
		for i := range maxPending + 100 {
			r.Report(0, of(i, 1_000), rules.Percents{50})
		}
		r.Wait()
		if dropped != 100 || late != maxPending || s.most != workers {
			t.Errorf("%d dropped, %d late, %d at once", dropped, late, s.most)
		}
		if r.queue != nil || len(r.pending) != 0 {
			t.Errorf("%d in the queue, %d pending", len(r.queue), len(r.pending))
		}
	})
}
