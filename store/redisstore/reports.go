package redisstore

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate/internal/logthrottle"
)

// reports logs events of a node: each once, however many calls see it, and at
// most once a second if it repeats.
type reports struct {
	failing atomic.Bool // calls fail since the last one that was answered

	mu     sync.Mutex
	since  time.Time // when they began to
	logged bool      // that was logged
	failed *logthrottle.Throttle
	script *logthrottle.Throttle
}

const reportEvery = time.Second

func newReports() reports {
	return reports{failed: logthrottle.New(reportEvery), script: logthrottle.New(reportEvery)}
}

// report notes how a call to the node ended.
func (l *nodeQueue) report(err error) {
	r := &l.reports
	if err == nil && !r.failing.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if err == nil {
		if r.logged {
			l.store.log.Info("Redis answers again", "node", l.address(), "after", now.Sub(r.since).Round(time.Millisecond).String())
		}
		r.logged = false
		r.failing.Store(false)
		return
	}
	if !r.failing.Swap(true) {
		r.since = now
	}
	if r.logged {
		return
	}
	// A later call of the same outage tries again: an outage that begins right
	// after another one is logged as well.
	if ok, suppressed := r.failed.Allow(now); ok {
		r.logged = true
		l.store.log.Warn("Redis does not answer; its rules are decided by their onFailure", "node", l.address(), "error", l.store.clean(err), "suppressed", suppressed)
	}
}

// reportScript logs that the script was loaded into the node.
func (l *nodeQueue) reportScript() {
	if ok, suppressed := l.reports.script.Allow(time.Now()); ok {
		l.store.log.Info("loaded the decision script into Redis, which did not have it: it is new, was restarted or was flushed",
			"node", l.address(), "suppressed", suppressed)
	}
}

// address is the node's address, if known.
func (l *nodeQueue) address() string { return l.store.nodes.target.address(l) }
