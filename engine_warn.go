package fluxgate

import (
	"context"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// WithNamedWarnings names callers in warnings, as [Engine.WriteIdentity] does, if this engine
// has decided a request of theirs.
func WithNamedWarnings() Option {
	return func(e *Engine) error {
		e.namesCallers = true
		return nil
	}
}

// nameCaller notes whose bucket a request counts in: a settlement does not tell it.
func (e *Engine) nameCaller(r *keyedRule, key store.KeyID, req *Request) {
	if e.warnings.Named(key) {
		return
	}
	var name [256]byte
	n := e.WriteIdentity(name[:], &EvaluatedRule{Rule: r.Rule, compiled: r, req: req})
	e.warnings.Name(key, string(name[:n]))
}

// hasLevel reports whether a result has levels of the store. Those of a lease are from
// its last slice: busy buckets have hardly any others.
func hasLevel(r *store.Result) bool {
	return (r.Source == store.FromStore || r.Source == store.FromLease) && r.Status != store.Unavailable && r.Status != store.NotAsked
}

// warn warns of the levels that the store has answered to a take.
func (e *Engine) warn(v *evaluation) {
	for i := range v.demands {
		if r, result := v.rules[i].keyedRule, &v.outcome.Results[i]; r.warns && hasLevel(result) {
			e.warnOf(r, &v.demands[i], result)
		}
	}
}

// warningStore is a store that warns of the levels after settlements, and before charges after an
// outage: the answers of takes and of charges may have been lost.
type warningStore struct {
	store.Store
	engine *Engine
}

// Settle implements [store.Store].
func (s warningStore) Settle(ctx context.Context, takes store.Takes, actual []int64) ([]store.Settlement, error) {
	settled, err := s.Store.Settle(ctx, takes, actual)
	for i := range takes {
		if i < len(settled) && settled[i].Level != nil { // after an error there may be none
			s.engine.warnSettled(ctx, &takes[i], settled[i].Level)
		}
	}
	return settled, err
}

// Take implements [store.Store].
func (s warningStore) Take(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
	err := s.Store.Take(ctx, demands, out)
	for i := range demands {
		if err == nil && demands[i].Charging && hasLevel(&out.Results[i]) {
			s.engine.warnSettled(ctx, &store.Taken{Key: demands[i].Key, Bands: demands[i].Bands}, &out.Results[i])
		}
	}
	return err
}

// warnSettled warns by the numbers that the rule has now. Quotas and sliding windows carry the
// number that is used, whatever the numbers of the take were. Where the numbers of the caller
// are not known, the next request of the caller warns.
func (e *Engine) warnSettled(ctx context.Context, t *store.Taken, settled *store.Result) {
	set := e.rules.RuleSet(ctx, t.Key.RuleSet).at(e.store)
	if set.Compiled == nil {
		return
	}
	at, err := set.find(t.Key.Rule)
	if err != nil || !set.active[at].warns {
		return
	}
	rule := &set.keyedBy(e.salt)[at]
	if t.Source == store.FromFallback && !e.knowsNumbers(rule, t.Key.ID) {
		return // its numbers are those of the rule, whatever those of the caller are
	}
	r := e.ofTake(rule, t.Key.ID, t.Bands, nil)
	if r == nil {
		return
	}
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
	e.warnOf(r, &d, &level)
}

func usedOf(b *store.ExactBand, r *store.BandResult) int64 { return b.Capacity - r.Remaining + r.Owed }

// warnOf reports the thresholds that a bucket set has reached.
func (e *Engine) warnOf(r *keyedRule, d *store.Demand, level *store.Result) {
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
		e.warnings.Report(i, &w, reached)
	}
}
