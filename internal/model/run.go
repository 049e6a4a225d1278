package model

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/model/redissim"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// Run runs a history on virtual time and returns what happened.
func Run(t *testing.T, h *History) (facts []Fact) {
	synctest.Test(t, func(*testing.T) { facts = runInMemory(h, false).facts })
	return facts
}

// Calls runs a history on virtual time and returns the calls that ran at the store.
func Calls(t *testing.T, h *History) (calls []Call) {
	h = h.withoutRedis()
	synctest.Test(t, func(*testing.T) { calls = runInMemory(h, true).calls })
	return calls
}

func runInMemory(h *History, keeps bool) *world {
	time.Sleep(h.Begins)
	w := newWorld(h)
	w.keeps = keeps
	w.open = func() store.Store {
		return fluxgate.Must(memstore.New(memstore.Config{MaxBuckets: 10_000, Salt: salt, Clock: w.clock}))
	}
	run(w)
	time.Sleep(2 * time.Second) // the charges of gateways that were killed
	synctest.Wait()
	return w
}

// RunOver runs a history in real time over another store and returns what happened. The
// store has to use the clock that it is opened with.
func RunOver(h *History, open func(clock func() time.Time) store.Store) []Fact {
	w := newWorld(h.withoutRedis())
	w.open = func() store.Store { return open(w.clock) }
	run(w)
	return w.facts
}

// withoutRedis is a history over one store. Its calls have 100 ms: a gateway further away would try for ever.
func (h *History) withoutRedis() *History {
	own := *h
	own.Redis = Redis{}
	own.Gateways = slices.Clone(h.Gateways)
	for i := range own.Gateways {
		own.Gateways[i].Latency = min(own.Gateways[i].Latency, 20*time.Millisecond)
	}
	return &own
}

func newWorld(h *History) *world {
	return &world{
		history: h, begun: time.Now(), holders: map[store.HolderID]int{}, names: map[store.KeyID]string{}, facts: make([]Fact, 0, 1024),
	}
}

// fleet is the gateways of a world, driven by the operations of its history.
type fleet struct {
	*world
	rules   []*fluxgate.Compiled
	version atomic.Int64

	gateways []atomic.Pointer[gateway] // by number, nil for those that do not run
	starts   int
	mu       sync.Mutex
	turn     int
	underWay sync.WaitGroup
	idle     chan func() // to goroutines without work
}

func run(w *world) {
	h := w.history
	w.store = w.open()
	if h.Redis.Nodes > 0 {
		w.servers, w.checkOf = redissim.New(h.Redis.Nodes, h.Redis.Cluster, redisSalt), map[store.HolderID]int{}
	}
	f := &fleet{world: w, gateways: make([]atomic.Pointer[gateway], len(h.Gateways)), idle: make(chan func())}
	for _, list := range h.Versions {
		list = slices.Clone(list)
		for i := range list {
			if end, ends := endOf(&list[i]); ends {
				list[i].Until = w.begun.Add(end)
			}
		}
		f.rules = append(f.rules, fluxgate.Must(fluxgate.Compile(fluxgate.Must(rules.NewSet(RuleSetID, list...)))))
	}
	f.nameBuckets()
	for i := range h.Gateways {
		if !h.Gateways[i].Waits {
			f.start(i)
		}
	}
	for i := range h.Ops {
		op := &h.Ops[i]
		// No two begin at the same moment: their order would be random.
		f.sleepUntil(op.At + time.Duration(i+1)*17*time.Nanosecond)
		f.begin(op, i)
	}
	f.sleepUntil(h.Ends)
	f.underWay.Wait()
	w.late.Wait()
	w.recordServers()
	f.over.Store(true)
	for _, stop := range w.stops {
		stop()
	}
	close(f.idle)
}

func (f *fleet) sleepUntil(at time.Duration) {
	if d := at - f.now(); d > 0 {
		time.Sleep(d)
	}
}

// nameBuckets names the buckets of all callers under all versions.
func (f *fleet) nameBuckets() {
	callers := map[string]bool{"": true}
	for i := range f.history.Ops {
		callers[f.history.Ops[i].Caller] = true
		for _, caller := range f.history.Ops[i].others() {
			callers[caller] = true
		}
	}
	store := fluxgate.Must(memstore.New(memstore.Config{MaxBuckets: 10, Salt: f.salt()}))
	for _, list := range f.history.Versions {
		var ids []string
		list = slices.Clone(list)
		for i := range list {
			if list[i].Limits() {
				ids = append(ids, list[i].ID)
			}
			list[i].Until = time.Time{} // some have ended before the history begins
		}
		engine := fluxgate.Must(fluxgate.New(store, fluxgate.Static(fluxgate.Must(rules.NewSet(RuleSetID, list...)))))
		for caller := range callers {
			req := requestOf(caller)
			for _, b := range fluxgate.Must(engine.Buckets(context.Background(), &req, ids...)) {
				f.names[b.Key.ID] = bucketName(b.Rule, caller)
			}
		}
	}
}

