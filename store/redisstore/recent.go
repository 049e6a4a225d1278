package redisstore

import (
	"fmt"
	"sync"
	"time"
)

const (
	recentWindow = 1500 * time.Millisecond // of decisions that health looks at
	recentSlot   = 250 * time.Millisecond
	// A share of failedPart of the recent decisions, and at least failedLeast,
	// make a node unhealthy. One decision that failed does not.
	failedPart  = 20
	failedLeast = 2
)

// recentDecisions counts the decisions of the last seconds.
type recentDecisions struct {
	mu    sync.Mutex
	slots [recentWindow / recentSlot]decisionCounts
}

type decisionCounts struct {
	began          time.Time
	served, failed int
}

// add counts a decision that was asked for at a time, or half a window ago if
// it took longer.
func (r *recentDecisions) add(asked time.Time, failed bool) {
	if earliest := time.Now().Add(-recentWindow / 2); asked.Before(earliest) {
		asked = earliest
	}
	began := asked.Truncate(recentSlot)
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.slots[began.UnixNano()/int64(recentSlot)%int64(len(r.slots))]
	if !s.began.Equal(began) {
		*s = decisionCounts{began: began}
	}
	if failed {
		s.failed++
	} else {
		s.served++
	}
}

// forget drops the counts: an outage is over.
func (r *recentDecisions) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.slots[:])
}

// sum returns the counts of the window that ends now, and when the first slot
// with a failure began.
func (r *recentDecisions) sum(now time.Time) (all decisionCounts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.slots {
		if now.Sub(s.began) > recentWindow {
			continue
		}
		all.served += s.served
		all.failed += s.failed
		if s.failed > 0 && (all.began.IsZero() || s.began.Before(all.began)) {
			all.began = s.began
		}
	}
	return all
}

// err says that too many decisions failed.
func (c decisionCounts) err() error {
	all := c.served + c.failed
	if c.failed < failedLeast || c.failed*failedPart < all {
		return nil
	}
	return fmt.Errorf("%d of %d decisions in the last %v failed", c.failed, all, recentWindow)
}
