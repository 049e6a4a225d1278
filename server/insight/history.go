package insight

import (
	"math"
	"sync/atomic"
)

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

const (
	step  = 2  // seconds
	steps = 60 // that are kept
)

// history is the counts of the last two minutes. Steps are found by their time, so all
// histories of a server have the same steps.
type history struct {
	counters
	before [classes]uint64 // the counters at the last tick
	steps  [steps]counts
}

// tick ends a step. after is the last one that has ended: if there are others in between, the
// server was suspended, and they have no requests.
func (h *history) tick(after, now int64) {
	for s := max(after, now-steps) + 1; s <= now; s++ {
		h.steps[s%steps] = counts{}
	}
	last := &h.steps[now%steps]
	for o := range last {
		n := h.counters[o].Load()
		last[o] += uint32(min(n-h.before[o], 1<<32-1))
		h.before[o] = n
	}
}

// Durations is a histogram of the time to decide since the start, in seconds.
type Durations struct {
	// Bounds are the upper bounds of the buckets, in ascending order, and Counts how many
	// decisions took at most that long. Total is how many there were.
	Bounds []float64
	Counts []uint64
	Total  uint64
}

// quantiles returns the median and the 99th percentile between two snapshots in
// milliseconds, or 0 if there were no decisions.
func quantiles(from, to *Durations) (p50, p99 float64) {
	if to.Total <= from.Total {
		return 0, 0
	}
	return quantile(from, to, 0.5), quantile(from, to, 0.99)
}

// quantile interpolates within the bucket, as Prometheus does.
func quantile(from, to *Durations, q float64) float64 {
	before := func(i int) float64 {
		if len(from.Counts) == 0 {
			return 0 // the first snapshot
		}
		return float64(from.Counts[i])
	}
	rank := q * float64(to.Total-from.Total)
	lower, below := 0.0, 0.0
	for i, bound := range to.Bounds {
		count := float64(to.Counts[i]) - before(i)
		if count >= rank {
			return roundMs(lower + (bound-lower)*(rank-below)/max(1, count-below))
		}
		lower, below = bound, count
	}
	return roundMs(lower) // beyond the last bound
}

func roundMs(seconds float64) float64 { return math.Round(seconds*1e6) / 1e3 }

// knownMs returns a time in milliseconds, or nil if there is none.
func knownMs(ms float64) *float64 {
	if ms <= 0 {
		return nil
	}
	return &ms
}
