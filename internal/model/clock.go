package model

import (
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate/store"
)

// clock is the clock of the store as a gateway knows it: [store.Clock], with a machine whose own clock
// is wrong. That counts until the first answer of the store, as in store/redisstore.
type clock struct {
	store.Clock
	ahead time.Duration // of the machine's clock
	knows atomic.Bool
}

// Report is [store.Clock.Report].
func (c *clock) Report(micros int64) {
	c.Clock.Report(micros)
	c.knows.Store(true)
}

// Now is [store.Clock.Now].
func (c *clock) Now() time.Time {
	if !c.knows.Load() {
		return time.Now().Add(c.ahead)
	}
	return c.Clock.Now()
}

// readsTime is whether a store knows the time of the server before its first answer, because it reads that
// with what it reads of the fleet, as soon as the server answers.
const readsTime = true

// time returns the time of the store as far as a gateway knows it.
func (l *link) time() time.Time {
	if readsTime && !l.shown.knows.Load() {
		l.readTime()
	}
	return l.shown.Now()
}

func (l *link) readTime() {
	now := l.now()
	if _, cut := l.cut(now); !cut {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.shown.Report(l.clock().UnixMicro())
	}
}

// knowsTime reports whether a gateway has had an answer of the store before a moment.
func (s *spec) knowsTime(gateway int, at time.Duration) (knows bool) {
	for i := range s.facts {
		switch f := &s.facts[i]; {
		case f.Gateway != gateway:
		case f.At > at:
			return knows
		case f.Kind == Started:
			knows = false
		case (f.Kind == StoreTook || f.Kind == StorePeeked) && f.Answered:
			knows = true
		}
	}
	return knows
}
