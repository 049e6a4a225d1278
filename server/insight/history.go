package insight

import "sync/atomic"

// class is what live numbers tell apart. A request is of one of the first three, and of any of
// the others.
type class int

const (
	allowed class = iota
	limited
	denied
	degraded
	waiting
	shadow
	classes
)

// counters counts requests by class.
type counters [classes]atomic.Uint64

func (c *counters) add(o class) { c[o].Add(1) }

// counts is how many requests there were in one step of time.
type counts [classes]uint32

func (c *counts) plus(other *counts) {
	for o := range c {
		c[o] += other[o]
	}
}

func (c *counts) sum() (n uint64) {
	for _, v := range c {
		n += uint64(v)
	}
	return n
}

const (
	seconds = 120 // steps of a second that are kept
	tens    = 360 // steps of ten seconds
)

// history is the counts of the last two minutes and of the last hour. Steps are found by
// their time, so all histories of a server have the same steps.
type history struct {
	counters
	before  [classes]uint64 // the counters at the last tick
	seconds [seconds]counts
	tens    [tens + 1]counts // and the one that is not over
	used    int64            // the last second with a request
}

// tick ends the second of a time in unix seconds. after is the last one that has ended:
// if there are others in between, the server was suspended, and they have no requests.
func (h *history) tick(after, second int64) {
	var delta counts
	for o := range delta {
		now := h.counters[o].Load()
		delta[o] = uint32(min(now-h.before[o], 1<<32-1))
		h.before[o] = now
	}
	for s := max(after, second-10*(tens+1)) + 1; s <= second; s++ {
		h.seconds[s%seconds] = counts{}
		if s%10 == 0 {
			h.tens[s/10%(tens+1)] = counts{}
		}
	}
	h.seconds[second%seconds].plus(&delta)
	h.tens[second/10%(tens+1)].plus(&delta)
	if delta.sum() > 0 {
		h.used = second
	}
}

// addTo adds a step of so many seconds, which ends with a second, to a sum.
func (h *history) addTo(sum *counts, each, end int64) {
	if each >= 10 {
		for t := (end + 1 - each) / 10; t <= end/10; t++ {
			sum.plus(&h.tens[t%(tens+1)])
		}
		return
	}
	for s := end - each + 1; s <= end; s++ {
		sum.plus(&h.seconds[s%seconds])
	}
}
