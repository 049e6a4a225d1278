package model

import (
	"math/bits"
	"slices"
	"time"
)

// The breaker of store/redisstore: see there.
const (
	failuresInRow    = 3
	failuresOfRecent = 8
	firstPause       = 50 * time.Millisecond
	longestPause     = 400 * time.Millisecond
	longestHold      = time.Second
)

// breaker decides whether calls are sent. What its probes find is computed when a call
// needs it.
type breaker struct {
	open         bool
	since, probe time.Duration // of the first failure, of the next probe
	pause        time.Duration
	back         time.Duration // when a probe has succeeded, 0 for not yet
	charges      bool
	inRow        int
	first        time.Duration
	recent       uint16
	closed       time.Duration
}

// note records how a call ended.
func (l *link) note(failed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, now := &l.breaker, l.now()
	b.recent <<= 1
	if !failed {
		b.inRow = 0
		return
	}
	b.recent |= 1
	if b.inRow++; b.inRow == 1 {
		b.first = now
	}
	if !b.open && (b.inRow >= failuresInRow || bits.OnesCount16(b.recent) >= failuresOfRecent) {
		b.trip(l, b.first, now)
	}
}

func (b *breaker) trip(l *link, since, now time.Duration) {
	b.open, b.since, b.pause, b.back, b.charges = true, since, firstPause, 0, false
	if b.closed > 0 && now-b.closed < time.Second {
		b.pause = longestPause
	}
	b.probe = now + b.wait(l, now)
}

func (b *breaker) wait(l *link, now time.Duration) time.Duration {
	return b.pause/2 + time.Duration(l.draw(uint64(l.gateway.number), uint64(now), 77)%uint64(b.pause))
}

// refuses reports whether a call is not sent.
func (b *breaker) refuses(l *link, now time.Duration, kind callKind) bool {
	if !b.open && slices.ContainsFunc(l.faults, func(f interval) bool { return f.fault == NotSent && f.from <= now && now < f.to }) {
		b.trip(l, now, now)
	}
	if !b.open {
		return false
	}
	for b.back == 0 && b.probe <= now {
		if _, cut := l.cut(b.probe); !cut {
			b.back = b.probe
			break
		}
		b.pause = min(2*b.pause, longestPause)
		b.probe += b.wait(l, b.probe)
	}
	if b.back == 0 {
		b.charges = b.charges || kind == chargeCall
		return true
	}
	decides := b.back
	if b.charges {
		decides += min(longestHold, b.back-b.since)
	}
	if now < decides {
		return kind == plainCall
	}
	*b = breaker{closed: decides}
	return false
}
