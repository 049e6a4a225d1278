package failover

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/store"
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
	// keepCharges is how long it is known what the store was charged for a bucket.
	keepCharges = 10 * time.Minute
)

// carryover remembers the buckets that were used in the fallback until the store
// was charged for them. Until then requests are decided in the fallback: the store
// could hand out the same tokens again.
//
// The store is charged the tokens that are missing from the bucket at the time, less
// those that would be missing without the takes of the fallback.
type carryover struct {
	count              atomic.Int64 // of buckets: requests pay one load for it
	admitted, pending  atomic.Int64
	charged, uncharged atomic.Int64 // in millionths of a token
	unsettled          atomic.Int64 // settlements that are lost

	mu      sync.Mutex
	buckets map[store.KeyID]*localUse
	// done are buckets that the store was charged for, so that takes of the fallback can
	// still be settled.
	done     map[store.KeyID]*localUse
	charging bool // a timer or a goroutine will charge all that
}

// localUse is a bucket set that was used in the fallback.
type localUse struct {
	key          store.Key
	bands, local []store.ExactBand // in the store and in the fallback
	// at and began are a moment of the fallback's clock and how long from then
	// until each band would have been full without the tokens to be charged.
	at    int64
	began []time.Duration
	// owed is a further charge of each band, in units. For token buckets it is what was
	// granted under earlier shares, for other kinds what overdrafts and settlements moved
	// beyond the band that they moved least.
	owed []int64
	// tokens is how many the fallback has granted since then, and back what was given back to
	// each band since then of all that it has ever granted, in units.
	tokens int64
	back   []int64
	// sent is what the store was charged for each band, in units, less what was given back,
	// since sentAt of its clock. due is when the periods of quotas ended then.
	sent   []int64
	sentAt int64
	due    []int64
	// lost is what was sent in charges of which it is not known whether the store got them, in
	// units. What is given back counts for these first: the store may never have had it.
	lost []int64

	charged bool // the last charge succeeded: the next one can be the last
	leaving bool // requests are decided in the store again, because it is
}

// took notes a take from the fallback, and reports whether the caller must start
// to charge. bands are those of the store. held is whether the bucket stayed in the
// fallback when the request began: requests that wait for the answers of other rules do
// not keep it there.
func (c *carryover) took(d *store.Demand, bands []store.ExactBand, r *store.Result, held bool) (start bool) {
	c.admitted.Add(r.Granted)
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.buckets[d.Key.ID]
	if u != nil && !slices.EqualFunc(u.bands, bands, sameNumbers) {
		c.giveUp(u)
		u = nil
	}
	if u == nil {
		if len(c.buckets) >= maxCarried {
			c.uncharged.Add(r.Granted * million)
			return false
		}
		u = c.done[d.Key.ID]
		if u == nil || !slices.EqualFunc(u.bands, bands, sameNumbers) {
			u = &localUse{key: d.Key, bands: bands, sent: make([]int64, len(bands)), lost: make([]int64, len(bands))}
		}
		delete(c.done, d.Key.ID)
		u.at, u.began, u.owed, u.back = r.Now, fullBefore(d, r), make([]int64, len(bands)), make([]int64, len(bands))
		u.charged, u.leaving = held, held
		if c.buckets == nil {
			c.buckets = make(map[store.KeyID]*localUse)
		}
		c.buckets[d.Key.ID] = u
		c.count.Add(1)
	} else if !slices.EqualFunc(u.local, d.Bands, sameNumbers) {
		u.reshare(d, r)
	}
	u.local, u.leaving = d.Bands, u.leaving && held
	u.tokens += r.Granted
	for i := range bands {
		if bands[i].Kind != bucket.TokenBucket {
			u.owed[i] += (debited(d, r, i) - r.Granted) * bands[i].Unit
		}
	}
	c.pending.Add(r.Granted)
	return c.start()
}

