package failover

import (
	"context"
	"errors"
	"slices"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/store"
)

// correction is a settlement of one take in the store.
type correction struct {
	take   store.Taken
	actual int64
	place  int   // in the receipt
	unit   int64 // how many tokens of the take are one of the receipt
}

// Settle implements [store.Store]. Each take is settled where it was taken from, and those of the
// fallback also in the store. What the store did not get is sent later.
func (s *Store) Settle(ctx context.Context, takes store.Takes, actual []int64) ([]store.Settlement, error) {
	if err := store.CheckTakes(takes, actual); err != nil {
		return nil, err
	}
	settled := make([]store.Settlement, len(takes))
	shared := make([]correction, 0, len(takes))
	var failures []error
	for i := range takes {
		if !fromFallback(&takes[i]) {
			shared = append(shared, correction{takes[i], actual[i], i, 1})
			continue
		}
		one, corrections, err := s.settleLocal(ctx, &takes[i], actual[i], i)
		settled[i] = one
		shared = append(shared, corrections...)
		failures = append(failures, err)
	}
	failures = append(failures, s.settleShared(ctx, shared, settled))
	return settled, errors.Join(failures...)
}

// settleLocal settles a take in the fallback. If the store was charged for its bucket
// already, the shared budget has to be corrected too, and it returns how.
func (s *Store) settleLocal(
	ctx context.Context, t *store.Taken, actual int64, place int,
) (one store.Settlement, shared []correction, err error) {
	one, u, err := s.settleInFallback(ctx, t, actual)
	rest := t.Correction(actual) - t.Cost
	if u == nil || rest == 0 || err != nil {
		return one, nil, err
	}
	var bands []store.ExactBand
	if u.bands != nil { // both may load rules
		bands = s.bandsOf(ctx, t.Key, u.bands)
	} else {
		bands = s.bandsOfTake(ctx, t.Key, t.Bands, s.local)
	}
	if bands == nil || rest < 0 && u.sent == nil {
		s.carryover.unsettled.Add(1)
		return store.Settlement{}, nil, nil
	}
	return store.Settlement{}, s.carryover.corrections(u, t, bands, rest, place), nil
}

// settleInFallback settles a take in the fallback. If its bucket is to be charged, the charge
// contains it. Otherwise it returns what the store was charged, as far as that is known.
func (s *Store) settleInFallback(ctx context.Context, t *store.Taken, actual int64) (one store.Settlement, done *localUse, err error) {
	c := &s.carryover
	c.mu.Lock() // a charge sees all of it or nothing
	defer c.mu.Unlock()
	u := c.buckets[t.Key.ID]
	before := s.usedLocally(ctx, u)
	settled, err := s.fallback.Settle(ctx, store.Takes{*t}, []int64{actual})
	if err != nil {
		return one, nil, err
	}
	if u != nil {
		u.settle(t, &settled[0], before, s.usedLocally(ctx, u))
		c.pending.Add(settled[0].Charged)
		return settled[0], nil, nil
	}
	if u = c.done[t.Key.ID]; u == nil {
		u = &localUse{key: t.Key}
	}
	return settled[0], u, nil
}

// corrections are how a store settles tokens of each band, which are taken, or given back
// where negative, at most what it was charged. Nothing of a period
// that has ended is given back.
func (c *carryover) corrections(u *localUse, t *store.Taken, bands []store.ExactBand, tokens int64, place int) (all []correction) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range bands {
		if bucket.IsConcurrency(bands[i]) || tokens < 0 && u.ended(t, i) {
			continue
		}
		units := min(tokens, bucket.MaxUnits/bands[i].Unit) * bands[i].Unit
		if tokens < 0 {
			absorbed := min(-units, u.lost[i])
			u.lost[i] -= absorbed
			units = max(units+absorbed, -u.sent[i])
		}
		take, actual := u.correction(bands, i, units)
		if tokens < 0 {
			u.sent[i] += units
		}
		all = append(all, correction{take, actual, place, bands[i].Unit})
	}
	return all
}

