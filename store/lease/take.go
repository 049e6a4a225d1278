package lease

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate/store"
)

// call is the state of one Take.
type call struct {
	demands    []store.Demand
	now        time.Time // read before the store is called
	generation uint64    // of the refusals; a reset begins a new one
	epoch      int64
	parts      []part         // one for each demand
	leased     bool           // at least one verdict is not askStore
	paused     bool           // the request is refused, because a lease pauses
	asked      []store.Demand // the demands that are sent to the store
	answer     store.Outcome  // of the store, one result for each of asked
}

var calls = sync.Pool{New: func() any { return new(call) }}

// Take implements [store.Store]. The package comment explains rejections, slices and pauses. A
// request takes these steps:
//
//   - refuseFromMemory: the request is rejected if the last rejection of one of its buckets
//     still holds.
//   - plan: each demand is met from a slice, rejected because its lease pauses, or left to the
//     store. The store may be asked for a slice in the same call.
//   - takeRest: the store decides the demands that are left to it. If it rejects one, the
//     tokens that were spent from slices are given back.
//   - notifyLeases: each lease counts its demand, to size the next slice.
func (s *Store) Take(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
	if ctx.Err() != nil || store.CheckDemands(demands) != nil {
		return s.Store.Take(ctx, demands, out) // returns the error
	}
	if len(demands) > 0 && demands[0].DebitOnly {
		return s.Store.Take(ctx, demands, out) // memory has nothing to debit
	}
	now, generation := s.now(), s.refusals.current()
	ended, refused := s.refuseFromMemory(now, demands, out)
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
		c.writeRefusal(out)
	case c.leased:
		err = s.takeRest(ctx, c, out)
	default:
		if err = s.Store.Take(ctx, demands, out); err == nil {
			s.refusals.note(now, generation, demands, out)
			if s.journeys.far() { // it may come closer
				s.journeys.note(now, s.now())
			}
		}
	}
	c.notifyLeases(out, err)
	return err
}

