package fluxgate

import (
	"context"
	"sync"

	"github.com/fluxgate/fluxgate/internal/background"
	"github.com/fluxgate/fluxgate/store"
)

// hold keeps a request until its tokens are due. They are booked already, so no
// later request can get them.
func (e *Engine) hold(ctx context.Context, d Decision) (Decision, error) {
	if e.observer != nil {
		e.observer.Waiting(ctx, +1)
		defer e.observer.Waiting(ctx, -1)
	}
	if err := background.Sleep(ctx, d.Wait); err != nil {
		e.giveBack(ctx, d.Receipt())
		return Decision{}, err
	}
	return d, nil
}

// WaitShare bounds the wait slots of one bucket: requests that wait for it may take
// a share of 1/WaitShare, rounded up. With a tenth, ten callers are needed to fill all
// slots. Of the server's default of 100 slots one caller has ten, more than the
// connections that a browser opens.
//
// The bucket of a GLOBAL rule may take all slots: such a rule is a queue in front of
// a shared resource, such as a database.
const WaitShare = 10

// waitSlots bound how many requests are held. A request that may be held takes
// a slot before the store is called, because the store books its tokens at
// once. It is counted under each bucket that it may wait for.
type waitSlots struct {
	most int

	mu    sync.Mutex
	taken int
	// buckets has the buckets that requests with a slot may wait for: at most
	// MaxMatches for each slot.
	buckets map[store.KeyID]int
}

// enter takes a slot for a request that may be held, and reports whether it
// did: the request then calls leave. If there is none, no rule may hold the
// request. A peek takes no slot.
func (w *waitSlots) enter(v *evaluation) (entered bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.free(v) {
		for i := range v.demands {
			v.demands[i].MaxWait = 0
		}
		return false
	}
	if v.peek {
		return false
	}
	w.count(v, +1)
	return true
}

func (w *waitSlots) leave(v *evaluation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count(v, -1)
}

// free reports whether there is a slot for a request.
func (w *waitSlots) free(v *evaluation) bool {
	share := (w.most + WaitShare - 1) / WaitShare
	for i := range v.demands {
		if v.hasWaitShare(i) && w.buckets[v.demands[i].Key.ID] >= share {
			return false
		}
	}
	return w.taken < w.most
}

func (w *waitSlots) count(v *evaluation, change int) {
	if w.buckets == nil {
		w.buckets = make(map[store.KeyID]int)
	}
	w.taken += change
	for i := range v.demands {
		if !v.hasWaitShare(i) {
			continue
		}
		id := v.demands[i].Key.ID
		if w.buckets[id] += change; w.buckets[id] == 0 {
			delete(w.buckets, id)
		}
	}
}

// hasWaitShare reports whether the demand at i may hold its request and its
// bucket is not one that all callers share.
func (v *evaluation) hasWaitShare(i int) bool {
	d := &v.demands[i]
	everyone := v.rules[i].everyone
	return d.MaxWait > 0 && !d.Shadow && (everyone == nil || d.Key.ID != *everyone)
}
