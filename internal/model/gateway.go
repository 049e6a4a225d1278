package model

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/middleware"
	"github.com/fluxgate/fluxgate/internal/model/redissim"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/lease"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// gateway is a gateway that runs: from its start until it is stopped or killed.
type gateway struct {
	Gateway
	*world
	number      int
	incarnation int // a number of its own for each start
	started     time.Duration
	engine      *fluxgate.Engine
	leases      *lease.Store // nil without
	link        *link
	network     *redissim.Link // to the servers of Redis, or nil
	died        chan struct{}  // closed when it was killed
	dead        atomic.Bool    // killed or stopped
	draining    atomic.Bool    // takes no more requests
	requests    sync.WaitGroup
	stalled     atomic.Int64 // until then
	rules       []*fluxgate.Compiled
	version     atomic.Int64
	overrides   *fluxgate.Overrides
}

// start starts a gateway. Its rules are those of a version.
func (w *world) start(number, incarnation, version int, rules []*fluxgate.Compiled, faults []interval) *gateway {
	g := &gateway{
		Gateway: w.history.Gateways[number], world: w, number: number, incarnation: incarnation, started: w.now(),
		died: make(chan struct{}), rules: rules,
	}
	g.link = &link{world: w, gateway: g, faults: faults, shown: clock{ahead: g.Ahead}, later: map[unsent][]*check{}}
	var buckets store.Store = prompt{g.link}
	if w.servers != nil {
		buckets = g.redisStore()
	}
	shared := buckets
	if g.Leases {
		// The call for a slice begins a little later, so that histories repeat.
		g.leases = lease.New(shared, lease.Config{Go: func(call func()) { time.AfterFunc(501*time.Nanosecond, call) }})
		buckets = g.leases
	}
	local := &fallback{fluxgate.Must(memstore.New(memstore.Config{MaxBuckets: 10_000, Salt: shared.Salt(), Clock: g.ownClock})), g}
	g.overrides = fluxgate.NewOverrides(shared, 0)
	g.apply(version)
	options := []fluxgate.Option{fluxgate.WithRuleSet(RuleSetID), fluxgate.WithFallback(local), fluxgate.WithOverrides(g.overrides)}
	if g.MaxWait > 0 {
		options = append(options, fluxgate.WithWaiting(g.MaxWait, 100))
	}
	g.engine = fluxgate.Must(fluxgate.New(buckets, g, options...))
	w.ran(+1, w.now())
	w.record(&Fact{Kind: Started, Gateway: number, Version: version, Began: w.now(), Op: -1})
	shared.Gateways()
	return g
}

// ownClock is the clock of its machine.
func (g *gateway) ownClock() time.Time { return time.Now().Add(g.Ahead) }

// RuleSet implements [fluxgate.RuleSets].
func (g *gateway) RuleSet(ctx context.Context, _ string) *fluxgate.Compiled {
	// What a rejected request gives back is settled before its decision, perhaps by later rules.
	if c := checkOf(ctx); c != nil && !c.ruled {
		c.version, c.ruled = int(g.version.Load()), true
	}
	return g.rules[g.version.Load()]
}

// awake waits until the gateway is not stalled.
func (g *gateway) awake() {
	for d := g.stall(); d > 0; d = g.stall() {
		// Not all at the same moment: their order would be random.
		time.Sleep(d + time.Duration(g.draw(uint64(g.now()))%uint64(time.Millisecond)))
	}
}

func (g *gateway) stall() time.Duration { return time.Duration(g.stalled.Load()) - g.now() }

// kill ends the gateway at once.
func (g *gateway) kill() {
	g.dead.Store(true)
	g.draining.Store(true)
	close(g.died)
	if g.network != nil {
		g.network.End()
	}
	g.ran(-1, g.now()+countedFor)
	g.record(&Fact{Kind: Killed, Gateway: g.number, Began: g.now(), Op: -1})
}

// countedFor is for how long a gateway that has ended is still counted.
const countedFor = 4 * time.Second

// stop lets the gateway, which takes no more requests, end its requests, and gives back what it has.
func (g *gateway) stop() {
	began := g.now()
	g.requests.Wait()
	if g.dead.Load() { // it was killed meanwhile
		return
	}
	if g.leases != nil {
		_ = g.leases.Close()
	}
	if g.dead.Load() {
		return
	}
	g.dead.Store(true)
	g.ran(-1, g.now()+countedFor)
	g.record(&Fact{Kind: Stopped, Gateway: g.number, Began: began, Op: -1})
}

// check is a request.
type check struct {
	id, op, version int
	caller          string
	ruled           bool // its version is known
}

type checkKey struct{}

// checkOf is the request of a context, or nil.
func checkOf(ctx context.Context) *check {
	c, _ := ctx.Value(checkKey{}).(*check)
	return c
}

// requestOf is the request of a caller.
func requestOf(caller string) fluxgate.Request {
	r := fluxgate.Request{Path: "/", UserID: caller}
	if caller != "" {
		r.IP, r.APIKey = addressOf(caller), apiKeyOf(caller)
	}
	return r
}

