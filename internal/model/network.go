package model

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate/store"
)

// timeout is for how long a gateway waits for an answer of the store.
const timeout = 100 * time.Millisecond

var (
	errLate    = errors.New("no answer in time")
	errNotSent = fmt.Errorf("the breaker is open: %w", store.ErrNotSent)
	errRefused = fmt.Errorf("out of memory: %w", store.ErrRefused)
)

// interval is the time of a fault.
type interval struct {
	from, to time.Duration
	fault    Fault
	rule     string
}

// cuts reports whether no call of its time has an answer.
func (f *interval) cuts() bool {
	return f.fault == LostCalls || f.fault == LostAnswers || f.fault == LateCalls || f.fault == NotSent
}

// link is the shared store as a gateway sees it, over a network with faults. It is used
// for as long as the gateway runs.
type link struct {
	*world
	gateway *gateway
	faults  []interval
	breaker breaker
	known   int // the number of gateways, 0 if it was never read
	seen    int // how many resets it has seen
	shown   clock
	// later are the requests of settlements that the store did not get.
	later map[unsent][]*check
}

// trip is one call and its answer.
type trip struct {
	there, back      time.Duration
	lost, late, dumb bool // the call is lost, runs late, has no answer
	refused          bool
	timeout          time.Duration
	shard            string // a rule that the store cannot decide
}

// callKind is what the breaker has to know of a call.
type callKind uint8

const (
	plainCall callKind = iota
	settleCall
	chargeCall
)

