package fluxgate

import (
	"context"
	"encoding/binary"
	"sync/atomic"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// warnings remember which warnings the store has, so that it is asked once for each. Buckets
// share the slots by their ids, which are hashes: a flood of callers costs calls to the store,
// and no memory.
type warnings struct {
	named bool
	// resets grows with each reset by this engine: what is known may then be wrong.
	resets atomic.Uint64
	slots  atomic.Pointer[[1 << 14]warnSlot] // nil until a band has warnAt
}

type warnSlot struct {
	warned atomic.Pointer[warned]
	caller atomic.Pointer[namedCaller] // of the last request, where warnings name it
}

// warned is a band of a bucket set whose warnings the store has.
type warned struct {
	key            store.KeyID
	band           string // the name, as in marks of stores
	resets         uint64
	capacity, ends int64
	percents       rules.Percents
}

type namedCaller struct {
	key  store.KeyID
	name string
}

func (w *warnings) slot(key store.KeyID, band int) *warnSlot {
	if w.slots.Load() == nil {
		w.slots.CompareAndSwap(nil, new([1 << 14]warnSlot))
	}
	all := w.slots.Load()
	return &all[(int(binary.LittleEndian.Uint16(key[:]))+band)%len(all)]
}

// WithNamedWarnings names callers in warnings, as [Engine.WriteIdentity] does, if this engine
// has decided a request of theirs.
func WithNamedWarnings() Option {
	return func(e *Engine) error {
		e.warnings.named = true
		return nil
	}
}

// nameCaller notes whose bucket a request counts in: a settlement does not tell it.
func (e *Engine) nameCaller(r *keyedRule, key store.KeyID, req *Request) {
	slot := &e.warnings.slot(key, 0).caller
	if known := slot.Load(); known != nil && known.key == key {
		return
	}
	var name [256]byte
	n := e.WriteIdentity(name[:], &EvaluatedRule{Rule: r.Rule, compiled: r, req: req})
	slot.Store(&namedCaller{key, string(name[:n])})
}

// warn warns of the levels that the store has answered to a take.
func (e *Engine) warn(ctx context.Context, v *evaluation) {
	for i := range v.demands {
		if r, result := v.rules[i].keyedRule, &v.outcome.Results[i]; r.warns && hasLevel(result) {
			e.warnOf(ctx, r, &v.demands[i], result)
		}
	}
}

// settleInStore settles takes in the shared store, and warns of the levels then.
func (e *Engine) settleInStore(ctx context.Context, takes store.Takes, actual []int64) ([]store.Settlement, error) {
	settled, err := e.store.Settle(ctx, takes, actual)
	for i := range takes {
		if i < len(settled) && settled[i].Level != nil { // after an error there may be none
			e.warnSettled(ctx, &takes[i], settled[i].Level)
		}
	}
	return settled, err
}

// warnSettled warns by the numbers that the rule has now. Quotas and sliding windows carry the
// number that is used, whatever the numbers of the take were.
func (e *Engine) warnSettled(ctx context.Context, t *store.Taken, settled *store.Result) {
	set := e.rules.RuleSet(ctx, t.Key.RuleSet).at(e.store)
	if set == nil {
		return
	}
	at, err := set.find(t.Key.Rule)
	if err != nil || !set.active[at].warns {
		return
	}
	r := e.overridden(&set.keyedBy(e.salt)[at], t.Key.ID, nil)
	d := store.Demand{Key: t.Key, Bands: r.bandsNow(e.store)}
	level := store.Result{Now: settled.Now, Bands: make([]store.BandResult, len(d.Bands))}
	for i := range d.Bands {
		b, now := &d.Bands[i], &level.Bands[i]
		now.Remaining = b.Capacity
		for j := range t.Bands {
			if t.Bands[j].ID == b.ID && t.Bands[j].Kind == b.Kind {
				used := usedOf(&t.Bands[j], &settled.Bands[j])
				*now = settled.Bands[j]
				now.Remaining, now.Owed = max(0, b.Capacity-used), max(0, used-b.Capacity)
			}
		}
	}
	e.warnOf(ctx, r, &d, &level)
}

func usedOf(b *store.ExactBand, r *store.BandResult) int64 { return b.Capacity - r.Remaining + r.Owed }

// warnOf adds the warnings of a bucket set to the store. One that fails is repeated by the next
// request that sees the level.
func (e *Engine) warnOf(ctx context.Context, r *keyedRule, d *store.Demand, level *store.Result) {
	for i := range r.numbers {
		capacity, used := d.Bands[i].Capacity, usedOf(&d.Bands[i], &level.Bands[i])
		var reached rules.Percents
		for n, percent := range r.numbers[i].WarnAt {
			if percent > 0 && used*100 >= capacity*int64(percent) { // both are below 2^53 * 100
				reached[n] = percent
			}
		}
		if reached[0] == 0 {
			continue
		}
		w := store.Warning{
			Key: d.Key, Band: r.names[i], Capacity: capacity, Used: used, Measure: r.Measure(),
			At: level.Now, Ends: d.Due(i, level), Window: r.numbers[i].Kind == rules.SlidingWindow,
		}
		if w.Window {
			w.Ends = level.Now + d.Bands[i].Period.Microseconds()
		}
		e.warnOnce(ctx, i, &w, reached)
	}
}

func (e *Engine) warnOnce(ctx context.Context, band int, w *store.Warning, reached rules.Percents) {
	slot := e.warnings.slot(w.Key.ID, band)
	known, resets := slot.warned.Load(), e.warnings.resets.Load()+e.store.Resets()
	if known != nil && (known.key != w.Key.ID || known.band != w.Band || known.resets != resets || !known.covers(w)) {
		known = nil
	}
	all := reached
	for n := range all {
		if known != nil && all[n] == 0 {
			all[n] = known.percents[n] // the level is lower again
		}
	}
	if known != nil && known.percents == all {
		return
	}
	if caller := e.warnings.slot(w.Key.ID, 0).caller.Load(); caller != nil && caller.key == w.Key.ID {
		w.Identity = caller.name
	}
	ends := w.Ends
	if known != nil {
		ends = known.ends
	}
	// The level was reached even if the caller has left.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), detachedTimeout)
	defer cancel()
	for n, percent := range reached {
		if percent == 0 || known != nil && known.percents[n] == percent {
			continue
		}
		one := *w
		one.Percent = percent
		if err := e.store.Warn(ctx, &one); err != nil {
			e.storeFailed(ctx, err)
			return
		}
		ends = min(ends, one.Ends)
	}
	slot.warned.Store(&warned{w.Key.ID, w.Band, resets, w.Capacity, ends, all})
}

// covers reports whether the warnings that are known are those of the capacity and the period of
// another one. A clock that steps back ends what is known of a window.
func (k *warned) covers(w *store.Warning) bool {
	if k.capacity != w.Capacity {
		return false
	}
	return k.ends == w.Ends || w.Window && w.At < k.ends && k.ends <= w.Ends
}