// serve decides a request, and lets it be under way.
func (g *gateway) serve(op *Op, c *check, settling func(int) *gateway) {
	g.awake()
	if g.dead.Load() {
		return
	}
	ctx := context.WithValue(context.Background(), checkKey{}, c)
	if op.Leaves > 0 {
		leaving, cancel := context.WithCancel(ctx)
		defer time.AfterFunc(op.Leaves, cancel).Stop()
		defer cancel()
		if ctx = leaving; op.Leaves == Gone {
			cancel()
		}
	}
	req := requestOf(c.caller)
	if op.Path != "" {
		req.Path = op.Path
	}
	req.Cost, req.Peek = op.Cost, op.Kind == OpPeek
	if !req.Peek || op.Tokens > 0 {
		req.Costs = map[string]int64{rules.MeasureTokens: op.Tokens}
	}
	began := g.now()
	d, err := g.decide(ctx, op, &req)
	g.awake()
	if g.dead.Load() {
		return
	}
	g.decision(op, c, began, &d, err)
	if err != nil || !d.Allowed || req.Peek {
		return
	}
	g.underWay(op, c, &d, settling)
}

// underWay is the time from the decision of a request to its end.
func (g *gateway) underWay(op *Op, c *check, d *fluxgate.Decision, settling func(int) *gateway) {
	ctx, began := context.WithValue(context.Background(), checkKey{}, c), g.now()
	release := func() {}
	if op.Renew {
		gate := middleware.Gate[struct{}]{Limiter: &limiter{g.engine, g, c, op}, Log: func(struct{}, error) {}}
		release = gate.Hold(ctx, struct{}{}, d, op.Actual)
	}
	timer := time.NewTimer(op.Lasts + g.apart(c.id))
	defer timer.Stop()
	select {
	case <-timer.C:
		g.awake()
	case <-g.died:
	}
	g.record(&Fact{Kind: Ended, Gateway: g.number, Check: c.id, Op: c.op, Caller: c.caller, Version: c.version, Began: began})
	if g.dead.Load() {
		release() // its link does nothing any more
		return
	}
	by := g
	if op.SettleAt != All {
		if other := settling(op.SettleAt); other != nil {
			by = other
		}
	}
	settles := &limiter{by.engine, by, c, op}
	if op.Actual != Never && d.Receipt() != nil && (!op.Renew || op.ActualTokens != op.Tokens) {
		if op.Gone {
			settles.settleGone(ctx, d.Receipt())
		} else {
			_ = settles.settle(ctx, d.Receipt(), false)
		}
		if op.Again {
			_ = settles.settle(ctx, d.Receipt(), true)
		}
	}
	release()
}

// limiter is an engine whose settlements and renewals are recorded.
type limiter struct {
	*fluxgate.Engine
	gateway *gateway
	check   *check
	op      *Op
}

func (l *limiter) fact(kind FactKind, began time.Duration, err error) *Fact {
	return &Fact{Kind: kind, Gateway: l.gateway.number, Check: l.check.id, Op: l.check.op, Caller: l.check.caller, Version: l.check.version, Began: began, Err: err}
}

// settle settles a receipt at what the operation says.
func (l *limiter) settle(ctx context.Context, receipt *fluxgate.Receipt, again bool) (err error) {
	began := l.gateway.now()
	var settled map[string]store.Settlement
	if l.op.Actual == 0 && l.op.ActualTokens == 0 { // it is withdrawn
		var one store.Settlement
		one, err = l.Engine.Settle(ctx, receipt, 0)
		settled = map[string]store.Settlement{rules.MeasureRequests: one}
	} else {
		settled, err = l.SettleUsage(ctx, receipt, &fluxgate.Usage{Costs: map[string]int64{
			rules.MeasureTokens: l.op.ActualTokens, rules.MeasureRequests: l.op.Actual,
		}})
	}
	l.settled(began, l.op.Actual, l.op.ActualTokens, settled, again, err)
	return err
}

func (l *limiter) settled(began time.Duration, actual, tokens int64, settled map[string]store.Settlement, again bool, err error) {
	l.gateway.awake()
	if l.gateway.dead.Load() {
		return
	}
	f := l.fact(Settled, began, err)
	f.Actual, f.ActualTokens, f.Settlements, f.Again = actual, tokens, settled, again
	l.gateway.record(f)
}

// Settle implements [fluxgate.Limiter].
func (l *limiter) Settle(ctx context.Context, receipt *fluxgate.Receipt, actual int64) (store.Settlement, error) {
	if l.gateway.dead.Load() {
		return store.Settlement{}, errNotSent
	}
	began := l.gateway.now()
	one, err := l.Engine.Settle(ctx, receipt, actual)
	l.settled(began, actual, l.op.Tokens, map[string]store.Settlement{rules.MeasureRequests: one}, false, err)
	return one, err
}