// begin begins a call. The seed makes calls of the same moment differ.
func (l *link) begin(kind callKind, seed uint64) (trip, error) {
	l.gateway.awake()
	now := l.now()
	if l.gateway.dead.Load() || l.over.Load() {
		return trip{}, errNotSent
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.breaker.refuses(l, now, kind) {
		return trip{}, errNotSent
	}
	u := l.draw(uint64(l.gateway.number), uint64(now), seed)
	half := l.gateway.Latency / 2
	t := trip{there: half + time.Duration(u%uint64(half+1)), back: half + time.Duration(u>>32%uint64(half+1))}
	t.timeout = timeout + time.Duration(u>>40%1_000)
	for _, f := range l.faults {
		if now < f.from || now >= f.to {
			continue
		}
		switch f.fault {
		case Slow:
			t.there, t.back = 10*t.there, 10*t.back
		case LostCalls:
			t.lost = true
		case LostAnswers:
			t.dumb = true
		case LateCalls:
			t.late = true
		case Lossy:
			t.lost = t.lost || u>>16&3 == 0
			t.dumb = t.dumb || u>>18&3 == 0
		case Refused:
			t.refused = true
		case ShardAway:
			t.shard = f.rule
		}
	}
	if t.late || t.there >= timeout {
		t.late, t.there = true, timeout+time.Duration(u%uint64(time.Second))
	}
	t.dumb = t.dumb || t.there+t.back >= timeout
	return t, nil
}

// travel runs a call, and returns how the gateway sees it end. run runs at the store.
func (l *link) travel(ctx context.Context, t trip, run func()) error {
	switch {
	case t.lost:
		return l.gaveUp(ctx, t.timeout)
	case t.late:
		l.late.Go(func() {
			time.Sleep(t.there)
			run()
		})
		return l.gaveUp(ctx, t.timeout)
	case t.refused:
		if err := sleep(ctx, t.there+t.back); err != nil {
			return err
		}
		l.note(false)
		return errRefused
	}
	if sent := l.now(); sleep(ctx, t.there) != nil {
		rest := t.there - (l.now() - sent)
		l.late.Go(func() {
			time.Sleep(rest)
			run()
		})
		return ctx.Err()
	}
	run()
	if t.dumb {
		return l.gaveUp(ctx, t.timeout-t.there)
	}
	if err := sleep(ctx, t.back); err != nil {
		return err
	}
	l.gateway.awake()
	l.note(false)
	return nil
}

func (l *link) gaveUp(ctx context.Context, after time.Duration) error {
	if err := sleep(ctx, after); err != nil {
		return err
	}
	l.gateway.awake()
	l.note(true)
	return errLate
}

// sleep waits, or returns why not.
func sleep(ctx context.Context, d time.Duration) error {
	if ctx.Done() == nil {
		time.Sleep(d)
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// cut reports whether a fault keeps every call of a moment from an answer, and until when.
func (l *link) cut(at time.Duration) (until time.Duration, is bool) {
	for _, f := range l.faults {
		if f.cuts() && f.from <= at && at < f.to {
			until, is = max(until, f.to), true
		}
	}
	return until, is
}

// Take implements [store.Store].
func (l *link) Take(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
	if !demands[0].Charging {
		return l.take(ctx, demands, out, plainCall)
	}
	if l.gateway.dead.Load() || l.over.Load() { // so that its engine comes to rest
		out.Prepare(demands)
		return nil
	}
	return l.take(ctx, demands, out, chargeCall)
}

func (l *link) take(ctx context.Context, demands []store.Demand, out *store.Outcome, kind callKind) error {
	t, err := l.begin(kind, seedOf(demands))
	if err != nil {
		return err
	}
	c, result, fact := checkOf(ctx), out, -1
	if t.late || ctx.Done() != nil { // it may run after this call has returned
		demands, result = slices.Clone(demands), new(store.Outcome)
	}
	var failed error
	began := l.now()
	if err := l.travel(ctx, t, func() { fact, failed = l.takeAt(l, c, began, t.shard, demands, result, kind) }); err != nil {
		return err
	}
	l.answered(fact)
	for i := range result.Results {
		if now := result.Results[i].Now; failed == nil && now > 0 {
			l.shown.Report(now)
		}
	}
	if result != out {
		*out = *result
	}
	return failed
}

// Peek implements [store.Store].
func (l *link) Peek(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
	t, err := l.begin(plainCall, seedOf(demands))
	if err != nil {
		return err
	}
	c, result, fact := checkOf(ctx), out, -1
	if t.late || ctx.Done() != nil {
		demands, result = slices.Clone(demands), new(store.Outcome)
	}
	var failed error
	began := l.now()
	if err := l.travel(ctx, t, func() { fact, failed = l.peekAt(l, c, began, demands, result) }); err != nil {
		return err
	}
	l.answered(fact)
	for i := range result.Results {
		if now := result.Results[i].Now; failed == nil && now > 0 {
			l.shown.Report(now)
		}
	}
	if result != out {
		*out = *result
	}
	return failed
}

// Settle implements [store.Store].
func (l *link) Settle(ctx context.Context, takes store.Takes, actual []int64) ([]store.Settlement, error) {
	if l.gateway.dead.Load() || l.over.Load() { // so that its engine comes to rest
		return make([]store.Settlement, len(takes)), nil
	}
	c := l.checkOfTake(ctx, takes, actual)
	notSent := func(why error) ([]store.Settlement, error) {
		l.laterOfCheck(c, takes, actual)
		return slices.Repeat([]store.Settlement{{NotSent: why}}, len(takes)), nil
	}
	t, err := l.begin(settleCall, seedOfTakes(takes))
	if err != nil {
		return notSent(err)
	}
	var settled []store.Settlement
	began := l.now()
	takes = slices.Clone(takes)
	var facts []int
	var failed error
	err = l.travel(ctx, t, func() {
		facts, settled, failed = l.settleAt(l, c, began, takes, actual)
	})
	if errors.Is(err, errRefused) {
		return notSent(err)
	}
	if err != nil {
		return nil, err
	}
	for _, fact := range facts {
		l.answered(fact)
	}
	return settled, failed
}

// unsent names a settlement that the store did not get.
type unsent struct {
	key        store.KeyID
	at         int64
	cost, paid int64
}

func unsentOf(takes store.Takes, actual []int64) unsent {
	t := &takes[0]
	return unsent{t.Key.ID, t.At, t.Cost, actual[0]}
}

// laterOfCheck remembers of which request a settlement is that is sent later.
func (l *link) laterOfCheck(c *check, takes store.Takes, actual []int64) {
	if c == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range takes {
		one := unsentOf(takes[i:i+1], actual[i:])
		l.later[one] = append(l.later[one], c)
	}
}

// checkOfTake is the request that a settlement is of.
func (l *link) checkOfTake(ctx context.Context, takes store.Takes, actual []int64) *check {
	if c := checkOf(ctx); c != nil {
		return c
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	one := unsentOf(takes, actual)
	waiting := l.later[one]
	if len(waiting) == 0 {
		return nil
	}
	l.later[one] = waiting[1:]
	return waiting[0]
}

// Extend implements [store.Store].
func (l *link) Extend(ctx context.Context, takes store.Takes) (held []bool, err error) {
	t, err := l.begin(plainCall, seedOfTakes(takes))
	if err != nil {
		return nil, err
	}
	c, fact, began := checkOf(ctx), -1, l.now()
	takes = slices.Clone(takes)
	var failed error
	err = l.travel(ctx, t, func() {
		fact, held, failed = l.extendAt(l, c, began, takes)
	})
	if err != nil {
		return nil, err
	}
	l.answered(fact)
	return held, failed
}

// Reset implements [store.Store].
func (l *link) Reset(ctx context.Context, what store.Reset) (did bool, err error) {
	t, err := l.begin(plainCall, 5)
	if err != nil {
		return false, err
	}
	fact, began := -1, l.now()
	if err := l.travel(ctx, t, func() { fact = l.resetAt(l, began, what.Key) }); err != nil {
		return false, err
	}
	l.answered(fact)
	l.sawResets()
	return true, nil
}

// Now implements [store.Store].
func (l *link) Now() time.Time { return l.time() }

// FromMemory implements [store.Store].
func (l *link) FromMemory(*store.Demand) string { return "" }

// Resets implements [store.Store].
func (l *link) Resets() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sawResetsLocked()
	return uint64(l.seen)
}

// Gateways implements [store.Store].
func (l *link) Gateways() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	up := now // when the number could last be read
	for {
		if _, cut := l.cut(up); !cut || up < l.gateway.started {
			break
		}
		for _, f := range l.faults {
			if f.cuts() && f.from <= up && up < f.to {
				up = f.from - 1
			}
		}
	}
	if up >= l.gateway.started {
		// Itself it counts at once.
		if n := max(1, l.runningAt(max(up-l.gateway.SeesFleet, l.gateway.started))); n != l.known {
			l.known = n
			l.recordLocked(&Fact{Kind: FleetSeen, Gateway: l.gateway.number, Gateways: n, Began: now, Op: -1})
		}
	}
	if l.known == 0 && l.fleetBefore > 0 { // servers keep the number on disk
		l.known = l.fleetBefore
		l.recordLocked(&Fact{Kind: FleetSeen, Gateway: l.gateway.number, Gateways: l.known, Began: now, Op: -1})
	}
	if l.known > 0 {
		l.fleetBefore = l.known
	}
	return max(1, l.known)
}

// Salt implements [store.Store].
func (l *link) Salt() []byte { return salt }

// Close implements [store.Store].
func (l *link) Close() error { return nil }

// seedOf tells calls of the same moment apart.
func seedOf(demands []store.Demand) (seed uint64) {
	for i := range demands {
		seed = seed*31 + uint64(demands[i].Key.ID[0])<<8 + uint64(demands[i].Key.ID[1]) + uint64(demands[i].Cost)<<16
	}
	return seed
}

func seedOfTakes(takes store.Takes) (seed uint64) {
	for i := range takes {
		seed = seed*31 + uint64(takes[i].Key.ID[0])<<8 + uint64(takes[i].Cost)<<16
	}
	return seed + 7
}
