package lease

import (
	"encoding/binary"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate/store"
)

// leases are those of hot buckets. Buckets share its places by their ids, which are
// hashes, so its size is fixed: a bucket whose place another hot one has is decided by
// the store.
type leases struct {
	places [1 << 13]atomic.Pointer[lease]
	// heat has, for buckets that have no lease, a part of the id, the number of the
	// epoch and how many requests there were in it.
	heat     [1 << 16]atomic.Uint64
	start    time.Time
	gateways func() int
	counts   *counts
	returns  func(store.Takes)
}

// epoch returns the number of the current one.
func (t *leases) epoch(now time.Time) int64 { return int64(now.Sub(t.start)/epoch) + 1 }

func (t *leases) place(id store.KeyID) *atomic.Pointer[lease] {
	return &t.places[binary.LittleEndian.Uint16(id[:])%uint16(len(t.places))]
}

// fits reports whether a slice is enough for some demands like this one. Larger ones are
// left to the store: for them a slice would be lost.
func (t *leases) fits(d *store.Demand) bool {
	return leasable(d) && d.Cost <= largest(capacity(d.Bands), t.gateways())/requestsPerSlice
}

// decides reports whether a slice has enough for a demand, and whether a pause refuses it
// otherwise.
func (t *leases) decides(d *store.Demand, joint bool, generation uint64, now time.Time) (holds, refuses bool) {
	l := t.place(d.Key.ID).Load()
	if l == nil || !t.fits(d) || !l.isOf(d, generation) {
		return false, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	holds = l.sliceFor(d.Cost, joint, now) != nil
	return holds, !holds && l.asks.refuses(now, d.Cost)
}

// pause reports whether the pause of a lease refuses one of the demands.
func (t *leases) pause(demands []store.Demand, generation uint64, now time.Time) bool {
	return slices.ContainsFunc(demands, func(d store.Demand) bool {
		_, refuses := t.decides(&d, len(demands) > 1, generation, now)
		return refuses && !d.Shadow
	})
}

// of returns the lease for a demand, or nil if there is none and the bucket is not hot.
func (t *leases) of(d *store.Demand, now time.Time, generation uint64) *lease {
	current, place := t.epoch(now), t.place(d.Key.ID)
	there := place.Load()
	another := there == nil || there.key.ID != d.Key.ID
	if !another && there.generation == generation && !sameBands(there.bands, d.Bands) {
		if !place.CompareAndSwap(there, nil) {
			return nil // another request was faster
		}
		there.change(now)
		there = nil
	}
	switch {
	case !t.fits(d):
		return nil
	case there != nil && there.isOf(d, generation):
		return there
	case largest(capacity(d.Bands), t.gateways()) < minSlice, slow(d.Bands),
		another && !d.Leased && !t.hot(d.Key.ID, current),
		another && there != nil && !there.unused(current):
		return nil
	}
	fresh := &lease{
		key: d.Key, bands: d.Bands, generation: generation, capacity: capacity(d.Bands),
		gateways: t.gateways, counts: t.counts, returns: t.returns,
	}
	if another {
		fresh.epoch, fresh.demand[0].requests = current, hotRequests-2 // the next request is worth a slice
	}
	if !place.CompareAndSwap(there, fresh) {
		if there = place.Load(); there != nil && there.isOf(d, generation) {
			return there // another request of a crowd was faster
		}
		return nil
	}
	if there != nil {
		there.end(now) // what it holds is lost
	}
	return fresh
}

// isOf reports whether a demand is for the bucket set of the lease, as it was then.
func (l *lease) isOf(d *store.Demand, generation uint64) bool {
	return l.key.ID == d.Key.ID && l.generation == generation && sameBands(l.bands, d.Bands)
}

// sameBands compares the lists first, which are those of a rule and not changed.
func sameBands(a, b []store.ExactBand) bool {
	return len(a) == len(b) && (&a[0] == &b[0] || slices.Equal(a, b))
}

// hot counts a request and reports whether there are enough for a slice. Counts that
// collide or are lost make a bucket hot later or sooner, which does no harm.
func (t *leases) hot(id store.KeyID, current int64) bool {
	cell := &t.heat[binary.LittleEndian.Uint16(id[:])]
	name := uint64(binary.LittleEndian.Uint32(id[2:]))<<32 | uint64(uint16(current))<<16
	n := uint64(1)
	if count := cell.Load(); count&^0xffff == name {
		n = min(0xffff, count&0xffff+1)
	}
	cell.Store(name | n)
	return n >= hotRequests
}

// counts are those of [Stats].
type counts struct {
	refused, paused, spent  atomic.Uint64
	slices, granted, wasted atomic.Int64
}
