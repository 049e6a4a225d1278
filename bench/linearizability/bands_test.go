package linearizability

import (
	"slices"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// used is what is used of a token bucket at a moment, in units of which a token has as many
// as its period has microseconds: so every microsecond gives back the tokens of a period. It
// lies between two bounds, which are the same but after a settlement, whose moment is known
// only up to the duration of the call.
type used struct{ moment, low, high int64 }

func (u used) at(now int64, b limit) used {
	back := (now - u.moment) * b.tokens
	if u.high <= back {
		return used{moment: now}
	}
	return used{now, max(0, u.low-back), u.high - back}
}

// steps narrows it to what gives a number: that of steps above an offset, rounded up.
func (u *used) steps(offset, step, number int64) bool {
	if number == 0 {
		u.high = min(u.high, offset)
	} else {
		u.low, u.high = max(u.low, offset+(number-1)*step+1), min(u.high, offset+number*step)
	}
	return u.low <= u.high
}

// limit is the capacity in units, and most with the largest debt: an hour's refill, or a
// capacity if that is more.
func (b limit) limit() int64 { return b.capacity * b.period }

func (b limit) most() int64 {
	return b.limit() + max(b.limit(), (time.Hour.Microseconds()+1)*b.tokens)
}

func (l *level) total() (n int64) {
	for _, s := range l.slots {
		n += s.count
	}
	return n
}

// left is how many whole tokens are left, at least and at most.
func (l *level) left(b limit) (low, high int64) {
	switch b.kind {
	case rules.TokenBucket:
		whole := func(used int64) int64 { return max(0, b.limit()-used) / b.period }
		return whole(l.tokens.high), whole(l.tokens.low)
	case rules.Quota:
		low = max(0, b.capacity-l.count)
	case rules.SlidingWindow:
		low = max(0, b.capacity-l.total())
	case rules.Concurrency:
		low = b.capacity - int64(len(l.holds))
	}
	return low, low
}

// fitsAfter checks how long a cost must wait.
func (l *level) fitsAfter(b limit, cost, now, wait int64) bool {
	if b.kind == rules.TokenBucket {
		return l.tokens.steps(b.limit()-cost*b.period, b.tokens, wait)
	}
	return l.freeAfter(b, b.capacity-cost, cost, now, wait)
}

// positiveAfter checks how long it takes until more than nothing is left.
func (l *level) positiveAfter(b limit, now, wait int64) bool {
	switch {
	case b.kind != rules.TokenBucket:
		return l.freeAfter(b, b.capacity-1, 1, now, wait)
	case wait == 0:
		return l.tokens.steps(b.limit()-1, 1, 0)
	default: // the first microsecond after which it is below the limit
		l.tokens.low = max(l.tokens.low, b.limit()+(wait-1)*b.tokens)
		l.tokens.high = min(l.tokens.high, b.limit()+wait*b.tokens-1)
		return l.tokens.low <= l.tokens.high
	}
}

// freeAfter checks how long it takes until at most so many tokens are used, in a band that is
// no token bucket.
func (l *level) freeAfter(b limit, most, cost, now, wait int64) bool {
	switch b.kind {
	case rules.Quota:
		end := l.end
		if l.count-b.capacity > most {
			end += b.period
		}
		return wait == 0 && l.count <= most || wait == end-now && l.count > most
	case rules.SlidingWindow:
		total, leaves := l.total(), now
		for _, s := range l.slots { // the oldest first
			if total > most {
				leaves = (s.number + 17) * (b.period / 16)
			}
			total -= s.count
		}
		return wait == leaves-now
	}
	if cost == 0 || int64(len(l.holds)) < b.capacity {
		return wait == 0
	}
	first, last := now+time.Second.Microseconds(), now+time.Second.Microseconds()
	for _, h := range l.holds {
		first, last = min(first, h.first), min(last, h.last)
	}
	return max(1, first-now) <= wait && wait <= max(1, last-now)
}

// take takes tokens that are due after a wait.
func (l *level) take(b limit, cost, now, wait int64, holder store.HolderID) {
	switch b.kind {
	case rules.TokenBucket:
		// At the due moment the bucket is full at most.
		l.tokens.low = max(l.tokens.low, wait*b.tokens) + cost*b.period
		l.tokens.high = max(l.tokens.high, wait*b.tokens) + cost*b.period
	case rules.Concurrency:
		l.holds = append(l.holds, hold{holder, now + b.period, now + b.period})
		slices.SortFunc(l.holds, func(a, b hold) int { return slices.Compare(a.id[:], b.id[:]) })
	default:
		l.add(b, cost, now)
	}
}

// add counts tokens of a quota or a window now.
func (l *level) add(b limit, tokens, now int64) {
	if b.kind == rules.Quota {
		l.count += tokens
		return
	}
	number := now / (b.period / 16)
	if n := len(l.slots); n > 0 && l.slots[n-1].number == number {
		l.slots[n-1].count += tokens
	} else if tokens > 0 {
		l.slots = append(l.slots, slot{number, tokens})
	}
}

// room is how many tokens of a charge fit that happens until last, at least and at most.
func (l *level) room(b limit, last int64) (low, high int64) {
	switch b.kind {
	case rules.TokenBucket:
		return max(0, b.most()-l.tokens.high) / b.period, max(0, b.most()-l.tokens.at(last, b).low) / b.period
	case rules.Quota:
		low = max(0, 2*b.capacity-l.count)
	default:
		low = max(0, 2*b.capacity-l.total())
	}
	return low, low
}

// charge takes tokens between now and last, into debt up to the largest.
func (l *level) charge(b limit, tokens, now, last int64) {
	switch b.kind {
	case rules.TokenBucket:
		back := (last - now) * b.tokens // while it was full
		l.tokens.low = min(l.tokens.low+tokens*b.period, b.most())
		l.tokens.high = min(max(l.tokens.high, back)+tokens*b.period, b.most()+back)
	case rules.Concurrency:
	default:
		room, _ := l.room(b, now)
		l.add(b, min(room, tokens), now)
	}
}

// refund is what comes back of a take: of its cost, at the moment at and due at another, if
// the last promised take is due at promised.
type refund struct{ cost, tokens, at, due, promised int64 }

// giveBack gives tokens back between now and last, and returns how many whole tokens that
// are, at least and at most. At least so many are known to have come back.
func (l *level) giveBack(b limit, now, last int64, r refund, known int64) (low, high int64) {
	switch b.kind {
	case rules.Quota:
		low = min(r.tokens, l.count)
		if l.end != r.due {
			low = 0
		}
		l.count -= low
		return low, low
	case rules.SlidingWindow:
		for i := range l.slots {
			if l.slots[i].number == r.at/(b.period/16) {
				low = min(r.tokens, l.slots[i].count)
				l.slots[i].count -= low
			}
		}
		return low, low
	}
	// What may have overflowed since, or was promised to others, is lost: the later, the more.
	back := func(moment int64) int64 {
		lost := max(0, max(moment, r.promised)-r.due) * b.tokens
		return max(0, min(r.tokens*b.period, r.cost*b.period-lost))
	}
	drained := (last - now) * b.tokens
	most, least := min(back(now), l.tokens.high), min(back(last), max(0, l.tokens.low-drained))
	// Everything refers to now: what drained until it came back cannot come back.
	after := used{l.tokens.moment, max(0, l.tokens.low-back(now)), min(l.tokens.high, max(l.tokens.high-back(last), drained))}
	if known > 0 {
		after.high = min(after.high, max(l.tokens.high-known*b.period, 0))
	}
	l.tokens = after
	return least / b.period, most / b.period
}

// shows checks the numbers of a band in an answer.
func (l *level) shows(b limit, now int64, r *store.BandResult) bool {
	full := r.FullAfter.Microseconds()
	if b.kind == rules.TokenBucket {
		if r.Remaining == 0 {
			l.tokens.low = max(l.tokens.low, b.limit()-b.period+1)
		} else if !l.tokens.steps(0, b.period, b.capacity-r.Remaining) {
			return false
		}
		return l.tokens.steps(b.limit(), b.period, r.Owed) && l.tokens.steps(0, b.tokens, full)
	}
	taken, fullAfter := int64(len(l.holds)), int64(0)
	switch b.kind {
	case rules.Quota:
		if taken = l.count; taken > 0 {
			fullAfter = l.end - now
		}
		if taken > b.capacity {
			fullAfter += b.period
		}
	case rules.SlidingWindow:
		taken = l.total()
		for _, s := range l.slots {
			if s.count > 0 {
				fullAfter = (s.number+17)*(b.period/16) - now
			}
		}
	case rules.Concurrency: // a store may remember holders for longer
		fullAfter = full
		for _, h := range l.holds {
			if h.first-now > full || full > b.period {
				return false
			}
		}
		if taken == 0 && full > 0 {
			return false
		}
	}
	return r.Remaining == max(0, b.capacity-taken) && r.Owed == max(0, taken-b.capacity) && fullAfter == full
}
