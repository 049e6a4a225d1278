package lease

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/bucket"
)

const (
	// Time is for how long tokens may be spent after they were taken from the store. It
	// runs from before the call to the store was sent.
	Time = 250 * time.Millisecond
	// Pause is for how long a bucket that had less than was asked for is not asked
	// again, on average: pauses vary by a quarter, so that gateways take turns.
	Pause = 50 * time.Millisecond
	// MaxPause is the longest pause.
	MaxPause = Pause * 5 / 4

	// margin is the part of Time in which nothing is spent: a request may take as long
	// until its decision has an effect.
	margin = 100 * time.Millisecond
	// least is how many tokens are worth a slice, and how many requests in an epoch
	// make a bucket hot.
	least = 10
	// still is how many requests in an epoch keep a bucket hot of which slices are taken:
	// one of the least size lasts until it ends. Around one threshold half of the
	// requests would ask the store.
	still = 7
	// holders is in how many parts the capacity is divided for each gateway: a slice is
	// at most one of them.
	holders = 4
	// epoch is for how long demand is counted. A slice lasts for three quarters of it.
	epoch = 100 * time.Millisecond
)

// lease is what a gateway has of one bucket set.
type lease struct {
	key        fluxgate.Key
	bands      []fluxgate.ExactBand
	generation uint64
	capacity   int64 // the smallest of the bands
	counts     *counts

	mu       sync.Mutex
	slices   [2]slice
	ended    bool      // what comes back is lost
	asking   *asking   // the call for the next slice that is under way, or nil
	askAfter time.Time // no slice is asked for before
	// refuseUntil is when a pause ends. Requests that cost refuseCost or more are
	// refused until then if no slice has enough.
	refuseUntil time.Time
	refuseCost  int64
	// epoch is the number of the current one. requests and wanted have how many requests
	// there were in it and in the one before, and for how many tokens.
	epoch            int64
	requests, wanted [2]int64
	// reserved is what was spent for requests that another demand may still refuse.
	reserved int64
	// known is the last answer of the store, and when the call for it was sent.
	known     fluxgate.Result
	knownSent time.Time
}

// asking is a call for a slice. Requests for which no slice has enough wait for it.
type asking struct {
	done chan struct{}
	err  error // why there is no answer; to be read when done
}

// slice are tokens that were taken from the store in one call.
type slice struct {
	left  int64
	at    int64 // when, by the store's clock in microseconds
	until time.Time
}

// leasable reports whether a demand can be met from a slice. The bounds are those of
// token buckets. What no bucket can hold is refused by the store.
func leasable(d *fluxgate.Demand) bool {
	if d.Consistency == fluxgate.ConsistencyStrict || d.Cost == 0 || d.Min > 0 || d.MaxWait > 0 || d.Overdraft {
		return false
	}
	for i := range d.Bands {
		if d.Bands[i].Kind != bucket.TokenBucket {
			return false
		}
	}
	return bucket.Affordable(d.Bands, d.Cost)
}

func newLease(d *fluxgate.Demand, generation uint64, counts *counts) *lease {
	return &lease{key: d.Key, bands: d.Bands, generation: generation, counts: counts, capacity: capacity(d.Bands)}
}

// slow reports whether a pause regains less than a slice. What is lost of a slice then
// comes back late, and the bucket admits so little that the store can decide it.
func slow(bands []fluxgate.ExactBand) bool {
	for i := range bands {
		if bands[i].Regained(Pause.Microseconds(), 1) < least {
			return true
		}
	}
	return false
}

// capacity is what a bucket set has at most.
func capacity(bands []fluxgate.ExactBand) int64 {
	least := bands[0].Capacity
	for i := range bands {
		least = min(least, bands[i].Capacity)
	}
	return least
}

// largest is the most that a slice of a bucket has.
func largest(capacity int64, gateways int) int64 {
	return capacity / int64(holders*max(1, gateways))
}

// verdict is how a demand is decided.
type verdict uint8

const (
	byStore verdict = iota // the store decides
	bySlice                // it was spent
	byPause                // it is refused
	andAsk                 // the store decides, and gives a slice
)

// spending is the answer of a lease to a demand.
type spending struct {
	verdict verdict
	place   int   // the slice it was spent from
	at      int64 // when that was taken from the store
	until   time.Time
	next    int64 // the size of the slice to request from the store, 0 for none
	joint   bool  // whether another demand of the request may refuse it
	// asking is the call to wait for before the store decides, or nil.
	asking *asking
}

// spend decides a demand from memory, or says what to ask the store for. It counts the
// demand unless it is asked again.
func (l *lease) spend(now time.Time, current int64, d *fluxgate.Demand, gateways int, again, joint bool) spending {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !again {
		l.count(current)
		if !joint {
			l.want(current, d.Cost)
		}
	}
	s := spending{verdict: byStore, joint: joint}
	for i := range l.slices {
		// The one that ends first has to be spent first.
		if l.live(i, now) >= d.Cost && (s.verdict == byStore || l.slices[i].until.Before(l.slices[s.place].until)) {
			s.verdict, s.place, s.at, s.until = bySlice, i, l.slices[i].at, l.slices[i].until
		}
	}
	if s.verdict == bySlice {
		l.slices[s.place].left -= d.Cost
		if joint {
			l.reserved += d.Cost
		}
	}
	size := l.size(gateways)
	if d.Consistency != fluxgate.ConsistencyLeased && !l.hot(now) {
		size = 0
	}
	if size >= least && l.asking == nil && !now.Before(l.askAfter) && l.held()+l.reserved <= size/4 {
		l.asking, s.next = &asking{done: make(chan struct{})}, size
	}
	switch {
	case s.verdict == bySlice:
	case l.refuses(now, d.Cost):
		s.verdict = byPause
	case s.next > 0:
		s.verdict = andAsk
	default:
		s.asking = l.asking
	}
	return s
}

