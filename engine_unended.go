package fluxgate

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate/store"
)

// WithHeldSlots lets requests with EndUnknown hold the slots of limits on concurrent requests,
// each for the whole hold of its limit, since nothing releases it earlier. A limit of 20 with a
// hold of 30 seconds then admits 20 requests in 30 seconds. By default such limits are not
// enforced for these requests.
func WithHeldSlots() Option {
	return func(e *Engine) error {
		e.holdUnended = true
		return nil
	}
}

// addHolder lets the demand hold a slot, unless the end of the request will not be reported.
func (e *Engine) addHolder(d *store.Demand, req *Request, v *evaluation) {
	v.unended = v.unended || req.EndUnknown
	if req.EndUnknown && !e.holdUnended {
		e.notEnforced.note(store.Key{RuleSet: d.Key.RuleSet, Rule: d.Key.Rule}, time.Now())
		return
	}
	d.Holder = newHolder()
}

const (
	// maxNotEnforced bounds how many rules [Engine.NotEnforced] returns.
	maxNotEnforced = 1_000
	// notEnforcedFor is how long it returns a rule after the last request.
	notEnforcedFor = time.Hour
	// notEnforcedEvery is how often the time of the last request is updated.
	notEnforcedEvery = time.Minute
)

// notEnforced remembers the rules with limits on concurrent requests that were not enforced.
type notEnforced struct {
	mu   sync.RWMutex
	last map[store.Key]time.Time // of the rules, without the ids of buckets
}

func (n *notEnforced) note(rule store.Key, now time.Time) {
	n.mu.RLock()
	last, known := n.last[rule]
	full := len(n.last) >= maxNotEnforced
	n.mu.RUnlock()
	if known && now.Sub(last) < notEnforcedEvery {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if full && !known {
		maps.DeleteFunc(n.last, func(_ store.Key, last time.Time) bool { return now.Sub(last) > notEnforcedFor })
		if len(n.last) >= maxNotEnforced {
			return
		}
	}
	if n.last == nil {
		n.last = map[store.Key]time.Time{}
	}
	n.last[rule] = now
}

// NotEnforced returns the rules with a limit on concurrent requests that was not enforced in the
// last hour, because the end of requests is not reported: see [Request.EndUnknown]. Their other
// limits were enforced. It returns at most 1,000 rules, sorted.
func (e *Engine) NotEnforced() []store.Key {
	n, now := &e.notEnforced, time.Now()
	n.mu.RLock()
	defer n.mu.RUnlock()
	var names []store.Key
	for rule, last := range n.last {
		if now.Sub(last) <= notEnforcedFor {
			names = append(names, rule)
		}
	}
	slices.SortFunc(names, func(a, b store.Key) int {
		return cmp.Or(cmp.Compare(a.RuleSet, b.RuleSet), cmp.Compare(a.Rule, b.Rule))
	})
	return names
}
