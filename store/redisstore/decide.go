package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/bucketmath"
)

// part has the demands of a request whose keys are in one shard. Overdrafts are in separate
// parts, because they are debited even if the request is rejected. Each demand that counts
// refused hits is a part of its own, because it may be debited alone.
type part struct {
	shard     int
	overdraft bool
	counts    bool  // its demand counts refused hits
	places    []int // the indices of its demands in the request
	op        byte
	request   *shardRequest
	err       error
	final     bool // not to be sent again
}

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
			r.recycle()
			return nil
		}
		if !errors.Is(err, errSplit) {
			return err
		}
	}
	single := splitKeys(demands)
	parts := s.split(single.demands, one) // with one shard, its keys are on two nodes: see errSplit
	var results store.Outcome
	if err := s.decideParts(ctx, op, single.demands, &results, parts, deadline); err != nil {
		return err
	}
	single.merge(&results, out)
	out.Decide(demands)
	return nil
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

// split groups demands by shard. If each is set, every demand is a part of its own.
func (s *Store) split(demands []store.Demand, each bool) []*part {
	var parts []*part
	for i := range demands {
		shard := s.names.shard(demands[i].Key.ID)
		overdraft, counts := demands[i].Overdraft, demands[i].CountsRefused()
		at := slices.IndexFunc(parts, func(p *part) bool {
			return p.shard == shard && p.overdraft == overdraft && !p.counts && !counts && !each
		})
		if at < 0 {
			at = len(parts)
			parts = append(parts, &part{shard: shard, overdraft: overdraft, counts: counts})
		}
		parts[at].places = append(parts[at].places, i)
	}
	return parts
}

// newRequest returns a request with copies of the demands at the indices places, or of all
// demands if places is nil.
func (s *Store) newRequest(op byte, shard int, demands []store.Demand, places []int, deadline time.Time) *shardRequest {
	r := newShardRequest(op, shard, deadline)
	g := s.fleet.generations()
	if places == nil {
		r.demands = append(r.demands, demands...)
	}
	for _, from := range places {
		r.demands = append(r.demands, demands[from])
	}
	for i := range r.demands {
		r.addKey(&s.names, &r.demands[i].Key, r.demands[i].Bands, g)
	}
	return r
}

// decideParts decides a request whose keys are in several slots of the cluster. One call of
// the script can access one slot only, so there are two rounds:
//
//  1. It peeks at all parts, and debits overdrafts. Most rejected requests are rejected here,
//     before they have taken a token.
//  2. It takes from all parts. If one rejects, because another request took its tokens after
//     the first round, the tokens of the others are given back.
//
// If the first round rejects the request, the demands that count refused hits and are over
// are debited. A demand with a Min is granted the tokens that are there in the second round.
//
// The first round ends after half of the time, so that a part that does not answer leaves
// time for the second round.
func (s *Store) decideParts(
	ctx context.Context, op byte, demands []store.Demand, out *store.Outcome, parts []*part, deadline time.Time,
) error {
	firstDeadline := deadline
	if op != opPeek {
		firstDeadline = deadline.Add(-time.Until(deadline) / 2)
	}
	for _, p := range parts {
		if p.op = opPeek; p.overdraft {
			p.op = op
		}
	}
	parts, err := s.requestParts(ctx, demands, out, parts, firstDeadline)
	if op == opPeek || err != nil {
		return err
	}
	if out.Admission == store.NotAdmitted {
		s.countRefused(ctx, op, demands, out, parts, deadline)
		return ctx.Err()
	}
	for _, p := range parts {
		p.op, p.final = op, p.err != nil || p.overdraft
	}
	parts, err = s.requestParts(ctx, demands, out, parts, deadline)
	if err != nil || out.Admission == store.NotAdmitted {
		s.withdraw(ctx, parts, deadline)
	}
	return err
}

// countRefused debits demands of a request that the first round has rejected: those that count
// refused hits and are over. If a call is not answered, its hits are not counted. If a new
// period has begun since the first round, a demand may fit and take tokens; they are given
// back.
func (s *Store) countRefused(
	ctx context.Context, op byte, demands []store.Demand, out *store.Outcome, parts []*part, deadline time.Time,
) {
	var over []*part
	for _, p := range parts {
		if result := &out.Results[p.places[0]]; p.counts && result.Granted > 0 {
			p.op, result.Granted = op, 0
			over = append(over, p)
		}
	}
	if len(over) == 0 {
		return
	}
	var counted store.Outcome
	over, _ = s.requestParts(ctx, demands, &counted, over, deadline)
	for _, p := range over {
		place := p.places[0]
		result, bands := &counted.Results[place], out.Results[place].Bands
		if demands[place].Debited(result.Status) {
			copy(bands, result.Bands)
			out.Results[place] = *result
			out.Results[place].Bands = bands
		}
	}
	s.withdraw(ctx, over, deadline)
}

