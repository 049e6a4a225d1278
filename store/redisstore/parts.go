package redisstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate/internal/unsent"
	"github.com/fluxgate/fluxgate/store"
)

// part has the demands of a request whose keys are in one shard. Overdrafts are in separate
// parts, because they are debited even if the request is rejected. Each demand that counts
// refused hits is a part of its own, because it may be debited alone.
type part struct {
	shard     int
	overdraft bool
	counts    bool  // its demand counts refused hits
	places    []int // the indices of its demands in the request
	bands     []int // of half of its only demand: their positions, otherwise nil
	op        byte
	request   *shardRequest
	err       error
	final     bool // not to be sent again
}

// split groups demands by shard.
func (s *Store) split(demands []store.Demand) []*part {
	var parts []*part
	for i := range demands {
		shard := s.names.shard(demands[i].Key.ID)
		overdraft, counts := demands[i].Overdraft, demands[i].CountsRefused()
		at := slices.IndexFunc(parts, func(p *part) bool {
			return p.shard == shard && p.overdraft == overdraft && !p.counts && !counts
		})
		if at < 0 {
			at = len(parts)
			parts = append(parts, &part{shard: shard, overdraft: overdraft, counts: counts})
		}
		parts[at].places = append(parts[at].places, i)
	}
	return parts
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
		p.op, p.final = op, p.err != nil || p.overdraft || p.refused(out)
	}
	parts, err = s.requestParts(ctx, demands, out, parts, deadline)
	rejected := err != nil || out.Admission == store.NotAdmitted
	s.withdraw(ctx, deadline, slices.DeleteFunc(parts, func(p *part) bool { return !rejected && !p.refused(out) }))
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
	s.withdraw(ctx, deadline, over)
}

// requestParts sends the parts that are not final concurrently, and merges the answers of all
// parts into out. The demands of a part without an answer are Unavailable; requestParts
// returns an error only if no part was answered, or if ctx has ended.
//
// It returns the parts as they were sent: if the keys of a part are on two nodes during a
// migration, the part is replaced by one for each key.
func (s *Store) requestParts(
	ctx context.Context, demands []store.Demand, out *store.Outcome, parts []*part, deadline time.Time,
) ([]*part, error) {
	submit := func(p *part) {
		p.request = s.newRequest(p.op, p.shard, demands, p, deadline)
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
			single := byKey(demands, []*part{p})
			for _, half := range single {
				submit(half)
			}
			parts = append(parts, single...)
			continue
		}
		sent = append(sent, p)
		if p.err != nil {
			failed = append(failed, p.err)
			for _, place := range p.places {
				// An overdraft takes no slot: without an answer about them it has its tokens.
				if !p.overdraft || p.bands == nil || p.bands[0] != slotBand(demands[place].Bands) {
					out.Results[place].Status = store.Unavailable
				}
			}
			continue
		}
		p.fill(out)
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

// refused reports whether the part is half of a demand that does not fit. What the half has taken
// is given back also if the request is admitted, under a shadow rule or without an answer of
// the other half: the demand grants nothing that could be settled.
func (p *part) refused(out *store.Outcome) bool {
	return p.bands != nil && out.Results[p.places[0]].Status != store.OK
}

// withdraw gives back what parts have taken. It waits until that is done, but not beyond the
// deadline: then the rest is done in the background.
func (s *Store) withdraw(ctx context.Context, deadline time.Time, parts []*part) {
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
		s.unsent.Lose(unsent.ErrClosed)
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	case <-time.After(time.Until(deadline)):
	}
}

// giveBack settles takes at a cost of 0, later if they cannot be sent now. It has a context of
// its own, since the caller may have left.
func (s *Store) giveBack(takes store.Takes) {
	ctx, cancel := context.WithTimeout(context.Background(), s.config.Timeout)
	defer cancel()
	actual := takes.Same(0)
	settled, err := s.Settle(ctx, takes, actual)
	_ = s.unsent.AddUnsent(takes, actual, settled) // what is lost is counted and logged
	if err != nil {
		s.unsent.Lose(err)
	}
}
