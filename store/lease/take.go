package lease

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate"
)

// call is a request of which a part is decided from memory.
type call struct {
	demands    []fluxgate.Demand
	now        time.Time // before the store is called
	generation uint64
	epoch      int64
	leases     []*lease // of each demand, nil where the store decides
	spendings  []spending
	asked      []fluxgate.Demand // of the store
	answer     fluxgate.Outcome
}

var calls = sync.Pool{New: func() any { return new(call) }}

// Take implements [fluxgate.Store].
func (s *Store) Take(ctx context.Context, demands []fluxgate.Demand, out *fluxgate.Outcome) error {
	now, generation := s.now(), s.refusals.generation.Load()
	if ctx.Err() == nil && s.refuse(now, demands, out) {
		return nil
	}
	if ctx.Err() != nil || fluxgate.CheckDemands(demands) != nil {
		return s.Store.Take(ctx, demands, out) // which says what is wrong
	}
	c := calls.Get().(*call)
	defer calls.Put(c)
	c.demands, c.now, c.generation = demands, now, generation
	leased, err := s.plan(ctx, c)
	switch {
	case err != nil:
		c.undo(nil)
	case leased:
		err = s.takeLeased(ctx, c, out)
	default:
		if err = s.Store.Take(ctx, demands, out); err == nil {
			s.refusals.note(now, generation, demands, out)
		}
	}
	c.decided(out, err)
	return err
}

// plan spends what slices have, and reports whether a lease has a part in the request.
func (s *Store) plan(ctx context.Context, c *call) (leased bool, err error) {
	c.leases, c.spendings, c.asked = c.leases[:0], c.spendings[:0], c.asked[:0]
	c.epoch = s.leases.epoch(c.now)
	gateways, asks, joint, waits := s.Gateways(), false, len(c.demands) > 1, 0
	for i := range c.demands {
		d := &c.demands[i]
		l, spent := s.leases.of(d, c.epoch, c.generation, gateways, &s.counts), spending{}
		if l != nil {
			spent = l.spend(c.now, c.epoch, d, gateways, false, joint)
			// Twice: the first slices of a bucket are smaller than a crowd. Not after this
			// request has begun to ask itself, for which others may wait.
			for ; spent.asking != nil && waits < 2 && !asks; waits++ {
				if err := spent.asking.wait(ctx); err != nil {
					return false, err
				}
				c.now = s.now()
				spent = l.spend(c.now, c.epoch, d, gateways, true, joint)
			}
			if spent.verdict == byPause && slices.ContainsFunc(c.demands, isOverdraft) {
				spent.verdict = byStore // which has to debit the overdraft in any case
			}
			leased, asks = leased || spent.verdict != byStore, asks || spent.verdict == andAsk
			if spent.verdict == bySlice && spent.next > 0 {
				s.askAhead(l, spent.next)
			}
		}
		c.leases, c.spendings = append(c.leases, l), append(c.spendings, spent)
	}
	c.dropEnded()
	return leased, nil
}

// dropEnded lets the store decide demands that were met from slices which have ended
// while the request waited for others.
func (c *call) dropEnded() {
	for i := range c.spendings {
		if spent := &c.spendings[i]; spent.verdict == bySlice && !c.now.Before(spent.until) {
			c.leases[i].giveBack(spent, c.demands[i].Cost, c.now)
			spent.verdict = byStore
		}
	}
}

// wait waits until the call has ended. It returns the error of a store that did not
// answer: it would not answer this request either.
func (a *asking) wait(ctx context.Context) error {
	select {
	case <-a.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if errors.Is(a.err, context.Canceled) || errors.Is(a.err, context.DeadlineExceeded) {
		return nil // the caller has left, which says nothing of the store
	}
	return a.err
}

func isOverdraft(d fluxgate.Demand) bool { return d.Overdraft }

// takeLeased decides a request of which leases decide a part.
func (s *Store) takeLeased(ctx context.Context, c *call, out *fluxgate.Outcome) error {
	for i := range c.demands {
		if c.spendings[i].verdict == byPause && !c.demands[i].Shadow {
			s.counts.paused.Add(1)
			c.undo(nil)
			c.refuse(out)
			return nil
		}
	}
	for i := range c.demands {
		spent := &c.spendings[i]
		if spent.verdict == byStore || spent.verdict == andAsk {
			d := c.demands[i]
			if spent.verdict == andAsk {
				d.Min, d.Cost = d.Cost, d.Cost+spent.next
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
	for i := range c.spendings {
		switch spent := &c.spendings[i]; {
		case spent.verdict == bySlice:
			c.leases[i].giveBack(spent, c.demands[i].Cost, c.now)
			spent.verdict = byStore
		case spent.verdict == andAsk && err == nil:
			c.leases[i].notAsked()
		case spent.verdict == andAsk:
			c.leases[i].failed(c.now, err)
		}
	}
}

// refuse writes the outcome of a request that a pause refuses.
func (c *call) refuse(out *fluxgate.Outcome) {
	out.Prepare(c.demands)
	for i := range c.demands {
		result := &out.Results[i]
		if c.spendings[i].verdict == byPause {
			c.leases[i].write(&c.spendings[i], c.now, &c.demands[i], result)
		} else {
			result.Status, result.Source = fluxgate.NotAsked, fluxgate.FromLease
		}
	}
	out.Decide(c.demands)
}

// merge writes the outcome of a request from the answers of the leases and of the store.
func (c *call) merge(out *fluxgate.Outcome) {
	out.Prepare(c.demands)
	refused := len(c.asked) > 0 && c.answer.Admission == fluxgate.NotAdmitted
	asked := 0
	for i := range c.demands {
		d, spent, result := &c.demands[i], &c.spendings[i], &out.Results[i]
		if spent.verdict == bySlice || spent.verdict == byPause {
			c.leases[i].write(spent, c.now, d, result)
			if refused && spent.verdict == bySlice {
				c.leases[i].giveBack(spent, d.Cost, c.now)
			}
			continue
		}
		answer := &c.answer.Results[asked]
		asked++
		bands := result.Bands
		copy(bands, answer.Bands)
		if spent.verdict == andAsk {
			if answer.Status == fluxgate.OK && answer.Granted == 0 {
				c.leases[i].notAsked() // another demand refuses
			} else {
				c.leases[i].answered(c.now, spent.next, d.Cost, answer)
			}
			more := max(0, answer.Granted-d.Cost)
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

// decided ends the demands at their leases, and tells those that others refused.
func (c *call) decided(out *fluxgate.Outcome, err error) {
	for i, l := range c.leases {
		if l != nil {
			refused := err == nil && out.Admission == fluxgate.NotAdmitted && out.Results[i].Status != fluxgate.Rejected
			l.decided(&c.spendings[i], c.epoch, c.demands[i].Cost, refused)
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
		var out fluxgate.Outcome
		err := s.Store.Take(ctx, []fluxgate.Demand{{Key: l.key, Bands: l.bands, Cost: tokens, Min: 1}}, &out)
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