// refuseFromMemory refuses a request if the last refusal of one of its buckets still holds. It
// then writes the outcome.
//
// Otherwise this request may be the first one after a pause in which the bucket was not asked.
// Then it ends the pause and asks the store, while others are still refused. refuseFromMemory
// returns such pauses. It returns none if a lease pauses too, since plan then refuses the
// request without a call to the store.
func (s *Store) refuseFromMemory(
	now time.Time, demands []store.Demand, out *store.Outcome,
) (ended []endedPause, refused bool) {
	// The refusal that decides, and the index of its demand. It is read once: concurrent
	// requests may replace it.
	var deciding *refusal
	at := 0
	for i := range demands {
		d := &demands[i]
		if mayDebitRefused(*d) {
			return nil, false
		}
		if deciding != nil || d.Shadow {
			continue
		}
		switch known := s.lastRefusal(d, len(demands) > 1, now); {
		case known == nil:
		case known.wait(d, now) > d.MaxWait:
			deciding, at = known, i
		case known.pause > 0 && d.MaxWait == 0:
			ended = append(ended, endedPause{refusal: known, demand: i})
		}
	}
	if deciding == nil && len(ended) > 0 && s.leases.pause(demands, ended[0].generation, now) {
		return nil, false // plan refuses the request
	}
	for i := 0; i < len(ended) && deciding == nil; i++ {
		if !ended[i].end(now) { // another request has ended the pause, and asks the store
			restore(ended[:i])
			deciding, at = ended[i].refusal, ended[i].demand
		}
	}
	if deciding == nil {
		return ended, false
	}
	out.Prepare(demands)
	for i := range demands {
		d, result, known := &demands[i], &out.Results[i], deciding
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

// lastRefusal returns the remembered refusal of a bucket that applies to this demand, or nil.
// It is also nil if a slice has enough tokens for the demand: slices are spent first.
func (s *Store) lastRefusal(d *store.Demand, joint bool, now time.Time) *refusal {
	known := s.refusals.of(d, now)
	if known != nil {
		if holds, _ := s.leases.decides(d, joint, known.generation, now); holds {
			return nil
		}
	}
	return known
}

// plan gives each demand a verdict. It spends tokens of slices, and waits for slices that other
// requests have asked for.
func (s *Store) plan(ctx context.Context, c *call) error {
	c.parts, c.asked, c.epoch = c.parts[:0], c.asked[:0], s.leases.epoch(c.now)
	c.leased, c.paused = false, false
	asks, waits, far := false, 0, s.journeys.far()
	for i := range c.demands {
		d := &c.demands[i]
		var l *lease
		if !far {
			l = s.leases.of(d, c.now, c.generation)
		}
		c.parts = append(c.parts, part{demand: d, lease: l, joint: len(c.demands) > 1})
		if l == nil {
			continue
		}
		p := &c.parts[i]
		l.spend(p, c.now, c.epoch)
		// Wait at most twice: the first slices of a bucket may be too small for all
		// requests that wait. Do not wait once this request has to ask for a slice
		// itself: it asks after plan, and two requests could wait for each other.
		for ; p.waitFor != nil && waits < 2 && !asks; waits++ {
			if err := p.waitFor.wait(ctx); err != nil {
				return err
			}
			c.now = s.now()
			l.spend(p, c.now, c.epoch)
		}
		// The store has to see a request that it may have to debit although it is refused.
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

// mayDebitRefused reports whether the store may debit a demand of a refused request.
func mayDebitRefused(d store.Demand) bool { return d.Overdraft || d.CountsRefused() }

// dropEnded leaves demands to the store if their slices have ended while the request waited
// for other slices.
func (c *call) dropEnded() {
	for i := range c.parts {
		if p := &c.parts[i]; p.verdict == spentSlice && !c.now.Before(p.until) {
			p.lease.giveBack(p, c.now)
			p.verdict = askStore
		}
	}
}

// takeRest lets the store decide the demands that no lease has decided, and asks for slices in
// the same call.
func (s *Store) takeRest(ctx context.Context, c *call, out *store.Outcome) error {
	for i := range c.parts {
		p := &c.parts[i]
		if p.verdict == askStore || p.verdict == askForSlice {
			d := *p.demand
			if p.verdict == askForSlice {
				d.Min, d.Cost = d.Cost, d.Cost+p.next // the slice may be smaller, or empty
			}
			c.asked = append(c.asked, d)
		}
	}
	if len(c.asked) == 0 {
		s.counts.spent.Add(1)
	} else {
		sent := s.now()
		if err := s.Store.Take(ctx, c.asked, &c.answer); err != nil {
			c.undo(err)
			return err
		}
		s.journeys.note(sent, s.now())
		s.refusals.note(c.now, c.generation, c.asked, &c.answer)
	}
	c.merge(out)
	return nil
}

// undo gives tokens back to the slices that they were spent from, and ends the calls for slices
// that this request has begun. err is the error of the store, nil if it was not called.
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

// writeRefusal writes the outcome of a request that is refused because a lease pauses.
func (c *call) writeRefusal(out *store.Outcome) {
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
				p.lease.notAsked() // another demand was refused, so the store took nothing
			} else {
				p.lease.answered(c.now, p.next, p.demand.Cost, answer)
			}
			// The tokens of the slice are not spent: the caller sees them as remaining.
			ahead := max(0, answer.Granted-p.demand.Cost)
			for j := range bands {
				bands[j].Remaining += ahead
			}
			answer.Granted -= ahead
		}
		*result = *answer
		result.Bands = bands
	}
	out.Decide(c.demands)
}

// notifyLeases tells the leases how their demands were decided. If the store did not answer,
// the demands count as admitted: they still show how busy the bucket is. If the caller has
// left, they count as refused.
func (c *call) notifyLeases(out *store.Outcome, err error) {
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

// askAhead asks the store for the next slice while requests still spend the last one.
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
		s.journeys.note(sent, s.now())
		if out.Results[0].Granted > 0 {
			s.refusals.drop(l.key.ID)
		}
		l.answered(sent, tokens, 0, &out.Results[0])
	})
}
