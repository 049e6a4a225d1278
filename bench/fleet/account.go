package fleet

import (
	"math"
	"time"
)

// exponent is that of the distribution of the callers.
const exponent = 1.1

// account has what was admitted, or should have been: the buckets of an ideal store that
// answers at once, or buckets in which the admissions of a fleet are counted.
type account struct {
	limit   float64
	all     meter
	callers []meter
	// spans has how many were admitted of the requests of each span.
	spans []int
}

// meter is a token bucket. It has no bound: what is above the capacity was admitted
// beyond it.
type meter struct {
	used, most float64
	at         time.Duration
}

func newAccount(limit int64) account {
	return account{limit: float64(limit), callers: make([]meter, callers)}
}

func (m *meter) level(rate float64, now time.Duration) float64 {
	return max(0, m.used-(now-m.at).Seconds()*rate)
}

func (m *meter) add(rate float64, now time.Duration) {
	m.used, m.at = m.level(rate, now)+1, now
	m.most = max(m.most, m.used)
}

// fits reports whether a request of a caller fits.
func (a *account) fits(caller int, now time.Duration) bool {
	return a.all.level(a.limit, now)+1 <= a.limit && a.callers[caller].level(callerLimit, now)+1 <= callerLimit
}

// admit counts a request that was sent and admitted at these times.
func (a *account) admit(caller int, sent, now time.Duration) {
	a.all.add(a.limit, now)
	a.callers[caller].add(callerLimit, now)
	for len(a.spans) <= int(sent/span) {
		a.spans = append(a.spans, 0)
	}
	a.spans[sent/span]++
}

// over is the most that was admitted beyond an exact limit in any interval, as the time
// in which the limit regains it: of the shared limit, and of the callers.
func (a *account) over() (all, caller time.Duration) {
	for i := range a.callers {
		caller = max(caller, beyond(&a.callers[i], callerLimit))
	}
	return beyond(&a.all, a.limit), caller
}

func beyond(m *meter, limit float64) time.Duration {
	return time.Duration(max(0, m.most-limit) / limit * float64(time.Second))
}

// demand is how many requests a second the limits of the callers let pass.
func demand(rate int) float64 {
	sum, passed := 0.0, 0.0
	for i := range callers {
		sum += math.Pow(float64(i+1), -exponent)
	}
	for i := range callers {
		passed += min(callerLimit, float64(rate)*math.Pow(float64(i+1), -exponent)/sum)
	}
	return passed
}

// round returns a number of three digits and zeros: the arithmetic of buckets is exact,
// and needs round numbers for large limits.
func round(x float64) int64 {
	unit := int64(1)
	for x/float64(unit) >= 1_000 {
		unit *= 10
	}
	return int64(x/float64(unit)) * unit
}
