package lease

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate/store"
)

// call is a request that is decided.
type call struct {
	demands    []store.Demand
	now        time.Time // before the store is called
	generation uint64
	epoch      int64
	parts      []part         // one for each demand
	leased     bool           // a lease has a part in it
	paused     bool           // the pause of a lease refuses it
	asked      []store.Demand // of the store
	answer     store.Outcome
}

var calls = sync.Pool{New: func() any { return new(call) }}

// Take implements [store.Store]. A request takes these steps:
//
//   - refuse: a bucket that has refused before refuses it.
//   - plan: each of its demands is met from a slice, refused by the pause of a lease, or
//     left to the store, which may be asked for a slice with it.
//   - takeRest: the store decides what is left to it. If it refuses, what was spent returns.
//   - decided: the leases count what was admitted.
func (s *Store) Take(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
	if ctx.Err() != nil || store.CheckDemands(demands) != nil {
		return s.Store.Take(ctx, demands, out) // which says what is wrong
	}
	now, generation := s.now(), s.refusals.current()
	ended, refused := s.refuse(now, demands, out)
	if refused {
		return nil
	}
	defer restore(ended)
	c := calls.Get().(*call)
	defer calls.Put(c)
	c.demands, c.now, c.generation = demands, now, generation
	err := s.plan(ctx, c)
	switch {
	case err != nil:
		c.undo(nil)
	case c.paused:
		s.counts.paused.Add(1)
		c.undo(nil)
		c.refuse(out)
	case c.leased:
		err = s.takeRest(ctx, c, out)
	default:
		if err = s.Store.Take(ctx, demands, out); err == nil {
			s.refusals.note(now, generation, demands, out)
		}
	}
	c.decided(out, err)
	return err
}

// refuse reports whether a bucket that has refused before refuses the request, and writes
// the outcome. Otherwise it returns the pauses that the request ends, which are none if the
// pause of a lease keeps it from the store.
func (s *Store) refuse(now time.Time, demands []store.Demand, out *store.Outcome) (ended []endedPause, refused bool) {
	var first *refusal // whatever other requests change meanwhile
	at := 0
	for i := range demands {
		d := &demands[i]
		if mayDebitRefused(*d) {
			return nil, false
		}
		if first != nil || d.Shadow {
			continue
		}
		switch known := s.lastRefusal(d, len(demands) > 1, now); {
		case known == nil:
		case known.wait(d, now) > d.MaxWait:
			first, at = known, i
		case known.pause > 0 && d.MaxWait == 0:
			ended = append(ended, endedPause{refusal: known, demand: i})
		}
	}
	if first == nil && len(ended) > 0 && s.leases.pause(demands, ended[0].generation, now) {
		return nil, false // the lease refuses
	}
	for i := 0; i < len(ended) && first == nil; i++ {
		if !ended[i].end(now) { // another request asks
			restore(ended[:i])
			first, at = ended[i].refusal, ended[i].demand
		}
	}
	if first == nil {
		return ended, false
	}
	out.Prepare(demands)
	for i := range demands {
		d, result, known := &demands[i], &out.Results[i], first
		if i != at {
			known = s.lastRefusal(d, len(demands) > 1, now)
		}
		result.Status, result.Source = store.NotAsked, store.FromNegativeCache
		if i == at || known != nil && !d.Shadow && known.wait(d, now) > d.MaxWait {
			known.write(d, now, result)
		}
	}
	out.Decide(demands)
	if out.Results[at].Source == store.FromLease {
		s.counts.paused.Add(1)
	} else {
		s.counts.refused.Add(1)
	}
	return nil, true
}

// lastRefusal returns the remembered refusal of a demand like this one. It is nil if a
// slice has enough, which is spent first: the refused demand waits or costs more.
func (s *Store) lastRefusal(d *store.Demand, joint bool, now time.Time) *refusal {
	known := s.refusals.of(d, now)
	if known != nil {
		if holds, _ := s.leases.decides(d, joint, known.generation, now); holds {
			return nil
		}
	}
	return known
}

// plan spends what slices have, and says what the store has to decide.
func (s *Store) plan(ctx context.Context, c *call) error {
	c.parts, c.asked, c.epoch = c.parts[:0], c.asked[:0], s.leases.epoch(c.now)
	c.leased, c.paused = false, false
	asks, waits := false, 0
	for i := range c.demands {
		d := &c.demands[i]
		l := s.leases.of(d, c.epoch, c.generation)
		c.parts = append(c.parts, part{demand: d, lease: l, joint: len(c.demands) > 1})
		if l == nil {
			continue
		}
		p := &c.parts[i]
		l.spend(p, c.now, c.epoch)
		// Twice: the first slices of a bucket are smaller than a crowd. Not after this
		// request has begun to ask itself, for which others may wait.
		for ; p.waitFor != nil && waits < 2 && !asks; waits++ {
			if err := p.waitFor.wait(ctx); err != nil {
				return err
			}
			c.now = s.now()
			l.spend(p, c.now, c.epoch)
		}
		if p.verdict == refusedByPause && slices.ContainsFunc(c.demands, mayDebitRefused) {
			p.verdict = askStore
		}
		c.leased, asks = c.leased || p.verdict != askStore, asks || p.verdict == askForSlice
		c.paused = c.paused || p.verdict == refusedByPause && !d.Shadow
		if p.verdict == spentSlice && p.next > 0 {
			s.askAhead(l, p.next)
		}
	}
	c.dropEnded()
	return nil
}

