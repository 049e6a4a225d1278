package lease

import (
	"sync"
	"time"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/store"
)

const (
	// Time is how long tokens may be spent after they were taken from the store. It
	// runs from before the call to the store was sent.
	Time = 250 * time.Millisecond
	// Pause is the average time until a bucket that granted less than requested is asked
	// again. Pauses vary by a quarter, so that processes take turns.
	Pause = 50 * time.Millisecond
	// MaxPause is the longest pause.
	MaxPause = Pause * 5 / 4

	// margin is the part of Time in which nothing is spent: a request may take as long
	// until its decision has an effect.
	margin = 100 * time.Millisecond
	// minSlice is the least size of a slice, in tokens.
	minSlice = 10
	// hotRequests is the number of requests in an epoch that make a bucket hot.
	hotRequests = 10
	// keepHotRequests is the number of requests in an epoch that keep a leased bucket
	// hot: they spend a slice of the least size before it ends. Around one threshold half
	// of the requests would ask the store.
	keepHotRequests = 7
	// slicesPerShare is the number of the largest slices in a gateway's share of the
	// capacity.
	slicesPerShare = 4
	// requestsPerSlice is the number of requests of one cost that a slice has to be enough
	// for: what is less than the cost of the next request is lost.
	requestsPerSlice = 4
	// MaxRoundTrip is the longest round trip to the store with which slices are taken. A slice
	// that is on the way for longer is spent for less than half of its time, or arrives when it
	// has ended, while requests wait for it.
	MaxRoundTrip = (Time - margin) / 2
	// epoch is for how long demand is counted. A slice covers the demand of three quarters of it.
	epoch = 100 * time.Millisecond
)

// lease is what a gateway has of one bucket set.
type lease struct {
	key        store.Key
	bands      []store.ExactBand
	generation uint64
	capacity   int64 // the smallest of the bands
	gateways   func() int
	counts     *counts

	mu     sync.Mutex
	slices [2]slice
	ended  bool // what comes back is lost, unless the bucket has other numbers now
	// returns gives tokens back to the store.
	returns func(store.Takes)
	changed bool
	asks    asker
	// epoch is the number of the current one. demand is that of it and of the one before.
	epoch  int64
	demand [2]demand
	// undecided and reserved are the requests that another demand may still refuse, and
	// what was spent for them.
	undecided, reserved int64
	// known is the last answer of the store, and when the call for it was sent.
	known     store.Result
	knownSent time.Time
}

// demand is what was counted in an epoch.
type demand struct {
	requests int64
	wanted   int64 // the tokens of those that were not refused
	vetoed   bool  // another demand has refused a request
}

// slice are tokens that were taken from the store in one call.
type slice struct {
	left  int64
	at    int64 // when, by the store's clock in microseconds
	until time.Time
}

// leasable reports whether a demand of this sort can be met from a slice. The bounds are
// those of token buckets.
func leasable(d *store.Demand) bool {
	if d.Strict || d.Cost == 0 || d.Min > 0 || d.MaxWait > 0 || mayDebitRefused(*d) {
		return false
	}
	for i := range d.Bands {
		if d.Bands[i].Kind != bucket.TokenBucket {
			return false
		}
	}
	return true
}

// slow reports whether a pause regains less than a slice. What is lost of a slice then
// comes back late, and the bucket admits so little that the store can decide it.
func slow(bands []store.ExactBand) bool {
	for i := range bands {
		if bands[i].Regained(Pause.Microseconds(), 1) < minSlice {
			return true
		}
	}
	return false
}

// capacity is what a bucket set has at most.
func capacity(bands []store.ExactBand) int64 {
	smallest := bands[0].Capacity
	for i := range bands {
		smallest = min(smallest, bands[i].Capacity)
	}
	return smallest
}

// largest is the most that a slice of a bucket has.
func largest(capacity int64, gateways int) int64 {
	return capacity / int64(slicesPerShare*max(1, gateways))
}

// verdict is how a demand is decided.
type verdict uint8

const (
	askStore       verdict = iota // the store decides
	spentSlice                    // a slice had enough
	refusedByPause                // no slice has enough, and the store is not asked now
	askForSlice                   // the store decides, and is asked for a slice too
)

// part is one demand of a request, and how it is decided.
type part struct {
	demand  *store.Demand
	lease   *lease // nil if the bucket is not leased
	joint   bool   // another demand of the request may refuse it
	counted int64  // the epoch in which the lease has counted it
	wanted  int64  // the tokens that were counted then
	verdict verdict
	from    *slice     // the one that was spent
	at      int64      // when that was taken, by the store's clock
	until   time.Time  // when it ends
	next    int64      // the size of the slice to ask for, 0 for none
	waitFor *sliceCall // the call to wait for before the store decides, or nil
}