func (f *fleet) start(number int) {
	var faults []interval
	for _, op := range f.history.Ops {
		if op.Kind == OpFault && (op.Gateway == number || op.Gateway == All) {
			faults = append(faults, interval{op.At, op.At + op.Span, op.Fault, op.Rule})
		}
	}
	f.starts++
	f.gateways[number].Store(f.world.start(number, f.starts, int(f.version.Load()), f.rules, faults))
}

// running is a gateway that runs, or nil.
func (f *fleet) running(number int) *gateway {
	if g := f.gateways[number].Load(); g != nil && !g.dead.Load() {
		return g
	}
	return nil
}

// next is the gateway for the next request.
func (f *fleet) next(number int) *gateway {
	if number != All {
		if g := f.running(number); g != nil && !g.draining.Load() {
			return g
		}
		return nil
	}
	for range f.gateways {
		f.turn++
		if g := f.running(f.turn % len(f.gateways)); g != nil && !g.draining.Load() {
			return g
		}
	}
	return nil
}

// begin begins an operation.
func (f *fleet) begin(op *Op, index int) {
	switch op.Kind {
	case OpCheck:
		f.underWay.Go(func() { f.burst(op, index) })
	case OpPeek:
		f.send(op, index)
	case OpReset:
		f.mu.Lock()
		g := f.next(op.Gateway)
		f.mu.Unlock()
		if g != nil {
			f.underWay.Go(func() { g.reset(op, index) })
		}
	case OpRules:
		f.change(op, index)
	case OpMove:
		f.underWay.Go(func() { f.move(op) })
	case OpFault:
		f.faultRedis(op)
		f.record(&Fact{Kind: FaultBegan, Gateway: op.Gateway, Fault: op.Fault, Rule: op.Rule, Began: f.now(), Op: index})
		f.underWay.Go(func() {
			f.sleepUntil(op.At + op.Span + f.apart(index))
			f.record(&Fact{Kind: FaultEnded, Gateway: op.Gateway, Fault: op.Fault, Rule: op.Rule, Began: op.At, Op: index})
		})
	case OpRestart:
		f.world.mu.Lock()
		f.store = f.open()
		f.since = f.clock().UnixMicro()
		f.keep(Call{})
		f.world.mu.Unlock()
		f.record(&Fact{Kind: StoreEmptied, Gateway: All, Began: f.now(), Op: index})
	case OpStep:
		f.world.mu.Lock()
		f.offset += op.Step
		f.world.mu.Unlock()
		f.record(&Fact{Kind: ClockStepped, Gateway: All, Step: op.Step, Began: f.now(), Op: index})
	default:
		f.manage(op, index)
	}
}

// manage starts, ends or stalls a gateway.
func (f *fleet) manage(op *Op, index int) {
	g := f.running(op.Gateway)
	switch {
	case op.Kind == OpStart && g == nil:
		f.start(op.Gateway)
	case g == nil || op.Kind == OpStart:
	case op.Kind == OpStop:
		f.underWay.Go(func() {
			f.mu.Lock() // no request is just being sent to it
			g.draining.Store(true)
			f.mu.Unlock()
			g.stop()
		})
	case op.Kind == OpKill:
		g.kill()
	case op.Kind == OpStall:
		f.record(&Fact{Kind: Stalled, Gateway: op.Gateway, Began: f.now(), Op: index})
		g.stalled.Store(max(g.stalled.Load(), int64(op.At+op.Span)))
		f.underWay.Go(func() {
			f.sleepUntil(op.At + op.Span + f.apart(index))
			f.record(&Fact{Kind: Resumed, Gateway: op.Gateway, Began: op.At, Op: index})
		})
	}
}

// change writes a version of the rule set. Each gateway sees it at its own time.
func (f *fleet) change(op *Op, index int) {
	f.version.Store(int64(op.Version))
	written := f.now()
	f.record(&Fact{Kind: RulesWritten, Gateway: All, Version: op.Version, Began: written, Op: index})
	for i := range f.gateways {
		g := f.gateways[i].Load()
		if g == nil || g.dead.Load() {
			continue
		}
		f.underWay.Go(func() {
			f.sleepUntil(written + g.SeesRules + time.Duration(g.number+1)*31*time.Nanosecond)
			g.awake()
			if g.dead.Load() || f.version.Load() != int64(op.Version) {
				return // a later one is read instead
			}
			g.apply(op.Version)
			f.record(&Fact{Kind: RulesInEffect, Gateway: g.number, Version: op.Version, Began: written, Op: index})
		})
	}
}

