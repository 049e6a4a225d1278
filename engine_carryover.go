package fluxgate

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate/internal/bucket"
)

const (
	// maxCarried bounds how many buckets are charged after an outage.
	maxCarried = 100_000
	// maxCharges bounds how many charges are in flight.
	maxCharges = 16
	// chargeEvery is how often buckets are charged, and chargePause the time for
	// each of many: an attempt takes about a tenth of it.
	chargeEvery = 50 * time.Millisecond
	chargePause = 50 * time.Microsecond
	// maxScanned bounds how many buckets are visited while requests wait.
	maxScanned = 1_000
)

// carryover remembers the buckets that were used in the fallback until the store
// was charged for them. Until then requests are decided in the fallback: the store
// could hand out the same tokens again.
//
// A bucket is charged what it holds at the time, less what is left of the level
// that it began with: what refilled meanwhile costs nothing.
type carryover struct {
	count              atomic.Int64 // of buckets: requests pay one load for it
	admitted, pending  atomic.Int64
	charged, uncharged atomic.Int64 // in millionths of a token

	mu       sync.Mutex
	buckets  map[KeyID]*localUse
	charging bool // a timer or a goroutine will charge them
}

// localUse is a bucket set that was used in the fallback.
type localUse struct {
	key          Key
	bands, local []ExactBand // in the store and in the fallback
	// at and began are a moment of the fallback's clock and how long from then
	// until each band would have been full without the tokens to be charged.
	at    int64
	began []time.Duration
	// tokens is how many the fallback has granted since then.
	tokens int64

	charged bool // the last charge succeeded: the next one can be the last
	leaving bool // requests are decided in the store again, because it is
}

// took notes a take from the fallback, and reports whether the caller must start
// to charge. bands are those of the store.
func (c *carryover) took(d *Demand, bands []ExactBand, r *Result) (start bool) {
	c.admitted.Add(r.Granted)
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.buckets[d.Key.ID]
	if u != nil && !slices.Equal(u.bands, bands) {
		c.uncharged.Add(u.tokens * million)
		c.drop(u)
		u = nil
	}
	if u == nil {
		if len(c.buckets) >= maxCarried {
			c.uncharged.Add(r.Granted * million)
			return false
		}
		u = &localUse{key: d.Key, bands: bands, at: r.Now, began: make([]time.Duration, len(d.Bands))}
		for i := range d.Bands {
			// How long these tokens take to come back.
			cost := time.Duration(d.Bands[i].FullAfter(r.Granted*d.Bands[i].Unit, 0)) * time.Microsecond
			u.began[i] = max(0, r.Bands[i].FullAfter-cost)
		}
		if c.buckets == nil {
			c.buckets = make(map[KeyID]*localUse)
		}
		c.buckets[d.Key.ID] = u
		c.count.Add(1)
	}
	u.local, u.leaving = d.Bands, false
	u.tokens += r.Granted
	c.pending.Add(r.Granted)
	start = !c.charging
	c.charging = true
	return start
}

func (c *carryover) drop(u *localUse) {
	c.pending.Add(-u.tokens)
	delete(c.buckets, u.key.ID)
	c.count.Add(-1)
}

