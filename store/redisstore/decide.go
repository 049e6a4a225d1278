package redisstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/bucketmath"
)

// decide sends a request with one call if all keys are in one shard, otherwise in parts.
func (s *Store) decide(ctx context.Context, op byte, demands []store.Demand, out *store.Outcome) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := store.CheckDemands(demands); err != nil {
		return err
	}
	out.Prepare(demands)
	if len(demands) == 0 {
		out.Decide(demands)
		return nil
	}
	deadline := time.Now().Add(s.config.Timeout)
	if last, ok := ctx.Deadline(); ok && op == opCharge {
		deadline = last // no request waits for a charge, and its answer must not be lost
	}
	shard, one := s.onlyShard(demands)
	if one {
		r := s.newRequest(op, shard, demands, nil, deadline)
		s.submit(r)
		err := s.await(ctx, r)
		if err == nil {
			r.fill(out, nil)
			out.Decide(demands)
			s.requests.put(r)
			return nil
		}
		if !errors.Is(err, errSplit) {
			return err
		}
	}
	parts := s.split(demands)
	if one { // its keys are on two nodes: see errSplit
		parts = byKey(demands, parts)
	}
	return s.decideParts(ctx, op, demands, out, parts, deadline)
}

// onlyShard returns the shard of all demands, or false if they are in several. Without a
// cluster there is only one shard.
func (s *Store) onlyShard(demands []store.Demand) (int, bool) {
	if !s.nodes.cluster {
		return 0, true
	}
	shard := s.names.shard(demands[0].Key.ID)
	for i := range demands[1:] {
		if s.names.shard(demands[i+1].Key.ID) != shard {
			return 0, false
		}
	}
	return shard, true
}

// newRequest returns a request with copies of the demands, or of those of a part.
func (s *Store) newRequest(op byte, shard int, demands []store.Demand, p *part, deadline time.Time) *shardRequest {
	r := s.requests.get(op, shard, deadline)
	g := s.fleet.generations()
	if p == nil {
		r.demands = append(r.demands, demands...)
	} else {
		for _, from := range p.places {
			r.demands = append(r.demands, demands[from])
		}
		if p.bands != nil {
			r.demands[0].Bands = pick(r.demands[0].Bands, p.bands)
		}
	}
	for i := range r.demands {
		r.addKey(&s.names, &r.demands[i].Key, r.demands[i].Bands, g)
	}
	return r
}

// Settle implements [store.Store].
func (s *Store) Settle(ctx context.Context, takes store.Takes, actual []int64) ([]store.Settlement, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := store.CheckTakes(takes, actual); err != nil {
		return nil, err
	}
	corrected := make([]int64, len(actual))
	for i, cost := range actual {
		t := &takes[i]
		corrected[i] = t.Correction(cost)
		if t.At < s.fleet.since.Load() && s.config.clock == nil {
			// Redis has lost its data since this take: there is nothing to give back.
			corrected[i] = max(corrected[i], t.Cost)
		}
	}
	tokens, levels, errs := s.settle(ctx, takes, corrected)
	settled := make([]store.Settlement, len(tokens))
	for i := range tokens {
		settled[i] = bucketmath.Settlement(tokens[i])
		settled[i].Level = levels[i]
		if notSent(errs[i]) {
			settled[i].NotSent, errs[i] = errs[i], nil
		}
	}
	return settled, errors.Join(errs...)
}

// notSent reports whether a call failed before Redis ran it.
func notSent(err error) bool {
	return errors.Is(err, store.ErrNotSent) || errors.Is(err, store.ErrRefused)
}

// Extend implements [store.Store].
func (s *Store) Extend(ctx context.Context, takes store.Takes) (held []bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := store.CheckTakes(takes, takes.Same(0)); err != nil {
		return nil, err
	}
	renewed, _, errs := s.settle(ctx, takes, takes.Same(renewSlots))
	for _, allSlots := range renewed {
		held = append(held, allSlots != 0)
	}
	return held, errors.Join(errs...)
}

// renewSlots is passed to settle instead of an actual cost, to only renew the slots of a take.
const renewSlots = -1

// settle corrects takes to their actual costs. It returns for each take the tokens that were
// given back, negative if they were charged, and the levels then, or an error.
func (s *Store) settle(
	ctx context.Context, takes store.Takes, actual []int64,
) (settled []int64, levels []*store.Result, errs []error) {
	deadline := time.Now().Add(s.config.Timeout)
	if last, ok := ctx.Deadline(); ok && takes[0].Source == store.FromFallback {
		deadline = last // no request waits for this settlement, and its answer must not be lost
	}
	// In a cluster, each bucket has a request of its own. Otherwise one request has all takes.
	var requests []*shardRequest
	for i, cost := range actual {
		t := &takes[i]
		if i == 0 || s.nodes.cluster && t.Key.ID != takes[i-1].Key.ID {
			shard := 0
			if s.nodes.cluster {
				shard = s.names.shard(t.Key.ID)
			}
			requests = append(requests, newShardRequest(opSettle, shard, deadline))
		}
		s.addTake(requests[len(requests)-1], t, cost)
	}
	for _, r := range requests {
		s.submit(r)
	}
	for _, r := range requests {
		err := s.await(ctx, r)
		if errors.Is(err, errSplit) {
			for i := range r.takes {
				tokens, level, err := s.settleByKey(ctx, r, i)
				settled, levels, errs = append(settled, tokens), append(levels, level), append(errs, err)
			}
			continue
		}
		errs = append(errs, slices.Repeat([]error{err}, len(r.takes))...)
		if err != nil {
			settled = append(settled, make([]int64, len(r.takes))...)
			levels = append(levels, make([]*store.Result, len(r.takes))...)
			continue
		}
		settled, levels = append(settled, r.tokens...), append(levels, r.settled...)
	}
	return settled, levels, errs
}

func (s *Store) addTake(r *shardRequest, t *store.Taken, actual int64) {
	r.takes, r.actual = append(r.takes, *t), append(r.actual, actual)
	r.addKey(&s.names, &t.Key, t.Bands, s.fleet.generations())
}
