package failover

import (
	"context"
	"errors"
	"slices"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/store"
)

// errNotCharged means that the charge was not made.
var errNotCharged = errors.New("tokens of the fallback were not debited from the store")

// charge charges the store for a bucket set. After a first charge, requests go to the store
// again while it is charged what was granted meanwhile. A charge that may have been made is not
// repeated. It reports whether there is more to charge.
func (s *Store) charge(u *usage) (again bool) {
	units, granted, err := s.begin(u)
	var charged, uncharged int64
	if err == nil {
		charged, uncharged, err = s.chargeUnits(u, units)
	} else {
		uncharged = granted * million
	}
	l := &s.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.sets[u.key.ID] != u: // its bands have changed
		return false
	case errors.Is(err, store.ErrClosed):
		l.giveUp(u)
		return false
	case errors.Is(err, errNotCharged):
		u.failed()
		return true
	}
	l.charged.Add(charged)
	l.uncharged.Add(uncharged)
	l.pending.Add(-granted)
	if u.granted -= granted; u.charged(units, err == nil) {
		l.finish(u)
		return false
	}
	return true
}

// begin begins a charge: see [usage.begin]. It also returns the tokens that were granted.
func (s *Store) begin(u *usage) (units []int64, granted int64, err error) {
	s.settling.Lock() // a charge sees all of a settlement, or nothing
	defer s.settling.Unlock()
	level, err := s.levelHere(context.Background(), u)
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	if err != nil {
		return nil, u.granted, err
	}
	return u.begin(level), u.granted, nil
}

// levelHere returns what the bucket set holds in the fallback.
func (s *Store) levelHere(ctx context.Context, u *usage) (*store.Result, error) {
	s.ledger.mu.Lock()
	here := u.here
	s.ledger.mu.Unlock()
	var answer store.Outcome
	if err := s.fallback.Peek(ctx, []store.Demand{{Key: u.key, Bands: here}}, &answer); err != nil {
		return nil, err
	}
	return &answer.Results[0], nil
}

// chargeUnits charges units of each band. It returns how many tokens were charged in the
// band with most of them, and how many were not, in millionths.
func (s *Store) chargeUnits(u *usage, units []int64) (charged, uncharged int64, err error) {
	var asked int64
	parts := func(units int64, i int) int64 { return int64(float64(units) / float64(u.bands[i].Unit) * million) }
	for i := range units {
		asked = max(asked, parts(units[i], i))
	}
	if !slices.ContainsFunc(units, func(n int64) bool { return n != 0 }) {
		return 0, 0, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*timeout)
	defer cancel()
	bands := s.bandsNow(ctx, u)
	if bands == nil {
		return 0, asked, nil
	}
	if err := s.probe(ctx, u, bands); err != nil {
		return 0, 0, err
	}
	var takes store.Takes
	var actual []int64
	var indices []int
	for i, n := range units {
		if n != 0 {
			if !bands[i].CountsRefused {
				bands[i].Max = bands[i].Limit // a charge is never debt
			}
			t, cost := u.correction(bands, i, n)
			takes, actual, indices = append(takes, t), append(actual, cost), append(indices, i)
		}
	}
	settled, err := s.Store.Settle(ctx, takes, actual)
	if err != nil {
		s.failed(ctx, err)
		return 0, asked, err
	}
	for k, i := range indices {
		if settled[k].NotSent != nil {
			s.failed(ctx, settled[k].NotSent)
			return 0, 0, errNotCharged // all of a bucket are sent together; probe sees that the store is closed
		}
		u.debts[i].sent += settled[k].Charged - settled[k].Returned
		charged = max(charged, parts(settled[k].Charged, i))
	}
	return charged, max(0, asked-charged), nil
}

// probe takes no tokens, which can be repeated, to see that the store answers before the
// charge, which cannot. The first answer after a freeze may come late.
func (s *Store) probe(ctx context.Context, u *usage, bands []store.ExactBand) error {
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
	u.answered(&demands[0], &out.Results[0])
	return nil
}

// answered notes the store's clock before a charge.
func (u *usage) answered(d *store.Demand, r *store.Result) {
	first := u.sentAt == 0
	if first {
		u.sentAt = r.Now
	}
	for i := range u.debts {
		debt, due := &u.debts[i], d.Due(i, r)
		switch {
		case first:
			debt.due = due
		case due != debt.due && bucket.IsQuota(d.Bands[i]):
			debt.due, debt.sent = due, 0 // what was sent counts in a period that has ended
		}
	}
}

// correction is how a store settles units of band i of the bucket set alone, which are taken, or
// given back where negative.
func (u *usage) correction(bands []store.ExactBand, i int, units int64) (t store.Taken, actual int64) {
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
			t.Due = append(t.Due, u.debts[j].due)
		}
	}
	if units >= 0 {
		return t, min(units, store.MaxCost)
	}
	sent := min(u.debts[i].sent, store.MaxCost) // of several charges
	t.Cost, t.Asked, t.At = sent, sent, u.sentAt
	return t, max(0, sent+units)
}

// bandsNow returns a copy of the bands of a bucket set as they are in the store, or nil if its
// rule has others by now.
func (s *Store) bandsNow(ctx context.Context, u *usage) []store.ExactBand {
	if bands := s.bandsOfTake(ctx, u.key, u.bands, nil); slices.EqualFunc(bands, u.bands, sameNumbers) {
		return bands
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