// heldOf has a bit for each demand whose bucket stays in the fallback.
func (c *carryover) heldOf(demands []Demand) (held uint64) {
	if c.count.Load() == 0 {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range demands {
		if u := c.buckets[demands[i].Key.ID]; u != nil && !u.leaving {
			held |= 1 << i
		}
	}
	return held
}

// has reports whether a bucket is still to be charged.
func (c *carryover) has(id KeyID) bool {
	if c.count.Load() == 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.buckets[id] != nil
}

// all returns the buckets to charge. It ends charging if there are none.
func (c *carryover) all() (all []*localUse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, u := range c.buckets {
		if all = append(all, u); len(all)%maxScanned == 0 {
			c.mu.Unlock()
			runtime.Gosched() // requests take the lock
			c.mu.Lock()
		}
	}
	c.charging = len(c.buckets) > 0
	return all
}

// noteLevels sets the fallback to the levels that the store has reported.
func (e *Engine) noteLevels(v *evaluation) {
	if e.levels == nil {
		return
	}
	for i := range v.demands {
		r, result := v.rules[i], &v.outcome.Results[i]
		if !hasLevel(result) || r.shadow || e.onFailureOf(r) != FailLocal || e.carryover.has(v.demands[i].Key.ID) {
			continue
		}
		e.levels.SetLevel(&v.demands[i], result)
	}
}

// hasLevel reports whether a result has levels of the store. Those of a lease are from
// its last slice: busy buckets have hardly any others.
func hasLevel(r *Result) bool {
	return (r.Source == FromStore || r.Source == FromLease) && r.Status != Unavailable && r.Status != NotAsked
}

// decideInStore calls the store with the demands of an evaluation. Those whose
// buckets stay in the fallback are Unavailable.
func (e *Engine) decideInStore(ctx context.Context, v *evaluation) error {
	held := e.carryover.heldOf(v.demands)
	if held == 0 {
		return v.decideIn(ctx, e.store, v.demands, &v.outcome)
	}
	var others []Demand
	for i := range v.demands {
		if held&(1<<i) == 0 {
			others = append(others, v.demands[i])
		}
	}
	var out Outcome
	if len(others) > 0 {
		if err := v.decideIn(ctx, e.store, others, &out); err != nil {
			return err
		}
	}
	v.outcome.Prepare(v.demands)
	for i := range v.demands {
		if held&(1<<i) != 0 {
			v.outcome.Results[i].Status = Unavailable
			continue
		}
		v.outcome.Results[i], out.Results = out.Results[0], out.Results[1:]
	}
	v.outcome.Decide(v.demands)
	return nil
}

// chargeStore charges all buckets, and again later until there are none.
func (e *Engine) chargeStore() {
	all := e.carryover.all()
	if len(all) == 0 {
		return
	}
	var next atomic.Int64
	var charges sync.WaitGroup
	for range min(maxCharges, len(all)) {
		charges.Go(func() {
			for i := next.Add(1); int(i) <= len(all); i = next.Add(1) {
				e.charge(all[i-1])
			}
		})
	}
	charges.Wait()
	time.AfterFunc(max(chargeEvery, time.Duration(len(all))*chargePause), e.chargeStore)
}

// charge charges the store for a bucket. After a first charge, requests go to the
// store again while it is charged what was granted meanwhile. A charge that may
// have been made is not repeated.
func (e *Engine) charge(u *localUse) {
	ctx, cancel := context.WithTimeout(context.Background(), giveBackTimeout)
	defer cancel()
	c := &e.carryover
	c.mu.Lock()
	u.leaving = u.charged
	before := *u
	c.mu.Unlock()

	level, charged, uncharged, err := e.chargeOf(ctx, &before)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.buckets[u.key.ID] != u {
		return // its bands have changed
	}
	if u.charged = err == nil; !u.charged {
		u.leaving = false
	}
	if errors.Is(err, errNotCharged) {
		return
	}
	c.charged.Add(charged)
	c.uncharged.Add(uncharged)
	c.pending.Add(-before.tokens)
	u.tokens -= before.tokens
	if level.Bands != nil {
		u.at = level.Now
		for i := range u.began {
			u.began[i] = level.Bands[i].FullAfter
		}
	}
	if u.charged && u.tokens == 0 {
		c.drop(u)
	}
}

// chargeOf makes a charge. level is what the bucket holds in the fallback; charged
// and uncharged are in millionths of a token.
func (e *Engine) chargeOf(ctx context.Context, u *localUse) (level Result, charged, uncharged int64, err error) {
	var local, out Outcome
	if err := e.fallback.Peek(ctx, []Demand{{Key: u.key, Bands: u.local}}, &local); err != nil {
		return level, 0, u.tokens * million, err
	}
	level = local.Results[0]
	units, count, size := u.charge(&level)
	if count == 0 {
		return level, 0, 0, nil
	}
	bands := e.bandsOf(ctx, u)
	if bands == nil {
		return level, 0, count * size, nil
	}
	for i := range bands {
		bands[i] = bands[i].WithUnit(max(1, units[i]/count))
	}
	take := e.store.Take
	if c, ok := e.store.(Charger); ok {
		take = c.Charge
	}
	// First a take of nothing, which may be repeated: the reply of a charge must not
	// be lost. Each has its own timeout: the first answer after a freeze may come late.
	// A partial grant is never debt.
	for _, cost := range []int64{0, count} {
		demands := []Demand{{Key: u.key, Bands: bands, Cost: cost, Min: min(cost, 1)}}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTimeout)
		err := take(ctx, demands, &out)
		cancel()
		switch {
		case errors.Is(err, ErrNotSent) || err == nil && out.Results[0].Status == Unavailable:
			return level, 0, 0, errNotCharged
		case err != nil:
			e.storeFailed(ctx, err)
			if cost == 0 || errors.Is(err, ErrRefused) {
				return level, 0, 0, errNotCharged
			}
			return level, 0, count * size, err
		}
	}
	charged = out.Results[0].Granted
	return level, charged * size, (count - charged) * size, nil
}

// errNotCharged means that a charge must be made again.
var errNotCharged = errors.New("the store was not charged")

// million is how many parts a token has where parts are counted.
const million = 1_000_000

// charge returns what to charge, given what the bucket holds in the fallback: a
// number of units of each band, in so many tokens of this size in millionths. Bands
// fill at different rates and so are charged different amounts.
func (u *localUse) charge(level *Result) (units []int64, count, size int64) {
	elapsed := time.Duration(level.Now-u.at) * time.Microsecond
	units = make([]int64, len(u.bands))
	parts := 0.0
	for i := range u.bands {
		if u.bands[i].Kind == bucket.Concurrency {
			continue // requests that are under way end by themselves
		}
		if u.bands[i].Kind == bucket.TokenBucket {
			used := level.Bands[i].FullAfter - max(0, u.began[i]-max(0, elapsed))
			units[i] = u.local[i].Regained(max(0, used).Microseconds(), u.bands[i].Unit)
		} else { // all that was granted, but what has come back since
			units[i] = min(u.tokens, u.local[i].Capacity-level.Bands[i].Remaining) * u.bands[i].Unit
		}
		parts = max(parts, float64(units[i])/float64(u.bands[i].Unit))
	}
	if parts == 0 {
		return nil, 0, 0
	}
	count = max(1, int64(parts))
	return units, count, int64(parts * million / float64(count))
}

// bandsOf returns a copy of the bands of a bucket, or nil if its rule does not have
// them any more.
func (e *Engine) bandsOf(ctx context.Context, u *localUse) []ExactBand {
	set := e.rules.RuleSet(ctx, u.key.RuleSet)
	if set == nil {
		return nil
	}
	r, err := set.find(u.key.Rule)
	if err != nil || !slices.Equal(r.bands, u.bands) {
		return nil
	}
	return slices.Clone(r.bandsNow())
}
