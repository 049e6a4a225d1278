// Package warning reports to a store which limits have reached a threshold, beside the requests
// that have seen it: no request waits for a report. Each request that sees a level at or above a
// threshold reports it: a report that fails is repeated by the next one.
package warning

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

const (
	// maxPending bounds the reports that wait for the store, and workers how many are sent at
	// once.
	maxPending = 10_000
	workers    = 16
	// timeout bounds one report.
	timeout = time.Second
)

// ErrTooMany is why a report is dropped. The next request that sees the level repeats it.
var ErrTooMany = errors.New("too many warnings wait until the store has them")

// Store has the warnings.
type Store interface {
	Warn(ctx context.Context, w *store.Warning) error
	Resets() uint64
}

// Reporter remembers which warnings the store has, so that each is sent once. Buckets
// share the slots by their ids, which are hashes: a flood of callers costs calls to the store,
// and no memory. Use [New].
type Reporter struct {
	store  Store
	failed func(error)
	// resets grows with each reset by this process: what is known may then be wrong.
	resets atomic.Uint64
	slots  atomic.Pointer[[1 << 16]slot] // nil until a band has warnAt

	mu      sync.Mutex
	pending map[level]bool // those in the queue and those being sent
	queue   []report
	sending int // workers
	idle    sync.Cond
}

type slot struct {
	reported atomic.Pointer[reported]
	caller   atomic.Pointer[caller] // of the last request, where warnings name it
}

// reported is a band of a bucket set whose warnings the store has.
type reported struct {
	key            store.KeyID
	band           string // the name, as in marks of stores
	resets         uint64
	capacity, ends int64
	percents       rules.Percents
}

type caller struct {
	key  store.KeyID
	name string
}

// report says that a band has reached thresholds.
type report struct {
	level
	index   int // of the band
	warning store.Warning
}

// level is the same in reports of one crossing.
type level struct {
	key            store.KeyID
	band           string
	resets         uint64
	capacity, ends int64 // the end of the period of a quota
	reached        rules.Percents
}

// New returns a reporter. failed is called with the errors of reports.
func New(s Store, failed func(error)) *Reporter {
	r := &Reporter{store: s, failed: failed, pending: map[level]bool{}}
	r.idle.L = &r.mu
	return r
}

func (r *Reporter) slot(key store.KeyID, band int) *slot {
	if r.slots.Load() == nil {
		r.slots.CompareAndSwap(nil, new([1 << 16]slot))
	}
	all := r.slots.Load()
	return &all[(int(binary.LittleEndian.Uint16(key[:]))+band)%len(all)]
}

// Named reports whether the caller of a bucket is known.
func (r *Reporter) Named(key store.KeyID) bool {
	known := r.slot(key, 0).caller.Load()
	return known != nil && known.key == key
}

// Name notes whose bucket it is, for the warnings of it.
func (r *Reporter) Name(key store.KeyID, name string) {
	r.slot(key, 0).caller.Store(&caller{key, name})
}

// Reset forgets which warnings the store has.
func (r *Reporter) Reset() { r.resets.Add(1) }

// Report notes that a band has reached these thresholds, and returns at once. The store gets a
// warning for each threshold that it does not have one for.
func (r *Reporter) Report(band int, w *store.Warning, reached rules.Percents) {
	s, resets := r.slot(w.Key.ID, band), r.resets.Load()+r.store.Resets()
	known := s.known(w, resets)
	if known != nil && known.percents == known.with(reached) {
		return
	}
	one := report{level{w.Key.ID, w.Band, resets, w.Capacity, w.Ends, reached}, band, *w}
	if w.Window {
		one.ends = 0 // it differs for each request
	}
	if caller := r.slot(w.Key.ID, 0).caller.Load(); caller != nil && caller.key == w.Key.ID {
		one.warning.Identity = caller.name
	}
	r.add(&one)
}

func (r *Reporter) add(one *report) {
	r.mu.Lock()
	if r.pending[one.level] {
		r.mu.Unlock()
		return
	}
	if len(r.pending) >= maxPending {
		r.mu.Unlock()
		r.failed(ErrTooMany)
		return
	}
	r.pending[one.level] = true
	r.queue = append(r.queue, *one)
	if r.sending < workers {
		r.sending++
		go r.send()
	}
	r.mu.Unlock()
}

// send sends reports until none waits.
func (r *Reporter) send() {
	r.mu.Lock()
	for len(r.queue) > 0 {
		one := r.queue[0]
		r.queue[0] = report{}
		r.queue = r.queue[1:]
		r.mu.Unlock()
		r.try(&one)
		r.mu.Lock()
		delete(r.pending, one.level)
	}
	if r.sending--; r.sending == 0 {
		r.queue = nil
		r.idle.Broadcast()
	}
	r.mu.Unlock()
}

// Wait returns when the store has all warnings that were reported before, or their reports have
// failed.
func (r *Reporter) Wait() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.sending > 0 {
		r.idle.Wait()
	}
}

// try adds the warnings that the store does not have.
func (r *Reporter) try(one *report) {
	w, s := &one.warning, r.slot(one.key, one.index)
	known := s.known(w, one.resets)
	all, ends := known.with(one.reached), w.Ends
	if known != nil {
		ends = known.ends
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	for n, percent := range one.reached {
		if percent == 0 || known != nil && known.percents[n] == percent {
			continue
		}
		next := *w
		next.Percent = percent
		if err := r.store.Warn(ctx, &next); err != nil {
			r.failed(err)
			return
		}
		ends = min(ends, next.Ends)
	}
	s.reported.Store(&reported{one.key, one.band, one.resets, one.capacity, ends, all})
}

// known returns what the store has of the capacity and the period of a warning, or nil. A clock
// that steps back ends what is known of a window.
func (s *slot) known(w *store.Warning, resets uint64) *reported {
	k := s.reported.Load()
	switch {
	case k == nil || k.key != w.Key.ID || k.band != w.Band || k.resets != resets || k.capacity != w.Capacity:
		return nil
	case k.ends == w.Ends || w.Window && w.At < k.ends && k.ends <= w.Ends:
		return k
	}
	return nil
}

// with returns the thresholds that were reported and those that are reached now. The level may be
// lower again.
func (k *reported) with(reached rules.Percents) rules.Percents {
	for n := range reached {
		if k != nil && reached[n] == 0 {
			reached[n] = k.percents[n]
		}
	}
	return reached
}