// Extend implements [fluxgate.Limiter].
func (l *limiter) Extend(ctx context.Context, receipt *fluxgate.Receipt) error {
	l.gateway.awake()
	if l.gateway.dead.Load() {
		return errNotSent
	}
	began := l.gateway.now()
	err := l.Engine.Extend(ctx, receipt)
	if !l.gateway.dead.Load() {
		l.gateway.record(l.fact(Extended, began, err))
	}
	return err
}

// decision records a decision.
func (g *gateway) decision(op *Op, c *check, began time.Duration, d *fluxgate.Decision, err error) {
	f := &Fact{
		Kind: Decided, Gateway: g.number, Check: c.id, Op: c.op, Caller: c.caller, Version: c.version, Began: began, Err: err,
		Allowed: d.Allowed, Degraded: d.Degraded, Reason: d.Reason, Source: d.Source, Held: d.Wait, RetryAfter: d.RetryAfter,
		Cost: op.Cost, Tokens: op.Tokens,
	}
	switch {
	case op.Kind == OpPeek:
		f.Kind = Peeked
	case op.Cost == 0: // a cost of 0 means 1
		f.Cost = 1
	}
	if n := int64(op.With + 1); f.Cost < 1<<40 { // in a bucket that they share
		if op.Denied {
			n++
		}
		f.Cost, f.Tokens = f.Cost*n, f.Tokens*n
	}
	f.Rules = g.ruleFacts(d)
	g.record(f)
}

// bucketName names a bucket set.
func bucketName(r *rules.Rule, caller string) string {
	if r.Scope == rules.ScopeGlobal || r.Scope == "" {
		return r.ID + "@" + string(rules.ScopeGlobal)
	}
	return r.ID + "@" + string(r.Scope) + "=" + caller
}

// reset resets buckets at the gateway.
func (g *gateway) reset(op *Op, index int) {
	g.awake()
	if g.dead.Load() {
		return
	}
	what := store.Key{RuleSet: RuleSetID, Rule: op.Rule}
	if op.Caller != "" {
		rule, ok := g.rules[g.version.Load()].Rule(op.Rule)
		if !ok {
			return
		}
		for id, name := range g.names {
			if name == bucketName(&rule, op.Caller) {
				what.ID = id
			}
		}
	}
	began := g.now()
	f := Fact{Kind: ResetAsked, Gateway: g.number, Op: index, Caller: op.Caller, Rule: op.Rule, Began: began, Version: int(g.version.Load())}
	g.record(&f)
	f.Kind, f.Err = ResetDone, g.engine.Reset(context.Background(), what)
	g.awake()
	if !g.dead.Load() {
		g.record(&f)
	}
}

// fallback is the fallback of a gateway, and records what it does.
type fallback struct {
	*memstore.Store
	gateway *gateway
}

func (s *fallback) record(f *Fact) {
	if s.gateway.dead.Load() {
		return
	}
	s.gateway.mu.Lock()
	defer s.gateway.mu.Unlock()
	if i := s.gateway.recordLocked(f); i >= 0 {
		s.gateway.facts[i].Clock = s.gateway.ownClock().UnixMicro()
	}
}

// Take implements [store.Store].
func (s *fallback) Take(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
	err := s.Store.Take(ctx, demands, out)
	if err != nil {
		return err
	}
	f := s.gateway.fact(FallbackTook, s.gateway.link, checkOf(ctx), s.gateway.now())
	f.Admitted = out.Admission != store.NotAdmitted
	s.gateway.mu.Lock()
	for i := range demands {
		f.Buckets = append(f.Buckets, s.gateway.bucket(&demands[i], 0, &out.Results[i]))
	}
	s.gateway.mu.Unlock()
	s.record(f)
	return nil
}

// Settle implements [store.Store].
func (s *fallback) Settle(ctx context.Context, takes store.Takes, actual []int64) ([]store.Settlement, error) {
	settled, err := s.Store.Settle(ctx, takes, actual)
	if err != nil {
		return settled, err
	}
	f := s.gateway.fact(FallbackSettled, s.gateway.link, checkOf(ctx), s.gateway.now())
	s.gateway.mu.Lock()
	for i := range takes {
		b := s.gateway.settlement(&takes[i], actual[i], 0)
		b.Returned, b.Charged = settled[i].Returned, settled[i].Charged
		f.Buckets = append(f.Buckets, b)
	}
	s.gateway.mu.Unlock()
	s.record(f)
	return settled, nil
}

// Reset implements [store.Store].
func (s *fallback) Reset(ctx context.Context, what store.Reset) (did bool, err error) {
	f := s.gateway.fact(FallbackReset, s.gateway.link, nil, s.gateway.now())
	f.Rule = what.Rule
	if what.ID != (store.KeyID{}) {
		f.Buckets = []BucketFact{{Bucket: s.gateway.names[what.ID], Rule: what.Rule}}
	}
	did, err = s.Store.Reset(ctx, what)
	s.record(f)
	return did, err
}
