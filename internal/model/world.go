package model

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/model/redissim"
	"github.com/fluxgate/fluxgate/store"
)

// salt is that of the keys of all histories: the same seed has the same keys.
var salt = []byte("model")

// world is a history that runs: the shared store, and what has happened.
type world struct {
	history *History
	begun   time.Time
	// late are calls that run after their gateway has given up.
	late  sync.WaitGroup
	over  atomic.Bool
	names map[store.KeyID]string // of the buckets

	mu      sync.Mutex
	open    func() store.Store // an empty store
	store   store.Store
	frozen  time.Time     // the store's clock while a call runs, or zero
	offset  time.Duration // of the store's clock
	since   int64         // when it was last restarted, by its clock in microseconds
	resets  []reset
	running []change
	// fleetBefore is how many gateways one of them has last known of.
	fleetBefore int
	facts       []Fact
	holders     map[store.HolderID]int
	servers     *redissim.Servers // of Redis, or nil
	// checkOf is the request of a holder, and stops end the stores of Redis.
	checkOf map[store.HolderID]int
	stops   []func()
	checks  int
	calls   []Call // if they are kept
	keeps   bool
}

// Call is a call that ran at the store, and its answer: so that another store can be asked
// the same. One without demands, takes and key is a restart.
type Call struct {
	Clock   int64 // of the store, in microseconds since 1970
	Peek    bool
	Extend  bool
	Demands []store.Demand
	Outcome store.Outcome
	Takes   store.Takes
	Actual  []int64
	Settled []store.Settlement
	Held    bool
	Reset   *store.Key
}

// keep keeps a call. The lock is held.
func (w *world) keep(c Call) {
	if !w.keeps || w.over.Load() {
		return
	}
	c.Clock = w.clock().UnixMicro()
	if c.Demands != nil { // the gateway may use what it was answered again
		answer := c.Outcome
		c.Outcome = store.Outcome{}
		c.Outcome.Prepare(c.Demands)
		c.Outcome.Admission = answer.Admission
		for i := range answer.Results {
			bands := c.Outcome.Results[i].Bands
			copy(bands, answer.Results[i].Bands)
			c.Outcome.Results[i] = answer.Results[i]
			c.Outcome.Results[i].Bands = bands
		}
	}
	w.calls = append(w.calls, c)
}

// reset is a reset of a rule, or of all if it has none.
type reset struct {
	at   time.Duration
	rule string
	by   int
}

// change is from when on so many gateways run.
type change struct {
	at time.Duration
	n  int
}

func (w *world) now() time.Duration { return time.Since(w.begun) }

// clock is the store's clock. It is still while a call runs. The lock is held.
func (w *world) clock() time.Time {
	if !w.frozen.IsZero() {
		return w.frozen
	}
	return time.Now().Add(w.offset)
}

// atStore locks the world for a call that runs at the store. The result unlocks it.
func (w *world) atStore() (end func()) {
	w.mu.Lock()
	w.frozen = w.clock()
	return func() {
		w.frozen = time.Time{}
		w.mu.Unlock()
	}
}

// draw returns a random number that depends on the seed and these numbers alone.
func (w *world) draw(of ...uint64) uint64 {
	x := w.history.Seed
	for _, n := range of {
		x = (x ^ n) + 0x9e3779b97f4a7c15
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x ^= x >> 31
	}
	return x
}

// apart is a short time of its own for what would else happen at the same moment, in an
// order that is random.
func (w *world) apart(of int) time.Duration { return time.Duration(w.draw(uint64(of)) % 1_000) }

// record notes a fact that has ended now.
func (w *world) record(f *Fact) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.recordLocked(f)
}

func (w *world) recordLocked(f *Fact) int {
	if w.over.Load() {
		return -1
	}
	f.At, f.Clock = w.now(), w.clock().UnixMicro()
	w.facts = append(w.facts, *f)
	return len(w.facts) - 1
}

// answered notes that the gateway has the answer of a call.
func (w *world) answered(fact int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if fact >= 0 {
		w.facts[fact].Answered = true
	}
}

// holder is the number of a holder, by their order. The lock is held.
func (w *world) holder(id store.HolderID) int {
	if id == (store.HolderID{}) {
		return 0
	}
	if w.holders[id] == 0 {
		w.holders[id] = len(w.holders) + 1
	}
	return w.holders[id]
}

// runningAt is how many gateways ran at a moment. The lock is held.
func (w *world) runningAt(at time.Duration) (n int) {
	for _, c := range w.running {
		if c.at <= at {
			n = c.n
		}
	}
	return n
}

// ran notes that a gateway has started or ended.
func (w *world) ran(by int, at time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := 0
	if n := len(w.running); n > 0 {
		last = w.running[n-1].n
	}
	w.running = append(w.running, change{at, last + by})
	slices.SortStableFunc(w.running, func(a, b change) int { return int(a.at - b.at) })
}

