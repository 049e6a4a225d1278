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
	leases    []*lease // of each demand, nil where the store decides
	spendings []spending
	demands   []fluxgate.Demand // for the store
	out       fluxgate.Outcome
}

var calls = sync.Pool{New: func() any { return new(call) }}

// Take implements [fluxgate.Store].
func (s *Store) Take(ctx context.Context, demands []fluxgate.Demand, out *fluxgate.Outcome) error {
	now, generation := s.now(), s.refusals.generation.Load()
	if ctx.Err() == nil && s.refuse(now, demands, out) {
		s.counts.refused.Add(1)
		return nil
	}
	if s.leases != nil && ctx.Err() == nil && fluxgate.CheckDemands(demands) == nil {
		c := calls.Get().(*call)
		defer calls.Put(c)
		leased, err := s.plan(ctx, c, now, generation, demands)
		if err != nil {
			c.undo(now, demands, nil)
			return err
		}
		if leased {
			return s.takeLeased(ctx, c, now, generation, demands, out)
		}
	}
	err := s.Store.Take(ctx, demands, out)
	if err == nil {
		s.refusals.note(now, generation, demands, out)
	}
	return err
}

// plan spends what slices have, and reports whether a lease has a part in the request.
func (s *Store) plan(ctx context.Context, c *call, now time.Time, generation uint64, demands []fluxgate.Demand) (leased bool, err error) {
	c.leases, c.spendings, c.demands = c.leases[:0], c.spendings[:0], c.demands[:0]
	current, gateways, asks := s.leases.epoch(now), s.Gateways(), false
	for i := range demands {
		d := &demands[i]
		l, spent := s.leases.of(d, current, generation, gateways, &s.counts), spending{}
		if l != nil {
			spent = l.spend(now, current, d, gateways, false)
			// Twice: the first slices of a bucket are smaller than a crowd. Not after this
			// request has begun to ask itself, for which others may wait.
			for waits := 0; spent.asking != nil && waits < 2 && !asks; waits++ {
				if err := spent.asking.wait(ctx); err != nil {
					return false, err
				}
				spent = l.spend(s.now(), current, d, gateways, true)
			}
			if spent.verdict == byPause && slices.ContainsFunc(demands, isOverdraft) {
				spent.verdict = byStore // which has to debit the overdraft in any case
			}
			leased, asks = leased || spent.verdict != byStore, asks || spent.verdict == andAsk
			if spent.verdict == bySlice && spent.next > 0 {
				s.askAhead(l, spent.next)
			}
		}
		c.leases, c.spendings = append(c.leases, l), append(c.spendings, spent)
	}
	return leased, nil
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
func (s *Store) takeLeased(ctx context.Context, c *call, now time.Time, generation uint64, demands []fluxgate.Demand, out *fluxgate.Outcome) error {
	for i := range demands {
		if c.spendings[i].verdict == byPause && !demands[i].Shadow {
			s.counts.paused.Add(1)
			c.undo(now, demands, nil)
			c.refuse(now, demands, out)
			return nil
		}
	}
	for i := range demands {
		spent := &c.spendings[i]
		if spent.verdict == byStore || spent.verdict == andAsk {
			d := demands[i]
			if spent.verdict == andAsk {
				d.Min, d.Cost = d.Cost, d.Cost+spent.next
			}
			c.demands = append(c.demands, d)
		}
	}
	if len(c.demands) == 0 {
		s.counts.spent.Add(1)
	} else {
		if err := s.Store.Take(ctx, c.demands, &c.out); err != nil {
			c.undo(now, demands, err)
			return err
		}
		s.refusals.note(now, generation, c.demands, &c.out)
	}
	c.merge(now, demands, out)
	return nil
}

// undo gives back what was spent for a request that is not admitted, and ends asking,
// with the error of a call that was sent.
func (c *call) undo(now time.Time, demands []fluxgate.Demand, err error) {
	for i := range c.spendings {
		switch spent := &c.spendings[i]; {
		case spent.verdict == bySlice:
			c.leases[i].giveBack(spent, demands[i].Cost, now)
		case spent.verdict == andAsk && err == nil:
			c.leases[i].notAsked()
		case spent.verdict == andAsk:
			c.leases[i].failed(now, err)
		}
	}
}

// refuse writes the outcome of a request that a pause refuses.
func (c *call) refuse(now time.Time, demands []fluxgate.Demand, out *fluxgate.Outcome) {
	out.Prepare(demands)
	for i := range demands {
		result := &out.Results[i]
		if c.spendings[i].verdict == byPause {
			c.leases[i].write(&c.spendings[i], now, &demands[i], result)
		} else {
			result.Status, result.Source = fluxgate.NotAsked, fluxgate.FromLease
		}
	}
	out.Decide(demands)
}

// merge writes the outcome of a request from the answers of the leases and of the store.
func (c *call) merge(now time.Time, demands []fluxgate.Demand, out *fluxgate.Outcome) {
	out.Prepare(demands)
	refused := len(c.demands) > 0 && c.out.Admission == fluxgate.NotAdmitted
	asked := 0
	for i := range demands {
		d, spent, result := &demands[i], &c.spendings[i], &out.Results[i]
		if spent.verdict == bySlice || spent.verdict == byPause {
			c.leases[i].write(spent, now, d, result)
			if refused && spent.verdict == bySlice {
				c.leases[i].giveBack(spent, d.Cost, now)
			}
			continue
		}
		answer := &c.out.Results[asked]
		asked++
		bands := result.Bands
		copy(bands, answer.Bands)
		if spent.verdict == andAsk {
			if answer.Status == fluxgate.OK && answer.Granted == 0 {
				c.leases[i].notAsked() // another demand refuses
			} else {
				c.leases[i].answered(now, spent.next, d.Cost, answer)
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
	out.Decide(demands)
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