// refuses reports whether a pause refuses a cost that no slice has.
func (l *lease) refuses(now time.Time, cost int64) bool {
	return now.Before(l.refuseUntil) && cost >= l.refuseCost
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

// count counts a request. One that arrives after those of the next epoch belongs to
// that: requests overtake each other.
func (l *lease) count(current int64) {
	switch passed := current - l.epoch; {
	case passed <= 0:
	case passed == 1:
		l.requests, l.wanted = [2]int64{0, l.requests[0]}, [2]int64{0, l.wanted[0]}
	default:
		l.requests, l.wanted = [2]int64{}, [2]int64{}
	}
	l.epoch = max(l.epoch, current)
	l.requests[0]++
}

// want counts the tokens of a request, in its epoch or in the one before the current.
func (l *lease) want(current, cost int64) {
	if ago := l.epoch - current; ago < 2 {
		l.wanted[ago] = min(l.capacity, l.wanted[ago]+cost) // no slice needs more
	}
}

// hot reports whether there are enough requests for a slice.
func (l *lease) hot(now time.Time) bool {
	n := max(l.requests[0], l.requests[1])
	return n >= least || n >= still && now.Sub(l.knownSent) < Time
}

// size is that of the next slice.
func (l *lease) size(gateways int) int64 {
	return min(largest(l.capacity, gateways), max(least, max(l.wanted[0], l.wanted[1])*3/4))
}

// decided ends a joint demand. Those that other buckets refuse must not take slices of
// this one: they no longer count, and only what the others want makes a slice larger.
func (l *lease) decided(s *spending, current, cost int64, refused bool) {
	if !s.joint {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if refused {
		if ago := l.epoch - current; ago < 2 {
			l.requests[ago]--
		}
		return
	}
	l.want(current, cost)
	if s.verdict == bySlice {
		l.reserved -= cost
	}
}

// giveBack returns what was spent for a request that another demand refuses.
func (l *lease) giveBack(s *spending, cost int64, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.joint {
		l.reserved -= cost
	}
	if part := &l.slices[s.place]; part.at == s.at && now.Before(part.until) && !l.ended {
		part.left += cost
	} else {
		l.counts.wasted.Add(cost)
	}
}

// notAsked ends asking without an answer.
func (l *lease) notAsked() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked(nil)
}

// failed ends asking with an error. If the store may have taken tokens, it is not asked
// again for a while.
func (l *lease) failed(sent time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !errors.Is(err, fluxgate.ErrNotSent) {
		l.askAfter = sent.Add(Pause)
	}
	l.asked(err)
}

// asked wakes the requests that wait for the call.
func (l *lease) asked(err error) {
	l.asking.err = err
	close(l.asking.done)
	l.asking = nil
}

// answered keeps what the store has granted beyond a cost.
func (l *lease) answered(sent time.Time, asked, cost int64, result *fluxgate.Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked(nil)
	if result.Status == fluxgate.Unavailable {
		l.askAfter = sent.Add(Pause)
		return
	}
	l.learn(sent, result)
	if more := result.Granted - cost; result.Granted > 0 && more > 0 {
		l.keep(sent, slice{left: more, at: result.Now, until: sent.Add(Time - margin)})
		l.counts.slices.Add(1)
		l.counts.granted.Add(more)
	}
	short := result.Status == fluxgate.OK && result.Granted > 0 && result.Granted < cost+asked
	if !short && result.Status != fluxgate.Rejected {
		return
	}
	l.refuseCost = 1 // nothing is left
	if !short {
		l.refuseCost = max(1, cost)
	}
	l.refuseUntil = sent.Add(MaxPause - rand.N(2*(MaxPause-Pause))) //nolint:gosec // no secret
	l.askAfter = l.refuseUntil
}

// keep adds a slice. What is left of two others makes one, which ends with the first.
func (l *lease) keep(now time.Time, s slice) {
	if l.ended {
		l.counts.wasted.Add(s.left)
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
func (l *lease) learn(sent time.Time, result *fluxgate.Result) {
	known := *result
	known.Bands = slices.Clone(result.Bands)
	l.known, l.knownSent = known, sent
}

// write writes the result of a demand that was decided from memory.
func (l *lease) write(s *spending, now time.Time, d *fluxgate.Demand, result *fluxgate.Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	passed := now.Sub(l.knownSent)
	result.Status, result.Source = fluxgate.OK, fluxgate.FromLease
	result.Granted, result.Now = d.Cost, s.at
	if s.verdict == byPause {
		result.Status, result.Granted, result.Now = fluxgate.Rejected, 0, l.known.Now+passed.Microseconds()
		result.Wait = max(time.Microsecond, l.refuseUntil.Sub(now))
	}
	held := l.held()
	for i := range result.Bands {
		band := l.known.Bands[i]
		band.Wait = 0
		if band.Remaining < d.Cost {
			band.Wait = result.Wait
		}
		band.Remaining = min(d.Bands[i].Capacity, band.Remaining+held)
		band.FullAfter = max(0, band.FullAfter-passed)
		result.Bands[i] = band
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
func (l *lease) end(now time.Time) []fluxgate.Taken {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	var left []fluxgate.Taken
	for i := range l.slices {
		if n := l.live(i, now); n > 0 {
			left = append(left, fluxgate.Taken{Key: l.key, Bands: l.bands, Cost: n, Asked: n, Source: fluxgate.FromLease, At: l.slices[i].at})
			l.waste(i)
		}
	}
	return left
}