// burst sends the requests of an operation.
func (f *fleet) burst(op *Op, index int) {
	for i := range op.N {
		apart := max(op.Span/time.Duration(op.N), time.Microsecond)
		f.sleepUntil(op.At + time.Duration(index+1)*17*time.Nanosecond + time.Duration(i)*apart)
		f.send(op, index)
	}
}

// send sends one request.
func (f *fleet) send(op *Op, index int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g := f.next(op.Gateway)
	if g == nil {
		return
	}
	f.checks++
	c := &check{id: f.checks, op: index, caller: op.Caller, version: int(g.version.Load())}
	f.underWay.Add(1)
	g.requests.Add(1)
	f.work(func() {
		defer f.underWay.Done()
		defer g.requests.Done()
		g.serve(op, c, f.running)
	})
}

// work runs a function in a goroutine. Those that are done are used again: the stack of
// a new one has to grow first.
func (f *fleet) work(do func()) {
	select {
	case f.idle <- do:
	default:
		go func() {
			for ; do != nil; do = <-f.idle {
				do()
			}
		}()
	}
}

// String is a fact in words, for people.
func (f *Fact) String() string {
	s := fmt.Sprintf("%10v %-16s", f.At.Round(time.Microsecond), f.Kind)
	if f.Gateway != All {
		s += fmt.Sprintf(" gateway %d", f.Gateway)
	}
	if f.Check != 0 {
		s += fmt.Sprintf(" #%d", f.Check)
	}
	if f.Caller != "" {
		s += " caller " + f.Caller
	}
	if f.Rule != "" {
		s += " rule " + f.Rule
	}
	switch f.Kind {
	case Decided, Peeked:
		s += fmt.Sprintf(" v%d cost %d/%d allowed %v (%s, %s)", f.Version, f.Cost, f.Tokens, f.Allowed, f.Reason, f.Source)
		for _, r := range f.Rules {
			s += fmt.Sprintf(" [%s %v %v %d", r.Bucket, r.Status, r.Source, r.Granted)
			for _, b := range r.Bands {
				s += fmt.Sprintf(" %d/%d", b.Remaining-b.Owed, b.Limit)
			}
			s += "]"
		}
	case Settled:
		s += fmt.Sprintf(" at %d/%d: %v", f.Actual, f.ActualTokens, f.Settlements)
	case RulesWritten, RulesInEffect, Started:
		s += fmt.Sprintf(" v%d", f.Version)
	case FaultBegan, FaultEnded:
		s += " " + string(f.Fault)
	case FleetSeen:
		s += fmt.Sprintf(" %d", f.Gateways)
	case ClockStepped:
		s += fmt.Sprintf(" %v", f.Step)
	case ServerCalled:
		s += fmt.Sprintf(" at %v ran %v lost %v answered %v", f.Call.At, f.Call.Ran, f.Call.Lost, f.Call.Answered)
		for _, e := range f.Call.Entries {
			s += fmt.Sprintf(" [%s holder %x settles %v peeks %v %d of %d to %d]", e.Key, e.Holder[:2], e.Settles, e.Peeks, e.Granted, e.Cost, e.Actual)
		}
	}
	for _, b := range f.Buckets {
		s += fmt.Sprintf(" [%s", b.Bucket)
		if b.Generation > 0 {
			s += fmt.Sprintf(" gen %d", b.Generation)
		}
		switch f.Kind {
		case StoreTook, FallbackTook, StorePeeked:
			s += fmt.Sprintf(" %v: %d of %d..%d", b.Status, b.Granted, b.Min, b.Cost)
			for i, band := range b.Bands {
				s += fmt.Sprintf(" %s %d/%d", kindNames[b.Exact[i].Kind], band.Remaining-band.Owed, band.Limit)
			}
		case StoreSettled, FallbackSettled:
			s += fmt.Sprintf(" %d to %d: +%d -%d", b.Cost, b.Actual, b.Returned, b.Charged)
		}
		s += "]"
	}
	if f.Charge {
		s += " charge"
	}
	if f.Leased {
		s += " leased"
	}
	if f.Kind == StoreExtended {
		s += fmt.Sprintf(" held %v", f.SlotsHeld)
	}
	if f.Err != nil {
		s += " error: " + f.Err.Error()
	}
	return s
}

var kindNames = [...]string{"bucket", "quota", "window", "slots"}
