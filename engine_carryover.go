package fluxgate

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxCarried bounds how many buckets are charged after an outage.
	maxCarried = 100_000
	// maxCharges bounds how many charges are in flight.
	maxCharges = 16
	// maxHold is how long a bucket stays in the fallback after the store answers
	// again, and how long a bucket must be idle to be charged without a request.
	maxHold = time.Second
	// chargeEvery is how often buckets are charged, if there are not too many.
	chargeEvery = 50 * time.Millisecond
	// retryCharge is how long a charge that was not sent waits at least. Calls
	// that were not sent within this time are one outage.
	retryCharge = 5 * time.Second
	// maxScanned bounds how many buckets are visited while requests wait.
	maxScanned = 1_000
)

// carryover remembers the buckets that were used in the fallback until the store
// was charged for them.
//
// A bucket is charged what it holds then, less what is left of the level that it
// began with: what refilled meanwhile costs nothing. When the store answers for a
// bucket again, the gateway begins to charge it, but decides it in the fallback
// for as long again as the outage lasted, at most a second. Otherwise the first
// gateway to see the store again could hand out what the others have not charged
// yet. An outage lasts while calls are not sent, or, if all are, from the first to
// the last call that failed for the bucket: a single late reply holds nothing.
type carryover struct {
	count                                 atomic.Int64 // of buckets: requests pay one load for it
	admitted, pending, charged, uncharged atomic.Int64

	mu          sync.Mutex
	buckets     map[KeyID]*localUse
	since, away time.Time // of the last outage: the first and the last call that was not sent
	charging    bool      // a goroutine charges
	// answers and back are whether, since its last round, the store has answered,
	// and has answered for a bucket that was in an outage.
	answers, back bool
}

// localUse is a bucket set that was used in the fallback.
type localUse struct {
	key          Key
	bands, local []ExactBand // in the store and in the fallback
	// at and began are a moment of the fallback's clock and how long from then
	// until each band would have been full without the tokens to be charged.
	at    int64
	began []time.Duration
	// tokens is how many the fallback has granted since then.
	tokens int64

	first, last time.Time // of the takes from the fallback; last is later if a charge must wait
	held        time.Time // it stays in the fallback until then; zero if it does not
	due         time.Time // of the charge that is scheduled or being made; zero if there is none
}

// took notes a take from the fallback. bands are those of the store.
func (c *carryover) took(d *Demand, bands []ExactBand, r *Result) {
	c.admitted.Add(r.Granted)
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.buckets[d.Key.ID]
	if u != nil && !slices.Equal(u.bands, bands) {
		c.uncharged.Add(u.tokens)
		c.drop(u)
		u = nil
	}
	if u == nil {
		if len(c.buckets) >= maxCarried {
			c.uncharged.Add(r.Granted)
			return
		}
		u = &localUse{key: d.Key, bands: bands, first: now, at: r.Now, began: make([]time.Duration, len(d.Bands))}
		for i := range d.Bands {
			// How long these tokens take to come back.
			cost := time.Duration(d.Bands[i].FullAfter(r.Granted*d.Bands[i].Unit, 0)) * time.Microsecond
			u.began[i] = max(0, r.Bands[i].FullAfter-cost)
		}
		if c.buckets == nil {
			c.buckets = make(map[KeyID]*localUse)
		}
		c.buckets[d.Key.ID] = u
		c.count.Add(1)
	}
	if u.local = d.Bands; now.After(u.last) {
		u.last = now
	}
	if u.tokens == 0 && u.due.Sub(now) > chargeEvery {
		u.due = now.Add(chargeEvery)
	}
	u.tokens += r.Granted
	c.pending.Add(r.Granted)
}

func (c *carryover) drop(u *localUse) {
	c.pending.Add(-u.tokens)
	delete(c.buckets, u.key.ID)
	c.count.Add(-1)
}

