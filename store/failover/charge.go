package failover

import (
	"context"
	"errors"
	"slices"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/store"
)

// errNotCharged means that a charge must be made again.
var errNotCharged = errors.New("tokens of the fallback were not debited from the store")

// million is how many parts a token has where parts are counted.
const million = 1_000_000

// charge charges the store for a bucket. After a first charge, requests go to the
// store again while it is charged what was granted meanwhile. A charge that may
// have been made is not repeated.
func (s *Store) charge(u *localUse) {
	c := &s.carryover
	c.mu.Lock()
	u.leaving = u.charged
	before := *u
	before.sent, before.owed = slices.Clone(u.sent), slices.Clone(u.owed)
	before.back, before.lost = slices.Clone(u.back), slices.Clone(u.lost)
	var local store.Outcome
	err := s.fallback.Peek(context.Background(), []store.Demand{{Key: u.key, Bands: u.local}}, &local)
	c.mu.Unlock()

	var level store.Result
	var units []int64
	var charged, uncharged int64
	if err == nil {
		level = local.Results[0]
		units = before.units(&level)
		charged, uncharged, err = s.chargeUnits(&before, units)
	} else {
		uncharged = before.tokens * million
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.buckets[u.key.ID] != u {
		return // its bands have changed
	}
	if errors.Is(err, store.ErrClosed) {
		c.giveUp(u)
		return
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
	for i := range u.back {
		u.back[i] -= before.back[i]
		u.lost[i] -= before.absorbed(i)
	}
	u.sent, u.sentAt, u.due = before.sent, before.sentAt, before.due
	if units != nil {
		u.charge(&before, &level, units)
	}
	if err != nil { // the store may have been charged, or not
		for i := range units {
			u.lost[i] += max(0, units[i])
			u.sent[i] += min(0, units[i])
		}
	}
	rest := slices.Concat(u.owed, u.back, []int64{u.tokens})
	if u.charged && !slices.ContainsFunc(rest, isNotZero) {
		c.keep(u)
	}
}

func isNotZero(n int64) bool { return n != 0 }

// charge notes that units were charged, as what a bucket held before and at a level.
func (u *localUse) charge(before *localUse, level *store.Result, units []int64) {
	reshared := u.at != before.at // meanwhile: then all that was used of token buckets is in owed
	if !reshared {
		u.at = level.Now
	}
	for i := range u.owed {
		switch {
		case !reshared:
			u.began[i] = level.Bands[i].FullAfter
			u.owed[i] -= before.owed[i]
		case u.bands[i].Kind == bucket.TokenBucket:
			u.owed[i] -= units[i] - before.absorbed(i)
		default:
			u.owed[i] -= before.owed[i]
		}
	}
}

// units is what to charge each band, in units, given what the bucket holds in the fallback.
// Bands fill at different rates and so are charged different amounts. It is negative where
// settlements gave back more than was granted, at most what was charged before.
func (u *localUse) units(level *store.Result) []int64 {
	units := make([]int64, len(u.bands))
	for i := range u.bands {
		b, absorbed := &u.bands[i], u.absorbed(i)
		back := u.back[i] - absorbed
		most := min(back, b.Limit, u.sent[i]) // to be given back
		switch b.Kind {
		case bucket.Concurrency: // requests that are under way end by themselves
		case bucket.TokenBucket:
			units[i] = max(u.owed[i]+u.used(i, level.Now, level.Bands[i].FullAfter)+absorbed, -most)
		default: // all that was granted, but what has come back since
			used := u.local[i].Capacity - level.Bands[i].Remaining
			if b.CountsRefused {
				used += level.Bands[i].Owed
			}
			granted := min(u.tokens*b.Unit-back+u.owed[i], used*b.Unit)
			units[i] = max(granted, -min(min(back, b.Limit)+max(0, -u.owed[i]), u.sent[i]))
		}
	}
	return units
}

// absorbed is what was given back to band i of charges that may not have been made, in units.
func (u *localUse) absorbed(i int) int64 { return min(u.back[i], u.lost[i]) }

// chargeUnits charges units of each band. It returns how many tokens were charged in the
// band with most of them, and how many were not, in millionths.
func (s *Store) chargeUnits(u *localUse, units []int64) (charged, uncharged int64, err error) {
	var asked int64
	parts := func(units int64, i int) int64 { return int64(float64(units) / float64(u.bands[i].Unit) * million) }
	for i := range units {
		asked = max(asked, parts(units[i], i))
	}
	if !slices.ContainsFunc(units, isNotZero) {
		return 0, 0, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*timeout)
	defer cancel()
	bands := s.bandsOf(ctx, u.key, u.bands)
	if bands == nil {
		return 0, asked, nil
	}
	if err := s.probe(ctx, u, bands); err != nil {
		return 0, 0, err
	}
	var takes store.Takes
	var actual []int64
	var places []int
	for i, n := range units {
		if n != 0 {
			if !bands[i].CountsRefused {
				bands[i].Max = bands[i].Limit // a charge is never debt
			}
			t, cost := u.correction(bands, i, n)
			takes, actual, places = append(takes, t), append(actual, cost), append(places, i)
		}
	}
	settled, err := s.Store.Settle(ctx, takes, actual)
	if err != nil {
		s.failed(ctx, err)
		return 0, asked, err
	}
	for k, i := range places {
		if settled[k].NotSent != nil {
			s.failed(ctx, settled[k].NotSent)
			return 0, 0, errNotCharged // all of a bucket are sent together; probe sees that the store is closed
		}
		u.sent[i] += settled[k].Charged - settled[k].Returned
		charged = max(charged, parts(settled[k].Charged, i))
	}
	return charged, max(0, asked-charged), nil
}

// probe takes no tokens, which can be repeated, to see that the store answers before the
// charge, which cannot. The first answer after a freeze may come late.
func (s *Store) probe(ctx context.Context, u *localUse, bands []store.ExactBand) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var out store.Outcome
	demands := []store.Demand{{Key: u.key, Bands: bands, Charging: true}}
	err := s.Store.Take(ctx, demands, &out)
	if err != nil && !errors.Is(err, store.ErrNotSent) {
		s.failed(ctx, err)
	}
	switch {
	case errors.Is(err, store.ErrClosed):
		return err
	case err != nil, out.Results[0].Status == store.Unavailable:
		return errNotCharged
	}
	r := &out.Results[0]
	first, before := u.sentAt == 0, u.due
	if first {
		u.sentAt = r.Now
	}
	u.due = make([]int64, len(bands))
	for i := range bands {
		if u.due[i] = demands[0].Due(i, r); first || u.due[i] == before[i] {
			continue
		}
		if bucket.IsQuota(bands[i]) {
			u.sent[i] = 0 // in a period that has ended
		} else {
			u.due[i] = before[i]
		}
	}
	return nil
}

// correction is how a store settles units of band i of the bucket alone, which are taken, or
// given back where negative.
func (u *localUse) correction(bands []store.ExactBand, i int, units int64) (t store.Taken, actual int64) {
	t = store.Taken{Key: u.key, Source: store.FromFallback}
	for j := range bands {
		unit := int64(0)
		switch {
		case bucket.IsConcurrency(bands[j]):
			continue
		case j == i:
			unit = 1
		}
		t.Bands = append(t.Bands, bands[j].WithUnit(unit))
		if units < 0 {
			t.Due = append(t.Due, u.due[j])
		}
	}
	if units >= 0 {
		return t, min(units, store.MaxCost)
	}
	sent := min(u.sent[i], store.MaxCost) // of several charges
	t.Cost, t.Asked, t.At = sent, sent, u.sentAt
	return t, max(0, sent+units)
}

// bandsOf returns a copy of the bands of a bucket as they are in the store, or nil if its
// rule has others by now.
func (s *Store) bandsOf(ctx context.Context, key store.Key, bands []store.ExactBand) []store.ExactBand {
	if now := s.bandsOfTake(ctx, key, bands, nil); slices.EqualFunc(now, bands, sameNumbers) {
		return now
	}
	return nil
}

// bandsOfTake returns a copy of the bands that a bucket has in the store now, or nil if they are
// not known: see [Config.Bands].
func (s *Store) bandsOfTake(ctx context.Context, key store.Key, taken []store.ExactBand, local LocalBands) []store.ExactBand {
	switch {
	case s.config.Bands != nil:
		return s.config.Bands(ctx, key, taken, local)
	case local == nil:
		return slices.Clone(taken)
	}
	return nil
}
