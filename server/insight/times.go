package insight

import "math"

// Durations is a histogram of the time to decide since the start, in seconds.
type Durations struct {
	// Bounds are the upper bounds of the buckets, in ascending order, and Counts how many
	// decisions took at most that long. Total is how many there were.
	Bounds []float64
	Counts []uint64
	Total  uint64
}

// times are snapshots of the histogram at the ends of steps.
type times struct {
	seconds [seconds + 1]Durations
	tens    [tens + 1]Durations
}

func (t *times) tick(after, second int64, now Durations) {
	for s := max(after+1, second-seconds); s <= second; s++ {
		t.seconds[s%(seconds+1)] = now
	}
	for s := max(after+1, second-10*tens); s <= second; s++ {
		if s%10 == 9 {
			t.tens[s/10%(tens+1)] = now
		}
	}
}

// at returns the histogram at the end of a second, which ends a step of so many.
func (t *times) at(each, second int64) *Durations {
	if each >= 10 {
		return &t.tens[second/10%(tens+1)]
	}
	return &t.seconds[second%(seconds+1)]
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
