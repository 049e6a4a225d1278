package memstore

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate/store"
)

const (
	maxMarks   = 50_000 // of two generations each
	maxPending = 10_000
	maxRecent  = 200
	clockStep  = int64(time.Second / time.Microsecond) // as staleFor
)

// warnings are the warnings of a store, and when the mark of each ends. The last maxMarks marks
// are known at least: a warning whose mark was forgotten is added again.
type warnings struct {
	mu              sync.Mutex
	marks, former   map[string]int64
	pending, recent []store.Warning
	added, dropped  uint64
}

// Warn implements [store.Store].
func (s *Store) Warn(ctx context.Context, w *store.Warning) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	own := *w
	mark := own.Identify(s.resets.place(&w.Key).String())
	l := &s.warnings
	l.mu.Lock()
	defer l.mu.Unlock()
	if ends, marked := l.marked(mark, &own, s.clock()); marked {
		w.Ends = ends
		return nil
	}
	l.mark(mark, own.Ends)
	l.added++
	own.Place = fmt.Sprintf("%020d", l.added) // in order
	if len(l.pending) >= maxPending {
		l.pending = l.pending[1:] // append moves the others once in a while, not each time
		l.dropped++
	}
	l.pending = append(l.pending, own)
	l.recent = append(l.recent[max(0, len(l.recent)+1-maxRecent):], own)
	return nil
}

// marked reports whether the store has the warning, and until when. A level that was seen before
// the mark ended belongs to its period, however late the report is. After a step back of the clock,
// a mark of a window lasts for a period from then on.
func (l *warnings) marked(mark string, w *store.Warning, now int64) (ends int64, marked bool) {
	ends, known := l.marks[mark]
	if !known {
		ends, known = l.former[mark]
	}
	if known && ends > w.Ends+clockStep {
		ends = w.Ends
		l.mark(mark, ends)
	}
	return ends, known && (ends > min(w.At, now) || ends >= w.Ends)
}

func (l *warnings) mark(mark string, ends int64) {
	if l.marks == nil || len(l.marks) >= maxMarks {
		l.marks, l.former = map[string]int64{}, l.marks
	}
	l.marks[mark] = ends
}

// PendingWarnings returns the first warnings after a place that are not delivered, at most so many.
func (s *Store) PendingWarnings(_ context.Context, after string, most int) (all []store.Warning, err error) {
	s.warnings.mu.Lock()
	defer s.warnings.mu.Unlock()
	for _, w := range s.warnings.pending {
		if w.Place > after && len(all) < most {
			all = append(all, w)
		}
	}
	return all, nil
}

// DeliveredWarning removes a warning from those that are pending.
func (s *Store) DeliveredWarning(_ context.Context, delivered *store.Warning) error {
	s.warnings.mu.Lock()
	defer s.warnings.mu.Unlock()
	s.warnings.pending = slices.DeleteFunc(s.warnings.pending, func(w store.Warning) bool { return w.Place == delivered.Place })
	return nil
}

// RecentWarnings returns the last warnings, the newest first, delivered or not: at most max,
// and no more than 200.
func (s *Store) RecentWarnings(_ context.Context, most int) ([]store.Warning, error) {
	s.warnings.mu.Lock()
	defer s.warnings.mu.Unlock()
	recent := slices.Clone(s.warnings.recent)
	slices.Reverse(recent)
	return recent[:min(most, len(recent))], nil
}

// LeadWarnings reports that this process delivers the warnings: no other has them.
func (s *Store) LeadWarnings(context.Context, time.Duration) (bool, error) { return true, nil }