// spend decides a demand from memory, or says what to ask the store for. A demand that
// has waited for a slice is decided again, and counted once.
func (l *lease) spend(p *part, now time.Time, current int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	cost := p.demand.Cost
	p.verdict, p.next, p.waitFor = askStore, 0, nil
	if from := l.sliceFor(cost, p.joint, now); from != nil {
		from.left -= cost
		p.verdict, p.from, p.at, p.until = spentSlice, from, from.at, from.until
		if p.joint {
			l.reserved += cost
		}
	} else if l.asks.refuses(now, cost) {
		p.verdict = refusedByPause
	}
	l.count(p, current)
	if p.next = l.nextSlice(p, now); p.next > 0 {
		l.asks.begin()
	}
	if p.verdict == askStore && p.next > 0 {
		p.verdict = askForSlice
	} else if p.verdict == askStore {
		p.waitFor = l.asks.call
	}
}

// nextSlice is the size of the slice to ask for with a demand, 0 for none.
func (l *lease) nextSlice(p *part, now time.Time) int64 {
	size := l.size()
	switch {
	case p.verdict == refusedByPause,
		!p.demand.Leased && !l.hot(now),
		size < max(minSlice, requestsPerSlice*p.demand.Cost),
		l.held()+l.reserved > size/4,
		l.asks.state(now) != ready:
		return 0
	}
	return size
}

// sliceFor returns the slice to spend a cost from, nil if none has enough. The one that
// ends first has to be spent first. A joint demand has to leave enough for others: what is
// spent for it is missing until it is decided, and may come back too late.
func (l *lease) sliceFor(cost int64, joint bool, now time.Time) *slice {
	var first *slice
	if joint && requestsPerSlice*cost > l.size() {
		return nil
	}
	for i := range l.slices {
		if s := &l.slices[i]; l.live(i, now) >= cost && (first == nil || s.until.Before(first.until)) {
			first = s
		}
	}
	return first
}

// live returns what is left of a slice, and nothing once it has ended.
func (l *lease) live(i int, now time.Time) int64 {
	s := &l.slices[i]
	if s.left > 0 && !now.Before(s.until) {
		l.waste(i)
	}
	return s.left
}

func (l *lease) waste(i int) {
	l.counts.wasted.Add(l.slices[i].left)
	l.slices[i].left = 0
}

func (l *lease) held() int64 { return l.slices[0].left + l.slices[1].left }

// count counts a request when it arrives: a store that is overloaded answers late, or not
// at all. One that arrives after those of the next epoch belongs to that: requests
// overtake each other.
func (l *lease) count(p *part, current int64) {
	if p.counted > 0 {
		return
	}
	for l.epoch < current {
		l.epoch, l.demand = max(l.epoch+1, current-1), [2]demand{{}, l.demand[0]}
	}
	if p.counted = l.epoch; p.joint {
		l.undecided++
		return
	}
	l.demand[0].requests++
	if p.verdict != refusedByPause || p.low() {
		l.want(p)
	}
}

// low reports whether every slice is enough for requests of this cost. They spend whatever
// a bucket gives, so the more of them it refuses the larger a slice may be.
func (p *part) low() bool { return requestsPerSlice*p.demand.Cost <= minSlice }

// want makes slices larger. A single request does so by a part of their size: otherwise a
// rare one of a high cost would make all slices too large for the others.
func (l *lease) want(p *part) {
	p.wanted = min(p.demand.Cost, max(minSlice, l.demand[0].wanted, l.demand[1].wanted)/requestsPerSlice)
	l.demand[0].wanted = min(l.capacity, l.demand[0].wanted+p.wanted) // no slice needs more
}

// hot reports whether there are enough requests for a slice. Undecided ones count until
// another demand refuses some.
func (l *lease) hot(now time.Time) bool {
	n := max(l.demand[0].requests, l.demand[1].requests)
	if !l.demand[0].vetoed && !l.demand[1].vetoed {
		n += l.undecided
	}
	return n >= hotRequests || n >= keepHotRequests && now.Sub(l.knownSent) < Time
}

// size is that of the next slice.
func (l *lease) size() int64 {
	return min(largest(l.capacity, l.gateways()), max(minSlice, max(l.demand[0].wanted, l.demand[1].wanted)*3/4))
}

// decided ends a demand. Only those that are not refused make slices larger, and those
// that another demand refuses, or that end without an answer, take none.
func (l *lease) decided(p *part, refused, vetoed bool) {
	if !p.joint && (!refused || p.low()) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch ago := l.epoch - p.counted; {
	case !p.joint && ago < 2:
		l.demand[ago].wanted = max(0, l.demand[ago].wanted-p.wanted)
	case p.joint:
		if l.undecided--; vetoed {
			l.demand[0].vetoed = true
			return
		}
		l.demand[0].requests++
		if !refused || p.low() {
			l.want(p)
		}
		if p.verdict == spentSlice {
			l.reserved -= p.demand.Cost
		}
	}
}

// giveBack returns what was spent for a request that another demand refuses.
func (l *lease) giveBack(p *part, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.joint {
		l.reserved -= p.demand.Cost
	}
	if p.from.at == p.at && now.Before(p.from.until) && !l.ended {
		p.from.left += p.demand.Cost
	} else {
		l.lose(p.demand.Cost, p.at)
	}
}
