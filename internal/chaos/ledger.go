package chaos

import (
	"slices"
	"sync/atomic"
	"time"
)

// Answer is what a caller gets for a request.
type Answer struct {
	Allowed bool
	// Degraded is set if the decision was made without the store.
	Degraded bool
	// Err is set if there was no decision: no answer, or a status other than those
	// of a decision.
	Err error

	// from and to are when the request held a slot, zero if it held none.
	from, to time.Time
}

// disturbed reports whether the caller noticed a fault.
func (a *Answer) disturbed() bool { return a.Err != nil || a.Degraded }

// entry is one request. Times are since the start of the run.
type entry struct {
	sent, took                time.Duration
	late                      time.Duration // after the time at which it was to be sent
	from, to                  time.Duration // of its slot
	user                      int
	allowed, degraded, failed bool
}

func (e *entry) answered() time.Duration { return e.sent + e.took }

// maxEntries bounds the requests of one caller.
const maxEntries = 500_000

// ledger has every request of a run. Each caller writes to its own page.
type ledger struct {
	start time.Time
	pages [][]entry

	lastDisturbed atomic.Int64 // when the last disturbed answer arrived, since start
	firstError    atomic.Pointer[error]
}

func newLedger(callers int) *ledger {
	return &ledger{start: time.Now(), pages: make([][]entry, callers)}
}

// record adds a request of a caller. It reports false if the page is full.
func (l *ledger) record(caller, user int, sent time.Time, late time.Duration, a *Answer) bool {
	e := entry{
		sent: sent.Sub(l.start), took: time.Since(sent), late: late, user: user,
		allowed: a.Allowed && a.Err == nil, degraded: a.Degraded, failed: a.Err != nil,
	}
	if !a.from.IsZero() {
		e.from, e.to = a.from.Sub(l.start), a.to.Sub(l.start)
		e.took = e.from - e.sent // until its decision
	}
	l.pages[caller] = append(l.pages[caller], e)
	if a.disturbed() {
		l.disturbed(int64(e.answered()))
	}
	if a.Err != nil && l.firstError.Load() == nil {
		l.firstError.CompareAndSwap(nil, &a.Err)
	}
	return len(l.pages[caller]) < maxEntries
}

func (l *ledger) disturbed(at int64) {
	for last := l.lastDisturbed.Load(); at > last; last = l.lastDisturbed.Load() {
		if l.lastDisturbed.CompareAndSwap(last, at) {
			return
		}
	}
}

// since returns the time since the start of the run.
func (l *ledger) since() time.Duration { return time.Since(l.start) }

// entries returns all requests in the order of their answers. All callers must have
// ended.
func (l *ledger) entries() []entry {
	all := slices.Concat(l.pages...)
	slices.SortFunc(all, func(a, b entry) int { return int(a.answered() - b.answered()) })
	return all
}

// between returns the requests that were sent in [from, to).
func between(all []entry, from, to time.Duration) []entry {
	var some []entry
	for _, e := range all {
		if e.sent >= from && e.sent < to {
			some = append(some, e)
		}
	}
	return some
}

// count returns how many requests fulfil a condition.
func count(all []entry, holds func(*entry) bool) int {
	n := 0
	for i := range all {
		if holds(&all[i]) {
			n++
		}
	}
	return n
}

// rate returns how many requests that were sent in [from, to) got a decision, in a
// second.
func rate(all []entry, from, to time.Duration) float64 {
	if to <= from {
		return 0
	}
	return float64(count(between(all, from, to), func(e *entry) bool { return !e.failed })) / (to - from).Seconds()
}

// quantiles returns quantiles of a time of requests, 1 being the longest.
func quantiles(all []entry, of func(*entry) time.Duration, which ...float64) []time.Duration {
	found := make([]time.Duration, len(which))
	if len(all) == 0 {
		return found
	}
	times := make([]time.Duration, len(all))
	for i := range all {
		times[i] = of(&all[i])
	}
	slices.Sort(times)
	for i, q := range which {
		found[i] = times[min(len(times)-1, int(q*float64(len(times))))]
	}
	return found
}

func tookOf(e *entry) time.Duration { return e.took }

func lateOf(e *entry) time.Duration { return e.late }

// quiet returns the start of the first span of this length after from in which no
// answer was disturbed and some arrived; ok is false if there is none.
func quiet(all []entry, from, span time.Duration) (at time.Duration, ok bool) {
	begin, answers := from, 0
	for i := range all {
		e := &all[i]
		if e.answered() < from {
			continue
		}
		if answers > 0 && e.answered() >= begin+span {
			return begin, true
		}
		if e.degraded || e.failed {
			begin, answers = e.answered(), 0
			continue
		}
		answers++
	}
	return 0, false
}