// heldOf has a bit for each demand whose bucket stays in the fallback.
func (c *carryover) heldOf(demands []Demand) (held uint64) {
	if c.count.Load() == 0 {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range demands {
		if u := c.buckets[demands[i].Key.ID]; u != nil && !u.held.IsZero() {
			held |= 1 << i
		}
	}
	return held
}

// failed notes an error of the store.
func (c *carryover) failed(err error) {
	if !errors.Is(err, ErrNotSent) {
		return
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.away) > retryCharge {
		c.since = now
	}
	c.away = now
}

// answered notes that the store has decided a bucket, and reports whether the
// bucket is still to be charged. start is whether the caller must start charging.
func (c *carryover) answered(id KeyID) (pending, start bool) {
	if c.count.Load() == 0 {
		return false, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.buckets[id]
	if u != nil && c.hold(u, time.Now()) > 0 {
		c.back = true
	}
	start = !c.charging
	c.charging, c.answers = true, true
	return u != nil, start
}

// hold schedules the charge of a bucket, if it is not, and returns how long the
// bucket stays in the fallback.
func (c *carryover) hold(u *localUse, now time.Time) (hold time.Duration) {
	if !u.due.IsZero() {
		return 0
	}
	outage := u.last.Sub(u.first)
	if u.first.Sub(c.away) < chargeEvery { // it began in an outage, or shortly before
		outage = max(outage, now.Sub(c.since))
	}
	if hold = min(maxHold, outage); hold > 0 {
		u.held = now.Add(hold)
	}
	u.due = now.Add(jitter(hold / 2))
	return hold
}

func jitter(most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	return rand.N(most) //nolint:gosec // spreads load, nothing secret
}

// nextDue returns the buckets to charge now, and whether others are scheduled. If
// the store answers it schedules those that are idle, and all after an outage.
func (c *carryover) nextDue() (due []*localUse, later bool) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	answers, back := c.answers, c.back
	c.answers, c.back = false, false
	visited := 0
	for _, u := range c.buckets {
		if back || answers && now.Sub(u.last) >= maxHold {
			c.hold(u, now)
		}
		switch {
		case u.due.IsZero():
		case u.due.After(now):
			later = true
		default:
			due = append(due, u)
		}
		if visited++; visited%maxScanned == 0 {
			c.mu.Unlock()
			runtime.Gosched() // requests take the lock
			c.mu.Lock()
		}
	}
	return due, later
}

// goesOn reports whether another round of charges follows.
func (c *carryover) goesOn(scheduled bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.charging = len(c.buckets) > 0 && (scheduled || c.answers)
	return c.charging
}

// noteLevels sets the fallback to the levels that the store has reported, and
// notes which buckets are to be charged.
func (e *Engine) noteLevels(v *evaluation) {
	if e.fallback == nil {
		return
	}
	for i := range v.demands {
		r, result := v.rules[i], &v.outcome.Results[i]
		if result.Status == Unavailable || r.shadow || e.onFailureOf(r) != FailLocal {
			continue
		}
		pending, start := e.carryover.answered(v.demands[i].Key.ID)
		if start {
			go e.chargeStore()
		}
		if !pending && e.levels != nil {
			e.levels.SetLevel(&v.demands[i], result)
		}
	}
}

// decideInStore calls the store with the demands of an evaluation. Those whose
// buckets stay in the fallback are Unavailable.
func (e *Engine) decideInStore(ctx context.Context, v *evaluation) error {
	held := e.carryover.heldOf(v.demands)
	if held == 0 {
		return v.decideIn(ctx, e.store, v.demands, &v.outcome)
	}
	var others []Demand
	for i := range v.demands {
		if held&(1<<i) == 0 {
			others = append(others, v.demands[i])
		}
	}
	var out Outcome
	if len(others) > 0 {
		if err := v.decideIn(ctx, e.store, others, &out); err != nil {
			return err
		}
	}
	v.outcome.Prepare(v.demands)
	for i := range v.demands {
		if held&(1<<i) != 0 {
			v.outcome.Results[i].Status = Unavailable
			continue
		}
		v.outcome.Results[i], out.Results = out.Results[0], out.Results[1:]
	}
	v.outcome.Decide(v.demands)
	return nil
}

// chargeStore charges the buckets that are due until none are scheduled. It looks
// for them at most a tenth of the time.
func (e *Engine) chargeStore() {
	for scheduled := true; e.carryover.goesOn(scheduled); {
		start := time.Now()
		due, later := e.carryover.nextDue()
		pause := min(maxHold, max(chargeEvery, 10*time.Since(start)))
		var next atomic.Int64
		var charges sync.WaitGroup
		for range min(maxCharges, len(due)) {
			charges.Go(func() {
				for i := next.Add(1); int(i) <= len(due); i = next.Add(1) {
					e.charge(due[i-1])
				}
			})
		}
		charges.Wait()
		scheduled = later || len(due) > 0
		if e.carryover.count.Load() > 0 {
			time.Sleep(pause)
		}
	}
}

// charge charges the store for a bucket. A charge that may have been made is
// not repeated.
func (e *Engine) charge(u *localUse) {
	ctx, cancel := context.WithTimeout(context.Background(), giveBackTimeout)
	defer cancel()
	c := &e.carryover
	c.mu.Lock()
	last := !time.Now().Before(u.held)
	if last {
		u.held = time.Time{} // what the fallback grants from now on is not known to this charge
	}
	before := *u
	c.mu.Unlock()

	level, charged, uncharged, err := e.chargeOf(ctx, &before)
	c.mu.Lock()
	defer c.mu.Unlock()
	u.due = time.Time{}
	if c.buckets[u.key.ID] != u {
		return // its bands have changed
	}
	if errors.Is(err, ErrNotSent) {
		u.held, u.last = time.Time{}, time.Now().Add(retryCharge+jitter(retryCharge))
		return
	}
	c.charged.Add(charged)
	c.uncharged.Add(uncharged)
	if !last {
		u.due = time.Now().Add(chargeEvery)
	}
	if charged+uncharged == 0 && !last {
		return // parts of a token add up until the last charge
	}
	c.pending.Add(-before.tokens)
	if u.tokens -= before.tokens; u.tokens == 0 && !last {
		u.due = u.held
	}
	if level.Bands != nil {
		u.at = level.Now
		for i := range u.began {
			u.began[i] = level.Bands[i].FullAfter
		}
	}
	if last {
		u.first = u.last // what is left was taken during the charge
	}
	if last && u.tokens == 0 {
		c.drop(u)
	}
}

// chargeOf makes a charge. level is what the bucket holds in the fallback.
func (e *Engine) chargeOf(ctx context.Context, u *localUse) (level Result, charged, uncharged int64, err error) {
	var local, out Outcome
	if err := e.fallback.Peek(ctx, []Demand{{Key: u.key, Bands: u.local}}, &local); err != nil {
		return level, 0, u.tokens, err
	}
	level = local.Results[0]
	bands, tokens := u.charge(&level)
	if tokens == 0 {
		return level, 0, 0, nil
	}
	if !e.hasBands(ctx, u) {
		return level, 0, tokens, nil
	}
	// A partial grant is never debt.
	err = e.store.Take(ctx, []Demand{{Key: u.key, Bands: bands, Cost: tokens, Min: 1}}, &out)
	if err != nil {
		e.carryover.failed(err)
		if !errors.Is(err, ErrNotSent) {
			e.storeFailed(ctx, err)
		}
		return level, 0, tokens, err
	}
	charged = out.Results[0].Granted
	return level, charged, tokens - charged, nil
}

// charge returns the tokens to charge, given what the bucket holds in the
// fallback. Bands fill at different rates and so are charged different amounts:
// each has tokens of its own size, of which the demand takes the same number.
func (u *localUse) charge(level *Result) (bands []ExactBand, tokens int64) {
	elapsed := time.Duration(level.Now-u.at) * time.Microsecond
	units := make([]int64, len(u.bands))
	for i := range u.bands {
		used := level.Bands[i].FullAfter - max(0, u.began[i]-max(0, elapsed))
		units[i] = u.local[i].Regained(max(0, used).Microseconds(), u.bands[i].Unit)
		tokens = max(tokens, units[i]/u.bands[i].Unit)
	}
	if tokens == 0 {
		return nil, 0
	}
	bands = slices.Clone(u.bands)
	for i := range bands {
		bands[i] = bands[i].WithUnit(max(1, units[i]/tokens))
	}
	return bands, tokens
}

// hasBands reports whether the rule of a bucket still has the bands that it was
// counted by.
func (e *Engine) hasBands(ctx context.Context, u *localUse) bool {
	set := e.rules.RuleSet(ctx, u.key.RuleSet)
	if set == nil {
		return false
	}
	r, err := set.find(u.key.Rule)
	return err == nil && slices.Equal(r.bands, u.bands)
}
