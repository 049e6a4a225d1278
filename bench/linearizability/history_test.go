package linearizability

import (
	"context"
	crand "crypto/rand"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

const (
	clients    = 8
	operations = 200
)

// history is random operations on a few bucket sets with small limits.
type history struct {
	limits [][]limit
	bands  [][]store.ExactBand
	keys   []store.Key
	atomic atomicity
	// timeless bounds how many operations without a time in their answer run at once: each may
	// have happened before or after all others.
	timeless chan struct{}

	mu       sync.Mutex
	done     []porcupine.Operation
	receipts []receipt // that are not settled
	err      error
}

// atomicity is what a store does at once: a take from several bucket sets, and the settlement
// of such a take.
type atomicity struct{ takes, settlements bool }

// receipt is what a client took, and the sets it is from.
type receipt struct {
	takes store.Takes
	sets  []int
}

// newHistory chooses limits.
func newHistory(r *rand.Rand, atomic atomicity) *history {
	h := &history{atomic: atomic, timeless: make(chan struct{}, 4)}
	for range 1 + r.IntN(2) {
		var limits []limit
		var bands []store.ExactBand
		for j := range 1 + r.IntN(3) {
			l := randomLimit(r)
			for l.kind == rules.Concurrency && slices.ContainsFunc(limits, isConcurrency) {
				l = randomLimit(r) // a rule has at most one such band
			}
			limits, bands = append(limits, l), append(bands, l.exact(j))
		}
		key := store.Key{RuleSet: "linearizability", Rule: "rule"}
		_, _ = crand.Read(key.ID[:]) // never fails
		h.limits, h.bands, h.keys = append(h.limits, limits), append(h.bands, bands), append(h.keys, key)
	}
	return h
}

func randomLimit(r *rand.Rand) limit {
	milliseconds := func(low, high int64) int64 { return 1000 * (low + r.Int64N(high-low)) }
	l := limit{capacity: 1 + r.Int64N(12)}
	switch r.IntN(5) {
	case 0:
		l.kind, l.period = rules.Quota, milliseconds(20, 100)
	case 1:
		l.kind, l.period = rules.SlidingWindow, 16*milliseconds(4, 16)
	case 2:
		l.kind, l.period = rules.Concurrency, milliseconds(100, 150)
	default:
		l.kind, l.period, l.tokens = rules.TokenBucket, milliseconds(2, 100), 1+r.Int64N(10)
		if r.IntN(8) == 0 {
			l.period = time.Hour.Microseconds() // its largest debt is reached
		}
	}
	return l
}

// exact is the limit as a store gets it.
func (b limit) exact(position int) store.ExactBand {
	period := time.Duration(b.period) * time.Microsecond
	band := rules.Band{Kind: b.kind, Capacity: b.capacity, RefillTokens: b.tokens}
	switch b.kind {
	case rules.Quota:
		band.Period = "minute"
	case rules.Concurrency:
		band.Hold = period
	default:
		band.Refill = period
	}
	exact, err := band.Exact(position)
	if err != nil {
		panic(err)
	}
	exact.Period = period // of a quota, whose periods are short here
	return exact
}

// run runs the operations, each client with a store of its own, and returns the history.
func (h *history) run(ctx context.Context, stores []store.Store, seed uint64) ([]porcupine.Operation, error) {
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(client)))
			for range operations / clients {
				if err := h.operation(ctx, stores[client%len(stores)], client, r); err != nil {
					h.mu.Lock()
					h.err = errors.Join(h.err, err)
					h.mu.Unlock()
					return
				}
				if r.IntN(3) == 0 {
					time.Sleep(time.Duration(r.IntN(8)) * time.Millisecond)
				}
			}
		})
	}
	all.Wait()
	return h.done, h.err
}