// ended reports whether band i is a quota, and a take is from a period of it that ended before the
// store was charged last.
func (u *localUse) ended(t *store.Taken, i int) bool {
	j := slices.IndexFunc(t.Bands, func(b store.ExactBand) bool { return b.ID == u.bands[i].ID && b.Kind == u.bands[i].Kind })
	return bucket.IsQuota(u.bands[i]) && 0 <= j && j < len(t.Due) && i < len(u.due) && t.Due[j] < u.due[i]
}

// usedLocally is what is used of each band in the fallback, of token buckets in units, or nil
// if that is not known. The lock is held.
func (s *Store) usedLocally(ctx context.Context, u *localUse) []int64 {
	if u == nil {
		return nil
	}
	var local store.Outcome
	if err := s.fallback.Peek(ctx, []store.Demand{{Key: u.key, Bands: u.local}}, &local); err != nil {
		return nil
	}
	used := make([]int64, len(u.bands))
	for i := range u.bands {
		level := &local.Results[0].Bands[i]
		switch u.bands[i].Kind {
		case bucket.Concurrency:
		case bucket.TokenBucket:
			used[i] = u.used(i, local.Results[0].Now, level.FullAfter)
		default:
			used[i] = level.Owed - level.Remaining
		}
	}
	return used
}

// settle notes that the settlement of a take has moved what is used. Bands may have moved by
// less or more than the settlement says: it is that of the band that moved least. Where the
// take was at another share, the fallback moves token buckets in proportion, and the store
// has to move by as many tokens as were settled.
func (u *localUse) settle(t *store.Taken, s *store.Settlement, before, after []int64) {
	u.tokens += s.Charged
	for i := range u.back {
		u.back[i] += s.Returned * u.bands[i].Unit
	}
	for i := range min(len(before), len(after)) {
		j := slices.IndexFunc(t.Bands, func(b store.ExactBand) bool { return b.ID == u.local[i].ID && b.Kind == u.local[i].Kind })
		if j < 0 {
			continue
		}
		moved, same := after[i]-before[i], sameNumbers(t.Bands[j], u.local[i])
		switch inStore := moved; {
		case u.bands[i].Kind == bucket.TokenBucket:
			if !same {
				inStore = int64(float64(moved) / float64(u.local[i].Capacity) * float64(t.Bands[j].Capacity))
			}
			u.owed[i] += inStore - moved
			u.back[i] += max(0, -inStore-s.Returned*u.bands[i].Unit)
		case same && u.bands[i].Kind != bucket.Concurrency:
			u.owed[i] += (moved - s.Charged + s.Returned) * u.bands[i].Unit
		}
	}
}

// settleShared settles takes in the store. Those that it did not get are sent later; those that
// may have run are not.
func (s *Store) settleShared(ctx context.Context, all []correction, settled []store.Settlement) error {
	if len(all) == 0 {
		return nil
	}
	takes, actual := make(store.Takes, len(all)), make([]int64, len(all))
	for k := range all {
		takes[k], actual[k] = all[k].take, all[k].actual
	}
	done, err := s.Store.Settle(ctx, takes, actual)
	if err != nil {
		s.carryover.unsettled.Add(1)
	}
	if lost := s.unsent.AddUnsent(takes, actual, done); lost != nil {
		err = errors.Join(err, lost)
	}
	for k := range min(len(done), len(all)) {
		one := done[k]
		one.NotSent = nil // it is sent later, or lost
		if unit := all[k].unit; unit > 1 || fromFallback(&takes[k]) {
			one = store.Settlement{Returned: one.Returned / unit, Charged: one.Charged / unit}
		}
		if k > 0 && all[k-1].place == all[k].place {
			one = store.MergeSettlements([]store.Settlement{settled[all[k].place], one})
		}
		settled[all[k].place] = one
	}
	return err
}
