package failover

import (
	"context"
	"errors"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/store"
)

// Take implements [store.Store]. What the fallback has decided has the source
// [store.FromFallback], and its demand has the bands and the cost of the fallback then. A
// request is not admitted if a demand is Unavailable that is to fail closed, or locally.
func (s *Store) Take(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
	return s.decide(ctx, demands, out, false)
}

// Peek implements [store.Store]. It changes demands as Take does.
func (s *Store) Peek(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
	return s.decide(ctx, demands, out, true)
}

// decide lets the store decide the demands whose buckets are not held by the fallback, and then
// applies the failure modes of those that it could not.
func (s *Store) decide(ctx context.Context, demands []store.Demand, out *store.Outcome, peek bool) error {
	held := s.ledger.held(demands)
	switch err := s.decideInStore(ctx, demands, out, held, peek); {
	case err == nil:
		s.noteLevels(demands, out)
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, store.ErrDemand):
		return err
	default:
		s.failed(ctx, err)
		unavailable(demands, out)
		out.Decide(demands)
	}
	if out.Admission != store.Undecided {
		return nil
	}
	return s.applyFailureModes(ctx, demands, out, held, peek)
}

// decideIn calls a store.
func decideIn(ctx context.Context, buckets store.Store, demands []store.Demand, out *store.Outcome, peek bool) error {
	if peek {
		return buckets.Peek(ctx, demands, out)
	}
	return buckets.Take(ctx, demands, out)
}

// decideInStore calls the store with the demands that are not in held. The others are
// Unavailable.
func (s *Store) decideInStore(ctx context.Context, demands []store.Demand, out *store.Outcome, held uint64, peek bool) error {
	if held == 0 {
		return decideIn(ctx, s.Store, demands, out, peek)
	}
	undecided := false // an alternative: the others cannot reject yet
	for i := range demands {
		undecided = undecided || demands[i].Alternative && held&(1<<i) != 0
	}
	var answer store.Outcome
	if others := split(demands, ^held, undecided); len(others) > 0 {
		if err := decideIn(ctx, s.Store, others, &answer, peek); err != nil {
			return err
		}
	}
	unavailable(demands, out)
	join(out, &answer, ^held)
	out.Decide(demands)
	return nil
}

// split returns the demands that have a bit in which. With shadows, their alternatives reject
// nothing: another alternative is not in this part.
func split(demands []store.Demand, which uint64, shadows bool) []store.Demand {
	part := make([]store.Demand, 0, len(demands))
	for i, d := range demands {
		if which&(1<<i) != 0 {
			d.Shadow = d.Shadow || d.Alternative && shadows
			part = append(part, d)
		}
	}
	return part
}

// join writes the results of a part to their places.
func join(out, answer *store.Outcome, which uint64) {
	rest := answer.Results
	for i := range out.Results {
		if which&(1<<i) != 0 {
			out.Results[i], rest = rest[0], rest[1:]
		}
	}
}

// unavailable writes an outcome in which nothing is decided.
func unavailable(demands []store.Demand, out *store.Outcome) {
	out.Prepare(demands)
	for i := range out.Results {
		out.Results[i].Status = store.Unavailable
	}
}

// noteLevels sets the fallback to the levels that the store has reported. Those of a lease
// are from its last slice: busy buckets have hardly any others.
func (s *Store) noteLevels(demands []store.Demand, out *store.Outcome) {
	for i := range demands {
		d, result := &demands[i], &out.Results[i]
		hasLevel := (result.Source == store.FromStore || result.Source == store.FromLease) &&
			result.Status != store.Unavailable && result.Status != store.NotAsked
		if hasLevel && d.OnFailure.Local() && !d.Shadow && s.fallback != nil && !s.ledger.has(d.Key.ID) {
			s.fallback.SetLevel(d, result)
		}
	}
}

// applyFailureModes decides the demands that the store could not, by their failure modes.
func (s *Store) applyFailureModes(ctx context.Context, demands []store.Demand, out *store.Outcome, held uint64, peek bool) error {
	var local uint64
	closed := false
	for i := range demands {
		d := &demands[i]
		switch {
		case out.Results[i].Status != store.Unavailable || d.Shadow || d.OnFailure == store.FailOpen:
		case d.OnFailure == store.FailClosed || s.fallback == nil:
			closed = true
		default:
			local |= 1 << i
		}
	}
	rejected := false
	if !closed && local != 0 {
		var err error
		if rejected, err = s.takeFromFallback(ctx, demands, out, local, held, peek); err != nil {
			if ctx.Err() == nil {
				s.failed(ctx, err)
			}
			closed = true
		}
	}
	if (closed || rejected) && !peek {
		s.withdraw(ctx, demands, out)
	}
	if out.Decide(demands); !closed {
		return nil
	}
	out.Admission = store.NotAdmitted
	for i := range demands {
		if r := &out.Results[i]; !demands[i].Debited(r.Status) {
			r.Granted = 0
		}
	}
	return ctx.Err()
}

// takeFromFallback decides demands in the fallback, replaces their results, and reports whether it
// rejects the request.
func (s *Store) takeFromFallback(
	ctx context.Context, demands []store.Demand, out *store.Outcome, local, held uint64, peek bool,
) (rejected bool, err error) {
	fits := false // an alternative, in the store: the others cannot reject any more
	for i := range demands {
		fits = fits || demands[i].Alternative && out.Results[i].Status == store.OK
	}
	asked := split(demands, local, fits)
	for k := range asked {
		d := &asked[k]
		if d.Bands = s.local(d.Bands); d.OnFailure == store.FailLocalCut && d.Cost > 0 {
			d.Cost = bucket.Cut(d.Cost, d.Bands)
		}
	}
	var answer store.Outcome
	if err := decideIn(ctx, s.fallback, asked, &answer, peek); err != nil {
		return false, err
	}
	join(out, &answer, local)
	for i := range demands {
		if local&(1<<i) == 0 {
			continue
		}
		d, result := &demands[i], &out.Results[i]
		bands := d.Bands
		d.Bands, d.Cost, asked = asked[0].Bands, asked[0].Cost, asked[1:]
		result.Source = store.FromFallback
		if (result.Granted > 0 || d.Overdraft) && !peek {
			if u := s.ledger.took(d, bands, result, held&(1<<i) != 0); u != nil {
				s.charges.Add(u)
			}
		}
	}
	return answer.Admission == store.NotAdmitted, nil
}

// withdraw gives back what the store has taken for a request that is not admitted. The
// fallback is called last and has taken nothing.
func (s *Store) withdraw(ctx context.Context, demands []store.Demand, out *store.Outcome) {
	takes := store.Withdrawal(demands, out)
	if len(takes) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	settled, err := s.Settle(ctx, takes, takes.Same(0))
	if s.config.Withdrawn != nil {
		s.config.Withdrawn(ctx, store.MergeSettlements(settled), err)
	}
}
