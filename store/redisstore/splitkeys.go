package redisstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/fluxgate/fluxgate/store"
)

// A bucket set whose bands include one that limits concurrency has two keys: its value, and
// the holders of its slots. While their slot of the cluster moves, a call may name one key
// only. Then a demand is decided as two halves, and fits only if both do. A half that was
// taken is given back if the other was not, whatever the request is otherwise: see withdraw.

// byKey returns parts with one key each: the halves of their demands.
func byKey(demands []store.Demand, parts []*part) (single []*part) {
	for _, p := range parts {
		for _, place := range p.places {
			for _, bands := range splitBands(demands[place].Bands) {
				single = append(single, &part{
					shard: p.shard, overdraft: p.overdraft, counts: p.counts, op: p.op, places: []int{place}, bands: bands,
				})
			}
		}
	}
	return single
}

// fill writes the answer to a part into an outcome. Of a demand with halves it adds one.
func (p *part) fill(out *store.Outcome) {
	if p.bands == nil {
		p.request.fill(out, p.places)
		return
	}
	var answer store.Outcome
	answer.Prepare(p.request.demands)
	p.request.fill(&answer, nil)
	half, result := &answer.Results[0], &out.Results[p.places[0]]
	for i, band := range p.bands {
		result.Bands[band] = half.Bands[i]
	}
	if result.Now == 0 { // it is the first half that was answered
		result.Now, result.Granted = half.Now, half.Granted
	}
	result.Wait, result.Granted = max(result.Wait, half.Wait), min(result.Granted, half.Granted)
	// Of two that do not fit, the value's status says more.
	if result.Status == store.OK || half.Status == store.Unavailable {
		result.Status = half.Status
	}
	if result.Status == store.TooCostly { // no wait helps
		result.Wait = 0
		for i := range result.Bands {
			result.Bands[i].Wait = 0
		}
	}
}

// settleByKey settles one take of a request whose keys are on two nodes.
//
// The slots are first: to release or renew them twice changes nothing. So if the value was
// not settled, all of the take can be sent again. The second half is sent although the caller
// has left meanwhile.
func (s *Store) settleByKey(ctx context.Context, r *shardRequest, take int) (tokens int64, level *store.Result, failed error) {
	t, actual := &r.takes[take], r.actual[take]
	halves, detached := splitTake(t), context.WithoutCancel(ctx)
	for i, half := range slices.Backward(halves) {
		if actual == renewSlots && i < len(halves)-1 {
			break // the value has no slots
		}
		single := newShardRequest(opSettle, r.shard, r.deadline)
		s.addTake(single, &half, actual)
		s.submit(single)
		waiting := detached
		if i == len(halves)-1 { // the first
			waiting = ctx
		}
		err := s.await(waiting, single)
		switch {
		case notSent(err):
			return 0, nil, err
		case err != nil:
			failed = err
		default:
			tokens, level = single.tokens[0], single.settled[0]
		}
	}
	if failed != nil {
		// The other half may have been settled, so the error must not be notSent.
		return 0, nil, fmt.Errorf("%w: %v", ErrUnavailable, failed) //nolint:errorlint // see above
	}
	if level != nil && len(halves) > 1 {
		level.Bands = slices.Insert(level.Bands, slotBand(t.Bands), store.BandResult{})
	}
	return tokens, level, nil
}

// splitTake is a take by its keys: first the value, then the slots.
func splitTake(t *store.Taken) []store.Taken {
	var parts []store.Taken
	for _, bands := range splitBands(t.Bands) {
		part := *t
		if bands != nil {
			part.Bands = pick(t.Bands, bands)
		}
		if bands != nil && t.Due != nil {
			part.Due = pick(t.Due, bands)
		}
		parts = append(parts, part)
	}
	return parts
}

// splitBands returns the positions of the bands of each key, or nil for all bands if there is
// one key.
func splitBands(bands []store.ExactBand) [][]int {
	slot := slotBand(bands)
	if slot < 0 || len(bands) == 1 {
		return [][]int{nil}
	}
	all := make([]int, len(bands))
	for i := range all {
		all[i] = i
	}
	return [][]int{slices.Delete(all, slot, slot+1), {slot}}
}

func pick[T any](all []T, places []int) []T {
	picked := make([]T, len(places))
	for i, place := range places {
		picked[i] = all[place]
	}
	return picked
}
