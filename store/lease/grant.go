package lease

import (
	"errors"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate/store"
)

// notAsked ends a call for a slice that was not made.
func (l *lease) notAsked() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asks.end(nil)
}

// failed ends a call for a slice with an error. If the store may have taken tokens, it is not
// asked again for a while.
func (l *lease) failed(sent time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(err, store.ErrNotSent) {
		l.asks.end(err)
	} else {
		l.asks.rest(sent, err)
	}
}

// answered keeps what the store has granted beyond a cost.
func (l *lease) answered(sent time.Time, asked, cost int64, result *store.Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if result.Status == store.Unavailable {
		l.asks.rest(sent, nil)
		return
	}
	l.learn(sent, result)
	if more := result.Granted - cost; result.Granted > 0 && more > 0 {
		l.keep(sent, slice{left: more, at: result.Now, until: sent.Add(Time - margin)})
		l.counts.slices.Add(1)
		l.counts.granted.Add(more)
	}
	switch {
	case result.Status == store.Rejected:
		l.asks.pause(sent, max(1, cost))
	case result.Status == store.OK && result.Granted > 0 && result.Granted < cost+asked:
		l.asks.pause(sent, 1) // nothing is left
	default:
		l.asks.end(nil)
	}
}

// keep adds a slice. What is left of two others makes one, which ends with the first.
func (l *lease) keep(now time.Time, s slice) {
	if l.ended {
		l.lose(s.left, s.at)
		return
	}
	place := 0
	if first, second := &l.slices[0], &l.slices[1]; l.live(0, now) > 0 {
		if place = 1; l.live(1, now) > 0 {
			first.left, first.at = first.left+second.left, min(first.at, second.at)
			if second.until.Before(first.until) {
				first.until = second.until
			}
		}
	}
	l.slices[place] = s
}

// learn keeps an answer of the store.
func (l *lease) learn(sent time.Time, result *store.Result) {
	known := *result
	known.Bands = slices.Clone(result.Bands)
	l.known, l.knownSent = known, sent
}

// write writes the result of a demand that was decided from memory.
func (l *lease) write(p *part, now time.Time, result *store.Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d, passed := p.demand, now.Sub(l.knownSent)
	result.Status, result.Source = store.OK, store.FromLease
	result.Granted, result.Now = d.Cost, p.at
	if p.verdict == refusedByPause {
		result.Status, result.Granted, result.Now = store.Rejected, 0, l.known.Now+passed.Microseconds()
		result.Wait = max(time.Microsecond, l.asks.refuseUntil.Sub(now))
	}
	held := l.held()
	for i := range result.Bands {
		band := l.known.Bands[i]
		band.Wait = 0
		if band.Remaining < d.Cost {
			band.Wait = result.Wait
		}
		band.Remaining = min(d.Bands[i].Capacity, band.Remaining+held)
		result.Bands[i] = aged(band, passed)
	}
}

func (l *lease) heldAt(now time.Time) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.live(0, now) + l.live(1, now)
}

// unused reports whether another bucket may have the place.
func (l *lease) unused(current int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return current-l.epoch > 2
}

// end makes the lease void, and returns what is left of it.
func (l *lease) end(now time.Time) store.Takes {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	var left store.Takes
	for i := range l.slices {
		if n := l.live(i, now); n > 0 {
			left = append(left, l.taken(n, l.slices[i].at))
			l.waste(i)
		}
	}
	return left
}

func (l *lease) taken(n, at int64) store.Taken {
	return store.Taken{Key: l.key, Bands: l.bands, Cost: n, Asked: n, Source: store.FromLease, At: at}
}

// change ends the lease because the bucket has other numbers, and gives back what is left.
func (l *lease) change(now time.Time) {
	l.mu.Lock()
	l.changed = true
	l.mu.Unlock()
	if left := l.end(now); len(left) > 0 {
		l.returns(left)
	}
}

// lose counts tokens that cannot be spent any more. Those of a bucket with other numbers are
// given back. The lock is held.
func (l *lease) lose(n, at int64) {
	l.counts.wasted.Add(n)
	if l.changed {
		l.returns(store.Takes{l.taken(n, at)})
	}
}