// fullBefore is how long until each band would have been full without a take.
func fullBefore(d *store.Demand, r *store.Result) []time.Duration {
	before := make([]time.Duration, len(d.Bands))
	for i := range d.Bands {
		// How long these tokens take to come back.
		cost := time.Duration(d.Bands[i].FullAfter(debited(d, r, i)*d.Bands[i].Unit, 0)) * time.Microsecond
		before[i] = max(0, r.Bands[i].FullAfter-cost)
	}
	return before
}

// debited is how many tokens a take took from band i. An overdraft takes its cost from each
// band whose debt is not the largest, and Granted is the least of all bands.
func debited(d *store.Demand, r *store.Result, i int) int64 {
	if b := &d.Bands[i]; d.Overdraft && r.Bands[i].Owed*b.Unit < b.Max-b.Limit {
		return d.Cost
	}
	return r.Granted
}

// sameNumbers reports whether two versions of a band are equal but for the time.
func sameNumbers(a, b store.ExactBand) bool {
	a.Edges = b.Edges
	return a == b
}

// reshare notes what was used under the last share, before a take under another: the
// fallback keeps only the part of it that the new share has.
func (u *localUse) reshare(d *store.Demand, r *store.Result) {
	before := fullBefore(d, r)
	for i := range before {
		if u.bands[i].Kind == bucket.TokenBucket {
			was, is := &u.local[i], &d.Bands[i]
			used := float64(is.LevelOf(before[i].Microseconds(), r.Now)) / float64(is.Limit) * float64(was.Limit)
			used -= float64(was.LevelOf((u.began[i] - u.since(r.Now)).Microseconds(), r.Now))
			u.owed[i] += int64(used / float64(was.Unit) * float64(u.bands[i].Unit))
		}
	}
	u.at, u.began = r.Now, before
}

func (u *localUse) since(now int64) time.Duration {
	return max(0, time.Duration(now-u.at)*time.Microsecond)
}

// used is what is used of a token bucket, in units of the store, besides what it began with.
func (u *localUse) used(i int, now int64, fullAfter time.Duration) int64 {
	used := fullAfter - max(0, u.began[i]-u.since(now))
	if used < 0 {
		return -u.local[i].Regained(-used.Microseconds(), u.bands[i].Unit)
	}
	return u.local[i].Regained(used.Microseconds(), u.bands[i].Unit)
}

// start reports whether the caller must start to charge. The lock is held.
func (c *carryover) start() bool {
	was := c.charging
	c.charging = true
	return !was
}

// giveUp drops a bucket that the store cannot be charged for. The lock is held.
func (c *carryover) giveUp(u *localUse) {
	c.uncharged.Add(u.tokens * million)
	c.drop(u)
}

func (c *carryover) drop(u *localUse) {
	c.pending.Add(-u.tokens)
	delete(c.buckets, u.key.ID)
	c.count.Add(-1)
}

// keep drops a bucket that the store was charged for, and keeps for a while what was charged.
func (c *carryover) keep(u *localUse) {
	c.drop(u)
	if len(c.done) >= maxCarried || !slices.ContainsFunc(u.sent, func(units int64) bool { return units > 0 }) {
		return
	}
	if c.done == nil {
		c.done = make(map[store.KeyID]*localUse)
	}
	c.done[u.key.ID] = u
	time.AfterFunc(keepCharges, func() { c.forget(u) })
}

func (c *carryover) forget(u *localUse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done[u.key.ID] == u {
		delete(c.done, u.key.ID)
	}
}

// heldOf has a bit for each demand whose bucket stays in the fallback.
func (c *carryover) heldOf(demands []store.Demand) (held uint64) {
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
func (c *carryover) has(id store.KeyID) bool {
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

// chargeStore charges all buckets, and again later until there are none.
func (s *Store) chargeStore() {
	all := s.carryover.all()
	if len(all) == 0 {
		return
	}
	var next atomic.Int64
	var charges sync.WaitGroup
	for range min(maxCharges, len(all)) {
		charges.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(all); i = int(next.Add(1)) - 1 {
				s.charge(all[i])
			}
		})
	}
	charges.Wait()
	time.AfterFunc(max(chargeEvery, time.Duration(len(all))*chargePause), s.chargeStore)
}