// generation returns that of a rule as a gateway sees it: the number of the last reset
// that it has seen. The lock is held.
func (l *link) generation(rule string) (g int) {
	for i, r := range l.resets {
		if (r.rule == "" || r.rule == rule) && l.sees(r) {
			g = i + 1
		}
	}
	return g
}

// sees reports whether a gateway has seen a reset, of which it reads when the store
// answers.
func (l *link) sees(r reset) bool {
	at := r.at + l.gateway.SeesResets
	if r.by == l.gateway.incarnation {
		at = r.at
	}
	for {
		until, cut := l.cut(at)
		if !cut {
			return at <= l.now()
		}
		at = until
	}
}

// sawResets records the resets that a gateway has seen since it was last called.
func (l *link) sawResets() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sawResetsLocked()
}

func (l *link) sawResetsLocked() {
	for l.seen < len(l.resets) && l.sees(l.resets[l.seen]) {
		r := l.resets[l.seen]
		l.seen++
		l.recordLocked(&Fact{Kind: ResetSeen, Gateway: l.gateway.number, Rule: r.rule, Began: r.at, Op: -1})
	}
}

// place changes a key to that of its generation.
func place(key *store.Key, generation int) {
	key.ID[15] ^= byte(generation)
	key.ID[14] ^= byte(generation >> 8)
}

// takeAt runs a take at the store, of all demands but those of a rule.
func (w *world) takeAt(l *link, c *check, began time.Duration, without string, demands []store.Demand, out *store.Outcome, kind callKind) (int, error) {
	defer w.atStore()()
	l.sawResetsLocked()
	asked := make([]store.Demand, 0, len(demands))
	for i := range demands {
		if d := demands[i]; without == "" || d.Key.Rule != without {
			place(&d.Key, l.generation(d.Key.Rule))
			asked = append(asked, d)
		}
	}
	answer := out
	if len(asked) < len(demands) {
		answer = new(store.Outcome)
	}
	if len(asked) > 0 {
		if err := w.store.Take(context.Background(), asked, answer); err != nil {
			return -1, err
		}
		w.keep(Call{Demands: asked, Outcome: *answer})
	}
	f := w.fact(StoreTook, l, c, began)
	f.Charge, f.Leased = kind == chargeCall, c == nil && kind != chargeCall
	f.Admitted = answer.Admission != store.NotAdmitted
	k := 0
	f.Buckets = make([]BucketFact, 0, len(asked))
	for i := range demands {
		if without != "" && demands[i].Key.Rule == without {
			continue
		}
		f.Buckets = append(f.Buckets, w.bucket(&demands[i], l.generation(demands[i].Key.Rule), &answer.Results[k]))
		k++
	}
	if len(asked) < len(demands) {
		mergeShards(demands, without, answer, out)
	}
	return w.recordLocked(f), nil
}

// mergeShards adds the demands of a rule that could not be decided.
func mergeShards(demands []store.Demand, without string, answer, out *store.Outcome) {
	out.Prepare(demands)
	k := 0
	for i := range demands {
		if demands[i].Key.Rule == without {
			out.Results[i].Status = store.Unavailable
			continue
		}
		out.Results[i] = answer.Results[k]
		k++
	}
	out.Decide(demands)
}

func (w *world) fact(kind FactKind, l *link, c *check, began time.Duration) *Fact {
	f := &Fact{Kind: kind, Gateway: l.gateway.number, Began: began, Op: -1}
	if c != nil {
		f.Check, f.Op, f.Caller, f.Version = c.id, c.op, c.caller, c.version
	}
	return f
}

func (w *world) bucket(d *store.Demand, generation int, r *store.Result) BucketFact {
	return BucketFact{
		Bucket: w.names[d.Key.ID], Rule: d.Key.Rule, Generation: generation, Exact: d.Bands,
		Shadow: d.Shadow, Overdraft: d.Overdraft, Alternative: d.Alternative, DebitOnly: d.DebitOnly, Status: r.Status, Cost: d.Cost, Min: d.Min, Granted: r.Granted,
		MaxWait: d.MaxWait, Wait: r.Wait, Holder: w.holder(d.Holder), Bands: bandFacts(d.Bands, r.Bands),
	}
}

func bandFacts(exact []store.ExactBand, bands []store.BandResult) []BandFact {
	facts := make([]BandFact, len(bands))
	for i, b := range bands {
		facts[i] = BandFact{exact[i].Capacity, b.Remaining, b.Owed, b.Wait, b.FullAfter}
	}
	return facts
}