// mayDebitRefused reports whether the store may have to debit a demand although the request
// is refused.
func mayDebitRefused(d store.Demand) bool { return d.Overdraft || d.CountsRefused() }

// dropEnded lets the store decide demands that were met from slices which have ended
// while the request waited for others.
func (c *call) dropEnded() {
	for i := range c.parts {
		if p := &c.parts[i]; p.verdict == spentSlice && !c.now.Before(p.until) {
			p.lease.giveBack(p, c.now)
			p.verdict = askStore
		}
	}
}

// takeRest lets the store decide what leases have not decided.
func (s *Store) takeRest(ctx context.Context, c *call, out *store.Outcome) error {
	for i := range c.parts {
		p := &c.parts[i]
		if p.verdict == askStore || p.verdict == askForSlice {
			d := *p.demand
			if p.verdict == askForSlice {
				d.Min, d.Cost = d.Cost, d.Cost+p.next
			}
			c.asked = append(c.asked, d)
		}
	}
	if len(c.asked) == 0 {
		s.counts.spent.Add(1)
	} else {
		if err := s.Store.Take(ctx, c.asked, &c.answer); err != nil {
			c.undo(err)
			return err
		}
		s.refusals.note(c.now, c.generation, c.asked, &c.answer)
	}
	c.merge(out)
	return nil
}

// undo gives back what was spent for a request that is not admitted, and ends asking,
// with the error of a call that was sent.
func (c *call) undo(err error) {
	for i := range c.parts {
		switch p := &c.parts[i]; {
		case p.verdict == spentSlice:
			p.lease.giveBack(p, c.now)
			p.verdict = askStore
		case p.verdict == askForSlice && err == nil:
			p.lease.notAsked()
		case p.verdict == askForSlice:
			p.lease.failed(c.now, err)
		}
	}
}

// refuse writes the outcome of a request that a pause refuses.
func (c *call) refuse(out *store.Outcome) {
	out.Prepare(c.demands)
	for i := range c.parts {
		p, result := &c.parts[i], &out.Results[i]
		if p.verdict == refusedByPause {
			p.lease.write(p, c.now, result)
		} else {
			result.Status, result.Source = store.NotAsked, store.FromLease
		}
	}
	out.Decide(c.demands)
}

// merge writes the outcome of a request from the answers of the leases and of the store.
func (c *call) merge(out *store.Outcome) {
	out.Prepare(c.demands)
	refused := len(c.asked) > 0 && c.answer.Admission == store.NotAdmitted
	asked := 0
	for i := range c.parts {
		p, result := &c.parts[i], &out.Results[i]
		if p.verdict == spentSlice || p.verdict == refusedByPause {
			p.lease.write(p, c.now, result)
			if refused && p.verdict == spentSlice {
				p.lease.giveBack(p, c.now)
			}
			continue
		}
		answer := &c.answer.Results[asked]
		asked++
		bands := result.Bands
		copy(bands, answer.Bands)
		if p.verdict == askForSlice {
			if answer.Status == store.OK && answer.Granted == 0 {
				p.lease.notAsked() // another demand refuses
			} else {
				p.lease.answered(c.now, p.next, p.demand.Cost, answer)
			}
			more := max(0, answer.Granted-p.demand.Cost)
			for j := range bands {
				bands[j].Remaining += more
			}
			answer.Granted -= more
		}
		*result = *answer
		result.Bands = bands
	}
	out.Decide(c.demands)
}

// decided ends the demands at their leases. A store that does not answer says nothing of a
// demand, unless its caller has left.
func (c *call) decided(out *store.Outcome, err error) {
	refused := errors.Is(err, context.Canceled)
	vetoed := refused
	for i := range c.parts {
		if p := &c.parts[i]; p.lease != nil {
			if err == nil {
				result := &out.Results[i]
				refused = result.Granted == 0 && result.Status != store.Unavailable
				vetoed = refused && result.Status != store.Rejected
			}
			p.lease.decided(p, refused, vetoed)
		}
	}
}

// askAhead asks the store for the next slice while the last one is spent.
func (s *Store) askAhead(l *lease, tokens int64) {
	if !s.begin() {
		l.notAsked()
		return
	}
	s.start(func() {
		defer s.asks.Done()
		ctx, cancel := context.WithTimeout(context.Background(), Time)
		defer cancel()
		sent := s.now()
		var out store.Outcome
		err := s.Store.Take(ctx, []store.Demand{{Key: l.key, Bands: l.bands, Cost: tokens, Min: 1}}, &out)
		if err != nil {
			l.failed(sent, err)
			return
		}
		if out.Results[0].Granted > 0 {
			s.refusals.drop(l.key.ID)
		}
		l.answered(sent, tokens, 0, &out.Results[0])
	})
}
