package failover

import (
	"context"
	"errors"
	"slices"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/store"
)

// Settle implements [store.Store]. A take from the fallback is settled there. If the store was
// charged for it already, the same is corrected in the store. What the store does not get is sent
// later.
func (s *Store) Settle(ctx context.Context, takes store.Takes, actual []int64) ([]store.Settlement, error) {
	if err := store.CheckTakes(takes, actual); err != nil {
		return nil, err
	}
	settled := make([]store.Settlement, len(takes))
	var shared store.Takes
	var costs []int64
	var indices []int
	var failures []error
	for i := range takes {
		if fromFallback(&takes[i]) {
			one, err := s.settleHere(ctx, &takes[i], actual[i])
			settled[i], failures = one, append(failures, err)
			continue
		}
		shared, costs, indices = append(shared, takes[i]), append(costs, actual[i]), append(indices, i)
	}
	each, err := s.settleInStore(ctx, shared, costs, len(shared))
	for k := range each {
		settled[indices[k]] = each[k]
	}
	return settled, errors.Join(append(failures, err)...)
}

// settleInStore settles takes in the store. Those that it did not get are sent later; those that
// may have run are not, and count as lost.
func (s *Store) settleInStore(ctx context.Context, takes store.Takes, actual []int64, lose int) ([]store.Settlement, error) {
	if len(takes) == 0 {
		return nil, nil
	}
	settled, err := s.Store.Settle(ctx, takes, actual)
	if err != nil {
		s.ledger.unsettled.Add(int64(lose))
	}
	if lost := s.unsent.AddUnsent(takes, actual, settled); lost != nil {
		err = errors.Join(err, lost)
	}
	settled = slices.Clone(settled) // the store's own
	for i := range settled {
		settled[i].NotSent = nil
	}
	return settled, err
}

// settleHere settles a take from the fallback. If its bucket set is still to be charged, the charge
// contains it. Otherwise the store corrects what it was charged, as far as that is known.
func (s *Store) settleHere(ctx context.Context, t *store.Taken, actual int64) (store.Settlement, error) {
	settled, u, pending, err := s.settleInFallback(ctx, t, actual)
	tokens := t.Correction(actual) - t.Cost
	if pending || tokens == 0 || err != nil {
		return settled, err
	}
	var bands []store.ExactBand
	if u != nil { // both may load rules
		bands = s.bandsNow(ctx, u)
	} else if tokens > 0 {
		u = &usage{key: t.Key}
		bands = s.bandsOfTake(ctx, t.Key, t.Bands, s.local)
		u.debts = make([]debt, len(bands))
	}
	takes, costs, indices := s.ledger.corrections(u, t, bands, tokens)
	each, err := s.settleInStore(ctx, takes, costs, 1) // one take, though there may be a correction for each band
	for k, i := range indices[:len(each)] {
		each[k] = store.Settlement{Returned: each[k].Returned / bands[i].Unit, Charged: each[k].Charged / bands[i].Unit}
	}
	return store.MergeSettlements(each), err
}

// settleInFallback settles a take in the fallback. It returns the usage of its bucket set, or nil
// if that is not known, and whether it is still to be charged.
func (s *Store) settleInFallback(
	ctx context.Context, t *store.Taken, actual int64,
) (one store.Settlement, u *usage, pending bool, err error) {
	s.settling.Lock()
	defer s.settling.Unlock()
	var before, after *store.Result
	if u, pending = s.ledger.of(t.Key.ID); pending {
		before, _ = s.levelHere(ctx, u)
	}
	settled, err := s.fallback.Settle(ctx, store.Takes{*t}, []int64{actual})
	if err != nil {
		return one, nil, false, err
	}
	if pending {
		after, _ = s.levelHere(ctx, u)
	}
	u, pending = s.ledger.settled(t, &settled[0], before, after)
	return settled[0], u, pending, nil
}

// corrections are how a store settles tokens of each band, which are taken, or given back where
// negative, at most what it was charged. Nothing of a period that has ended is given back.
func (l *ledger) corrections(
	u *usage, t *store.Taken, bands []store.ExactBand, tokens int64,
) (takes store.Takes, costs []int64, indices []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if bands == nil || l.sets[t.Key.ID].pending() { // not known, or used again meanwhile
		l.unsettled.Add(1)
		return nil, nil, nil
	}
	for i := range bands {
		if bucket.IsConcurrency(bands[i]) || tokens < 0 && u.ended(t, i) {
			continue
		}
		units := min(tokens, bucket.MaxUnits/bands[i].Unit) * bands[i].Unit
		d := &u.debts[i]
		if tokens < 0 {
			absorbed := min(-units, d.lost)
			d.lost -= absorbed
			units = max(units+absorbed, -d.sent)
		}
		take, cost := u.correction(bands, i, units)
		if tokens < 0 {
			d.sent += units
		}
		takes, costs, indices = append(takes, take), append(costs, cost), append(indices, i)
	}
	return takes, costs, indices
}

// ended reports whether band i is a quota, and a take is from a period of it that ended before the
// store was charged last.
func (u *usage) ended(t *store.Taken, i int) bool {
	j := slices.IndexFunc(t.Bands, func(b store.ExactBand) bool { return b.ID == u.bands[i].ID && b.Kind == u.bands[i].Kind })
	return bucket.IsQuota(u.bands[i]) && 0 <= j && j < len(t.Due) && t.Due[j] < u.debts[i].due
}