// peekAt runs a peek at the store.
func (w *world) peekAt(l *link, c *check, began time.Duration, demands []store.Demand, out *store.Outcome) (int, error) {
	defer w.atStore()()
	l.sawResetsLocked()
	asked := slices.Clone(demands)
	for i := range asked {
		place(&asked[i].Key, l.generation(asked[i].Key.Rule))
	}
	if err := w.store.Peek(context.Background(), asked, out); err != nil {
		return -1, err
	}
	w.keep(Call{Peek: true, Demands: asked, Outcome: *out})
	f := w.fact(StorePeeked, l, c, began)
	for i := range demands {
		f.Buckets = append(f.Buckets, w.bucket(&demands[i], l.generation(demands[i].Key.Rule), &out.Results[i]))
	}
	return w.recordLocked(f), nil
}

// settleAt runs a settlement at the store.
func (w *world) settleAt(l *link, c *check, began time.Duration, takes store.Takes, actual []int64) (facts []int, settled []store.Settlement, err error) {
	defer w.atStore()()
	l.sawResetsLocked()
	settles, charges := w.fact(StoreSettled, l, c, began), w.fact(StoreTook, l, c, began)
	settles.Leased, charges.Charge = c == nil, true
	all := make([]BucketFact, len(takes))
	actual = slices.Clone(actual)
	for i := range takes {
		t := &takes[i]
		if t.At < w.since { // store/redisstore knows that the take is lost
			actual[i] = max(actual[i], t.Cost)
		}
		generation := l.generation(t.Key.Rule)
		all[i] = w.settlement(t, actual[i], generation)
		place(&t.Key, generation)
	}
	if settled, err = w.store.Settle(context.Background(), takes, actual); err != nil {
		return nil, nil, err
	}
	for i, b := range all {
		b.Returned, b.Charged, b.Level, b.Taken = settled[i].Returned, settled[i].Charged, settled[i].Level, takes[i].Bands
		settles.Leased = settles.Leased && !b.Fallback
		if b.Fallback && b.Exact[0].Max == b.Exact[0].Limit && b.Cost == 0 {
			b.Cost, b.Granted, b.Actual, b.Charged = actual[i], settled[i].Charged, 0, 0
			charges.Buckets = append(charges.Buckets, b)
		} else {
			settles.Buckets = append(settles.Buckets, b)
		}
	}
	w.keep(Call{Takes: takes, Actual: actual, Settled: settled})
	for _, f := range []*Fact{charges, settles} {
		if len(f.Buckets) > 0 {
			facts = append(facts, w.recordLocked(f))
		}
	}
	return facts, settled, nil
}

func (w *world) settlement(t *store.Taken, actual int64, generation int) BucketFact {
	bands := slices.DeleteFunc(slices.Clone(t.Bands), func(b store.ExactBand) bool { return b.Unit == 0 })
	beside := slices.DeleteFunc(slices.Clone(t.Bands), func(b store.ExactBand) bool { return b.Unit > 0 })
	return BucketFact{
		Bucket: w.names[t.Key.ID], Rule: t.Key.Rule, Generation: generation, Exact: bands, Beside: beside,
		Cost: t.Cost, Actual: actual, TakenAt: t.At, Holder: w.holder(t.Holder), Fallback: t.Source == store.FromFallback,
	}
}

// extendAt renews slots at the store.
func (w *world) extendAt(l *link, c *check, began time.Duration, takes store.Takes) (int, []bool, error) {
	defer w.atStore()()
	l.sawResetsLocked()
	f := w.fact(StoreExtended, l, c, began)
	for i := range takes {
		t := &takes[i]
		generation := l.generation(t.Key.Rule)
		f.Buckets = append(f.Buckets, w.settlement(t, t.Cost, generation))
		place(&t.Key, generation)
	}
	held, err := w.store.Extend(context.Background(), takes)
	if err != nil {
		return -1, nil, err
	}
	all := !slices.Contains(held, false)
	w.keep(Call{Extend: true, Takes: takes, Held: all})
	f.SlotsHeld = all
	return w.recordLocked(f), held, nil
}

// resetAt runs a reset at the store.
func (w *world) resetAt(l *link, began time.Duration, what store.Key) int {
	defer w.atStore()()
	l.sawResetsLocked()
	f := w.fact(StoreReset, l, nil, began)
	f.Rule = what.Rule
	if what.ID != (store.KeyID{}) {
		generation := l.generation(what.Rule)
		f.Buckets = []BucketFact{{Bucket: w.names[what.ID], Rule: what.Rule, Generation: generation}}
		place(&what, generation)
		fluxgate.Must(w.store.Reset(context.Background(), store.Reset{Key: what}))
		w.keep(Call{Reset: &what})
	} else {
		w.resets = append(w.resets, reset{w.now(), what.Rule, l.gateway.incarnation})
	}
	return w.recordLocked(f)
}