// requestParts sends the parts that are not final concurrently, and merges the answers of all
// parts into out. The demands of a part without an answer are Unavailable; requestParts
// returns an error only if no part was answered, or if ctx has ended.
//
// It returns the parts as they were sent: if the keys of a part are on two nodes during a
// migration, the part is replaced by one for each demand.
func (s *Store) requestParts(
	ctx context.Context, demands []store.Demand, out *store.Outcome, parts []*part, deadline time.Time,
) ([]*part, error) {
	submit := func(p *part) {
		p.request = s.newRequest(p.op, p.shard, demands, p.places, deadline)
		s.submit(p.request)
	}
	for _, p := range parts {
		if !p.final {
			submit(p)
		}
	}
	out.Prepare(demands)
	sent := make([]*part, 0, len(parts))
	var failed []error
	for len(parts) > 0 {
		p := parts[0]
		parts = parts[1:]
		if !p.final {
			p.err = s.await(ctx, p.request)
		}
		if errors.Is(p.err, errSplit) {
			for _, place := range p.places {
				single := &part{
					shard: p.shard, overdraft: p.overdraft, counts: p.counts, op: p.op, places: []int{place},
				}
				submit(single)
				parts = append(parts, single)
			}
			continue
		}
		sent = append(sent, p)
		if p.err != nil {
			failed = append(failed, p.err)
			for _, place := range p.places {
				out.Results[place].Status = store.Unavailable
			}
			continue
		}
		p.request.fill(out, p.places)
	}
	out.Decide(demands)
	if err := ctx.Err(); err != nil {
		return sent, err
	}
	if len(failed) == len(sent) {
		return sent, failed[0]
	}
	return sent, nil
}

// withdraw gives back the tokens that parts have taken for a rejected request. It waits until
// that is done, but not beyond the deadline: then the rest is done in the background.
func (s *Store) withdraw(ctx context.Context, parts []*part, deadline time.Time) {
	var takes store.Takes
	for _, p := range parts {
		if p.err == nil {
			takes = append(takes, p.request.withdrawal()...)
		}
	}
	if len(takes) == 0 {
		return
	}
	done := make(chan struct{})
	if !s.work.Go(func(context.Context) {
		defer close(done)
		s.giveBack(takes)
	}) {
		return // the store is closed
	}
	select {
	case <-done:
	case <-ctx.Done():
	case <-time.After(time.Until(deadline)):
	}
}

// giveBack settles takes at a cost of 0. It has a context of its own, since the caller may
// have left.
func (s *Store) giveBack(takes store.Takes) {
	ctx, cancel := context.WithTimeout(context.Background(), s.config.Timeout)
	defer cancel()
	if err := store.SettleError(s.Settle(ctx, takes, takes.Same(0))); err != nil {
		s.notGivenBack.Log(context.Background(), s.log, slog.LevelWarn,
			"cannot give back the tokens of a rejected request; they refill over time", "error", s.clean(err))
	}
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
			err = s.settleByKey(ctx, r)
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

// settleByKey settles a take whose two keys are on two nodes during a migration.
func (s *Store) settleByKey(ctx context.Context, r *shardRequest) error {
	t := &r.takes[0]
	var failures []error
	r.tokens, r.settled = append(r.tokens[:0], 0), make([]*store.Result, 1)
	for i, part := range splitTake(t) {
		single := newShardRequest(opSettle, r.shard, r.deadline)
		s.addTake(single, &part, r.actual[0])
		s.submit(single)
		switch err := s.await(ctx, single); {
		case err != nil:
			failures = append(failures, err)
		case i == 0 || r.actual[0] == renewSlots: // the second key has the slots, and no tokens
			r.tokens[0] = single.tokens[0]
			if r.settled[0] = single.settled[0]; r.settled[0] != nil {
				r.settled[0].Bands = slices.Insert(r.settled[0].Bands, slotBand(t.Bands), store.BandResult{})
			}
		}
	}
	err := errors.Join(failures...)
	if err != nil && (len(failures) == 1 || !notSent(failures[0]) || !notSent(failures[1])) {
		// One of the keys may have been settled, so the error must not be notSent.
		return fmt.Errorf("%w: %v", ErrUnavailable, err) //nolint:errorlint // see above
	}
	return err
}
