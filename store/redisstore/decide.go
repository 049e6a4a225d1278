package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/bucketmath"
)

// part is the demands of a request that are in one shard. Overdrafts are parts of
// their own: they are debited whatever the others say. So is each demand that counts refused
// hits, because it may be debited alone.
type part struct {
	shard     int
	overdraft bool
	counts    bool
	places    []int // of its demands in the request
	op        byte
	request   *shardRequest
	err       error
	final     bool // not to be sent again
}

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
		deadline = last // no request waits for it, and its answer must not be lost
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
	var parts store.Outcome
	if err := s.decideParts(ctx, op, single.demands, &parts, s.split(single.demands, one), deadline); err != nil {
		return err
	}
	single.merge(&parts, out)
	out.Decide(demands)
	return nil
}

// onlyShard is the shard of all demands, if they are in one. Without a cluster
// there is only one.
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

// split sorts demands by shard, or makes each a part of its own.
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

// newRequest copies the demands at these places, or all, and names their keys.
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
		r.keys = append(r.keys, s.names.keyOf(&r.demands[i].Key, r.demands[i].Bands, g))
	}
	return r
}

// decideParts decides a request whose keys are in several slots, which no
// script can access at once. It first peeks at all of them and debits
// overdrafts: most rejected requests are rejected here and have taken no token.
// Then it takes, and gives back if another request took the tokens in between. Of a
// rejected request it debits what counts refused hits and is over.
// Each demand with a Min is granted what is there when it takes.
//
// The first round has half of the time: a part that does not answer uses up its
// time, and must leave enough for the second round.
func (s *Store) decideParts(
	ctx context.Context, op byte, demands []store.Demand, out *store.Outcome, parts []*part, deadline time.Time,
) error {
	first := deadline
	if op != opPeek {
		first = deadline.Add(-time.Until(deadline) / 2)
	}
	for _, p := range parts {
		if p.op = opPeek; p.overdraft {
			p.op = op
		}
	}
	parts, err := s.requestParts(ctx, demands, out, parts, first)
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

// countRefused debits what counts refused hits and is over, for a request that the first
// round rejected. Hits whose call is not answered are not counted. Those whose period has ended
// since are given back.
func (s *Store) countRefused(ctx context.Context, op byte, demands []store.Demand, out *store.Outcome, parts []*part, deadline time.Time) {
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

// requestParts sends all parts that are not final at once and merges the
// answers. A part without an answer is unavailable; it is an error only if all
// are. It returns the parts as they were sent: a part whose keys are on two
// nodes during a migration is sent key by key.
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
	asked := make([]*part, 0, len(parts))
	var failed []error
	for len(parts) > 0 {
		p := parts[0]
		parts = parts[1:]
		if !p.final {
			p.err = s.await(ctx, p.request)
		}
		if errors.Is(p.err, errSplit) {
			for _, place := range p.places {
				single := &part{shard: p.shard, overdraft: p.overdraft, counts: p.counts, op: p.op, places: []int{place}}
				submit(single)
				parts = append(parts, single)
			}
			continue
		}
		asked = append(asked, p)
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
		return asked, err
	}
	if len(failed) == len(asked) {
		return asked, failed[0]
	}
	return asked, nil
}

// withdraw gives back what some parts have taken for a request that is
// rejected. Its caller waits for that, but not beyond the deadline.
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
	given := make(chan struct{})
	if !s.work.Go(func(context.Context) {
		defer close(given)
		s.giveBack(takes)
	}) {
		return // closed
	}
	select {
	case <-given:
	case <-ctx.Done():
	case <-time.After(time.Until(deadline)):
	}
}

// giveBack settles takes at 0, also if their caller has left.
func (s *Store) giveBack(takes store.Takes) {
	ctx, cancel := context.WithTimeout(context.Background(), s.config.Timeout)
	defer cancel()
	if err := store.SettleError(s.Settle(ctx, takes, takes.Same(0))); err != nil {
		if ok, suppressed := s.notGivenBack.Allow(time.Now()); ok {
			s.log.Warn("cannot give back the tokens of a rejected request; they refill over time",
				"error", s.clean(err), "suppressed", suppressed)
		}
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
			corrected[i] = max(corrected[i], t.Cost) // the server has lost the take: nothing is there to give back
		}
	}
	tokens, errs := s.settle(ctx, takes, corrected)
	settled := make([]store.Settlement, len(tokens))
	for i := range tokens {
		settled[i] = bucketmath.Settlement(tokens[i])
		if notSent(errs[i]) {
			settled[i].NotSent, errs[i] = errs[i], nil
		}
	}
	return settled, errors.Join(errs...)
}

// notSent reports whether a call failed before the server has run it.
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
	renewed, errs := s.settle(ctx, takes, takes.Same(renewSlots))
	for _, all := range renewed {
		held = append(held, all != 0)
	}
	return held, errors.Join(errs...)
}

// renewSlots is the actual cost of a settlement that only renews slots.
const renewSlots = -1

// settle corrects takes, and returns the tokens or the error of each.
func (s *Store) settle(ctx context.Context, takes store.Takes, actual []int64) (settled []int64, errs []error) {
	// In a cluster the takes of each bucket are a call of their own, elsewhere all share one.
	deadline := time.Now().Add(s.config.Timeout)
	if last, ok := ctx.Deadline(); ok && takes[0].Source == store.FromFallback {
		deadline = last // no request waits for what the fallback granted, and the answer must not be lost
	}
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
			continue
		}
		settled = append(settled, r.tokens...)
	}
	return settled, errs
}

func (s *Store) addTake(r *shardRequest, t *store.Taken, actual int64) {
	r.takes, r.actual = append(r.takes, *t), append(r.actual, actual)
	r.keys = append(r.keys, s.names.keyOf(&t.Key, t.Bands, s.fleet.generations()))
}

// settleByKey settles a take whose two keys are on two nodes.
func (s *Store) settleByKey(ctx context.Context, r *shardRequest) error {
	t := &r.takes[0]
	var failures []error
	r.tokens = append(r.tokens[:0], 0)
	for i, part := range splitTake(t) {
		single := newShardRequest(opSettle, r.shard, r.deadline)
		s.addTake(single, &part, r.actual[0])
		s.submit(single)
		switch err := s.await(ctx, single); {
		case err != nil:
			failures = append(failures, err)
		case i == 0 || r.actual[0] == renewSlots: // the slots have no tokens
			r.tokens[0] = single.tokens[0]
		}
	}
	if err := errors.Join(failures...); err != nil && (len(failures) == 1 || !notSent(failures[0]) || !notSent(failures[1])) {
		return fmt.Errorf("%w: %v", ErrUnavailable, err) //nolint:errorlint // one of the keys may have been settled
	}
	return errors.Join(failures...)
}