// operation runs one random operation.
func (h *history) operation(ctx context.Context, buckets store.Store, client int, r *rand.Rand) error {
	in, out := h.input(r), new(output)
	if in.demands == nil {
		h.timeless <- struct{}{}
		defer func() { <-h.timeless }()
	}
	out.called = time.Now().UnixMicro()
	var err error
	switch in.op {
	case "take":
		err = buckets.Take(ctx, in.demands, &out.outcome)
	case "peek":
		err = buckets.Peek(ctx, in.demands, &out.outcome)
	case "settle":
		out.settled, err = buckets.Settle(ctx, in.takes, in.actual)
	case "extend":
		var held []bool
		held, err = buckets.Extend(ctx, in.takes)
		out.held = !slices.Contains(held, false)
	case "reset":
		_, err = buckets.Reset(ctx, store.Reset{Key: h.keys[in.sets[0]]})
	}
	out.returned = time.Now().UnixMicro()
	h.mu.Lock()
	defer h.mu.Unlock()
	op := porcupine.Operation{ClientId: client, Input: in, Call: out.called, Output: out, Return: out.returned}
	if r := out.outcome.Results; len(r) > 0 && out.called <= r[0].Now && r[0].Now <= out.returned {
		op.Call, op.Return = r[0].Now, r[0].Now // when it was decided, which keeps the search short
	}
	h.done = append(h.done, op)
	if in.op == "take" && err == nil {
		h.keep(in, out)
	}
	return err
}

// keep keeps the receipt of a take.
func (h *history) keep(in *input, out *output) {
	taken := receipt{takes: store.NewTakes(in.demands, &out.outcome)}
	if taken.takes == nil {
		return
	}
	for i := range in.demands {
		if out.outcome.Results[i].Granted > 0 {
			taken.sets = append(taken.sets, in.sets[i])
		}
	}
	if h.atomic.settlements {
		h.receipts = append(h.receipts, taken)
		return
	}
	for i := range taken.sets {
		h.receipts = append(h.receipts, receipt{taken.takes[i : i+1], taken.sets[i : i+1]})
	}
}

// input chooses an operation.
func (h *history) input(r *rand.Rand) *input {
	in := &input{op: "take", sets: []int{r.IntN(len(h.keys))}}
	kind := r.IntN(20)
	switch {
	case kind < 4:
		in.op = "peek"
	case kind == 4 && r.IntN(2) == 0:
		in.op = "reset"
		return in
	case kind < 10:
		if h.correction(in, r) {
			return in
		}
	}
	if h.atomic.takes && len(h.keys) > 1 && r.IntN(2) == 0 {
		in.sets = []int{1 - in.sets[0], in.sets[0]}
	}
	var holder store.HolderID
	_, _ = crand.Read(holder[:]) // never fails
	for _, i := range in.sets {
		d := store.Demand{Key: h.keys[i], Bands: slices.Clone(h.bands[i]), Cost: r.Int64N(4), Holder: holder, Shadow: r.IntN(6) == 0}
		for j, b := range h.limits[i] {
			if b.kind == rules.Quota {
				begin := time.Now().UnixMicro() / b.period * b.period
				d.Bands[j].Edges = [3]int64{begin, begin + b.period, begin + 2*b.period}
			}
		}
		switch {
		case r.IntN(12) == 0 && !slices.ContainsFunc(h.limits[i], isConcurrency): // no rule may have both
			d.Overdraft, d.Cost = true, 1+r.Int64N(4)
		case r.IntN(4) == 0 && d.Cost > 0:
			d.Min = 1 + r.Int64N(d.Cost)
		}
		if !d.Overdraft && r.IntN(2) == 0 {
			d.MaxWait = time.Duration(r.IntN(100)) * time.Millisecond
		}
		in.demands = append(in.demands, d)
	}
	return in
}

func isConcurrency(l limit) bool { return l.kind == rules.Concurrency }

// correction settles or extends what some client took.
func (h *history) correction(in *input, r *rand.Rand) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.receipts) == 0 {
		return false
	}
	k := r.IntN(len(h.receipts))
	taken := h.receipts[k]
	in.takes, in.sets = taken.takes, taken.sets
	holds := func(t store.Taken) bool { return !t.HoldsSlot() }
	if r.IntN(3) == 0 && !slices.ContainsFunc(taken.takes, holds) {
		in.op = "extend"
		return true
	}
	in.op = "settle"
	for i := range taken.takes {
		in.actual = append(in.actual, r.Int64N(taken.takes[i].Asked+4))
	}
	h.receipts = slices.Delete(h.receipts, k, k+1)
	return true
}
