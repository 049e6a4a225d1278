package fluxgate_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
	"github.com/fluxgate/fluxgate/store/storetest"
)

// gate is an engine over a store in memory whose clock only moves when a test
// moves it.
type gate struct {
	*fluxgate.Engine
	testing.TB
	clock *storetest.Clock
}

func newGate(t testing.TB, list []rules.Rule, options ...fluxgate.Option) *gate {
	t.Helper()
	clock := storetest.NewClock()
	return &gate{TB: t, clock: clock, Engine: newEngine(t, newStore(t, clock.Now), ruleSet(t, list...), options...)}
}

// newStore returns a store in memory; without a clock it uses the time of its
// synctest bubble.
func newStore(t testing.TB, clock func() time.Time) *memstore.Store {
	t.Helper()
	store, err := memstore.New(memstore.Config{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func ruleSet(t testing.TB, list ...rules.Rule) *rules.Set {
	t.Helper()
	set, err := rules.NewSet("api", list...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// replaceable is one rule set that is replaced while requests are decided.
type replaceable struct {
	set atomic.Pointer[fluxgate.Compiled]
}

func (r *replaceable) RuleSet(context.Context, string) *fluxgate.Compiled { return r.set.Load() }

func (r *replaceable) use(set *rules.Set) { r.set.Store(compile(set)) }

// compile is nil without a rule set.
func compile(set *rules.Set) *fluxgate.Compiled {
	if set == nil {
		return nil
	}
	return fluxgate.Must(fluxgate.Compile(set))
}

func newEngine(t testing.TB, buckets store.Store, set *rules.Set, options ...fluxgate.Option) *fluxgate.Engine {
	t.Helper()
	options = append([]fluxgate.Option{fluxgate.WithRuleSet("api")}, options...)
	engine, err := fluxgate.New(buckets, fluxgate.Static(set), options...)
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// check decides a request and fails the test if there is no decision.
func (g *gate) check(req fluxgate.Request) fluxgate.Decision {
	g.Helper()
	return check(g, g.Engine, req)
}

func check(t testing.TB, engine *fluxgate.Engine, req fluxgate.Request) fluxgate.Decision {
	t.Helper()
	d, err := engine.Check(t.Context(), &req)
	if err != nil {
		t.Fatalf("no decision for %+v: %v", req, err)
	}
	return d
}

// admitted is how many of n equal requests pass.
func (g *gate) admitted(n int, req fluxgate.Request) int {
	g.Helper()
	passed := 0
	for range n {
		if g.check(req).Allowed {
			passed++
		}
	}
	return passed
}

// left is what a request would find in each band, as "rule.band" → tokens.
func (g *gate) left(req fluxgate.Request) map[string]int64 {
	g.Helper()
	return left(g, g.Engine, req)
}

func left(t testing.TB, engine *fluxgate.Engine, req fluxgate.Request) map[string]int64 {
	t.Helper()
	req.Peek, req.Cost = true, 0
	d := check(t, engine, req)
	tokens := map[string]int64{}
	for b := range d.Bands() {
		tokens[b.Rule.ID+"."+b.Band.Name()] = b.Remaining
	}
	return tokens
}

// bands are the bands of a decision in words.
func bands(d *fluxgate.Decision) []string {
	var all []string
	for b := range d.Bands() {
		words := fmt.Sprintf("%s.%s %v %d of %d", b.Rule.ID, b.Band.Name(), b.Status, b.Remaining, b.Limit)
		if b.Shadow() {
			words += " shadow"
		}
		if b.Source != store.FromStore {
			words += " from " + b.Source.String()
		}
		all = append(all, words)
	}
	return all
}

// answer is the part of a decision that most tests compare.
type answer struct {
	allowed bool
	reason  fluxgate.Reason
	rule    string
}

func answerOf(d *fluxgate.Decision) answer { return answer{d.Allowed, d.Reason, d.RuleID} }

var (
	here  = netip.MustParseAddr("192.0.2.1")
	there = netip.MustParseAddr("192.0.2.2")
)

// perHour is a labelled band that a test without a moving clock empties.
func perHour(label string, n int64) rules.Band {
	return rules.Band{Label: label, Capacity: n, Refill: time.Hour}
}

// rule is a rule for everyone with one band of n an hour, labelled "hour".
func rule(id string, priority int, n int64) rules.Rule {
	return rules.Rule{ID: id, Priority: priority, Bands: []rules.Band{perHour("hour", n)}}
}

// alternative is a rule for everyone of n a day, labelled "day", that counts refused hits.
func alternative(id string, n int64) rules.Rule {
	day := rules.Band{Label: "day", Kind: rules.Quota, Capacity: n, Period: "day"}
	return rules.Rule{ID: id, Mode: rules.ModeAlternative, CountRefused: true, Bands: []rules.Band{day}}
}

func rulesOf(s *rules.Set) []rules.Rule { return slices.Collect(s.Rules()) }

// with changes a rule.
func with(r rules.Rule, change func(*rules.Rule)) rules.Rule {
	change(&r)
	return r
}

// faulty is a store with injected faults.
type faulty struct {
	store.Store
	mu sync.Mutex // the engine charges the store in the background
	// fails is the error of Take and Peek, settleFails that of Settle.
	fails, settleFails error
	// away are rules whose demands cannot be decided.
	away map[string]bool
	// answered is called after the store was called.
	answered func()
}

func (f *faulty) setFails(err error)            { f.mu.Lock(); defer f.mu.Unlock(); f.fails = err }
func (f *faulty) setSettleFails(err error)      { f.mu.Lock(); defer f.mu.Unlock(); f.settleFails = err }
func (f *faulty) setAway(rules map[string]bool) { f.mu.Lock(); defer f.mu.Unlock(); f.away = rules }
func (f *faulty) setAnswered(call func())       { f.mu.Lock(); defer f.mu.Unlock(); f.answered = call }

// SetLevel does nothing: as a fallback it begins full.
func (f *faulty) SetLevel(*store.Demand, *store.Result) {}

func (f *faulty) Take(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
	return f.answer(ctx, demands, out, f.Store.Take)
}

func (f *faulty) Peek(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
	return f.answer(ctx, demands, out, f.Store.Peek)
}

func (f *faulty) Settle(ctx context.Context, takes store.Takes, actual []int64) ([]store.Settlement, error) {
	f.mu.Lock()
	fails, settleFails, away := f.fails, f.settleFails, f.away
	f.mu.Unlock()
	switch notSent := errors.Is(fails, store.ErrNotSent) || errors.Is(fails, store.ErrRefused); {
	case settleFails != nil:
		return nil, settleFails
	case notSent:
		return slices.Repeat([]store.Settlement{{NotSent: fails}}, len(takes)), nil
	case fails != nil:
		return nil, fails
	case away[takes[0].Key.Rule]:
		return slices.Repeat([]store.Settlement{{NotSent: store.ErrNotSent}}, len(takes)), nil
	}
	return f.Store.Settle(ctx, takes, actual)
}

// answer marks the demands of rules that are away as Unavailable, as a cluster
// does if a shard is down.
func (f *faulty) answer(
	ctx context.Context, demands []store.Demand, out *store.Outcome,
	buckets func(context.Context, []store.Demand, *store.Outcome) error,
) error {
	f.mu.Lock()
	answered, fails, away := f.answered, f.fails, f.away
	f.mu.Unlock()
	if answered != nil {
		defer answered()
	}
	if fails != nil {
		return fails
	}
	var reached []store.Demand
	undecided := slices.ContainsFunc(demands, func(d store.Demand) bool { return d.Alternative && away[d.Key.Rule] })
	for _, d := range demands {
		if !away[d.Key.Rule] {
			d.Shadow = d.Shadow || d.Alternative && undecided // the others may fit
			reached = append(reached, d)
		}
	}
	var part store.Outcome
	if len(reached) > 0 {
		if err := buckets(ctx, reached, &part); err != nil {
			return err
		}
	}
	out.Prepare(demands)
	for i := range demands {
		if away[demands[i].Key.Rule] {
			out.Results[i].Status = store.Unavailable
			continue
		}
		out.Results[i] = part.Results[0]
		part.Results = part.Results[1:]
	}
	out.Decide(demands)
	return nil
}
