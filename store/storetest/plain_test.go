package storetest_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/bucketmath"
	"github.com/fluxgate/fluxgate/store/storetest"
)

// plain is the simplest correct store: a map under a lock. It can be made with
// one fault.
type plain struct {
	store.Unshared
	mu          sync.Mutex
	states      map[store.KeyID]bucket.State
	holds       map[store.KeyID]time.Duration // the period of the first band at the last write
	generations map[[2]string]byte
	marks       map[string]int64
	warned      []store.Warning
	pending     []store.Warning
	clock       *storetest.Clock
	fault       string
}

func openPlain(fault string) storetest.Backend {
	if _, ok := leaseFaults[fault]; ok {
		return openLeasing(fault)
	}
	clock := storetest.NewClock()
	buckets := &plain{states: map[store.KeyID]bucket.State{}, holds: map[store.KeyID]time.Duration{}, generations: map[[2]string]byte{}, marks: map[string]int64{}, clock: clock, fault: fault}
	if slices.Contains(memoryFaults, fault) {
		return storetest.Backend{Advance: clock.Advance, Store: &forgetful{Store: buckets, clock: clock, fault: fault, known: map[store.KeyID]refused{}}}
	}
	return storetest.Backend{Advance: clock.Advance, Store: buckets, Warnings: buckets}
}

func (p *plain) is(fault string) bool { return p.fault == fault }

func (p *plain) Now() time.Time {
	if p.is("begins with the machine's clock") {
		return time.Now()
	}
	return p.clock.Now()
}

func (p *plain) place(k store.Key) store.KeyID {
	id := k.ID
	id[7] ^= p.generations[[2]string{k.RuleSet, k.Rule}] ^ p.generations[[2]string{k.RuleSet, ""}]<<4
	if p.is("lets spellings collide") {
		id[15] |= 0x20
	}
	return id
}

// current returns a copy of the state of a key. One that is full is forgotten.
func (p *plain) current(k store.Key, now int64) bucket.State {
	state := p.states[p.place(k)]
	if now-state.At >= state.FullAfter() && !p.is("never takes slots back") && !p.is("makes debt of a lowered quota") {
		return bucket.State{}
	}
	state.Slots = slices.Clone(state.Slots)
	return state
}

func (p *plain) view(k store.Key, bands []store.ExactBand, now int64) *bucket.View {
	state := p.current(k, now)
	idle := now - state.At
	switch {
	case p.is("forgets after a day") && idle > (24*time.Hour).Microseconds(),
		p.is("forgets after a period") && len(state.Slots) > 0 && idle > bands[0].Period.Microseconds()*4/5:
		state = bucket.State{}
	case p.is("makes tokens when the clock steps back") && idle < 0:
		state.At = now + idle
	}
	seen := bands
	if p.is("matches bands by position alone") {
		seen = append([]store.ExactBand(nil), bands...)
		for i := range seen {
			if i < len(state.Slots) {
				seen[i].ID = state.Slots[i].ID
			}
		}
	}
	if p.is("keeps the debt of another rate") {
		seen = append([]store.ExactBand(nil), bands...)
		for i := range seen {
			seen[i].Max = bucket.MaxUnits
		}
	}
	for i, slot := range state.Slots {
		if p.is("waits for the former numbers") && i < len(bands) && (slot.Kind != bands[i].Kind || slot.Rate != bands[i].Rate) {
			state.At = now
		}
		if slot.Steps == nil || i >= len(seen) {
			continue
		}
		steps := *slot.Steps
		switch {
		case p.is("ends quotas by the gateway's calendar"):
			steps.End = min(steps.End, seen[i].Edges[1])
		case p.is("has months of 30 days") && seen[i].Period > 24*31*time.Hour && slot.Kind == bucket.Quota:
			steps.End = min(steps.End, state.At+(30*24*time.Hour).Microseconds())
		case p.is("carries counts in proportion"):
			state.Slots[i].Shared = true
		case p.is("makes debt of a lowered quota"):
			state.Slots[i].Limit = min(slot.Limit, seen[i].Limit)
		case p.is("drops holders when the hold changes") && p.holds[p.place(k)] != seen[i].Period:
			steps.Holders = nil
		case p.is("ends quotas a second early"):
			steps.End -= 1_000_000
		case p.is("forgives the debt of a quota") && steps.End <= now:
			state.Slots[i].Used = 0
		case p.is("forgets half of a window"):
			clear(steps.Counts[len(steps.Counts)/2:])
		case p.is("keeps a window for too long") && steps.Length > 0:
			steps.Newest = now / steps.Length
		case p.is("moves a window with the clock") && steps.Length > 0:
			steps.Newest = min(steps.Newest, now/steps.Length-16)
		}
		state.Slots = slices.Clone(state.Slots)
		state.Slots[i].Steps = &steps
	}
	v := new(bucket.View)
	at := now
	if state.At > 0 && len(bands) > 0 && bands[0].Kind == bucket.Concurrency {
		switch {
		case p.is("never takes slots back"):
			at = state.At
		case p.is("waits for a clock that stepped back"):
			at = max(now, state.At)
		}
	}
	state.View(seen, at, v)
	for i := range bands {
		changed := i < len(state.Slots) && state.Slots[i].Limit != bands[i].Limit
		switch {
		case p.is("refills on rule change") && changed:
			v.Levels[i] = 0
		case p.is("drifts when versions alternate") && changed:
			v.Levels[i] = roundUp(v.Levels[i], bands[i].Unit)
		case p.is("rounds a rule change for the caller"):
			v.Levels[i] -= v.Levels[i] % bands[i].Unit
		case p.is("hands out one too many"):
			v.Levels[i] = max(0, v.Levels[i]-bands[i].Unit)
		case p.is("forgives debt"):
			v.Levels[i] = min(v.Levels[i], bands[i].Limit)
		}
	}
	return v
}

func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }

func (p *plain) write(k store.Key, bands []store.ExactBand, v *bucket.View) {
	if p.is("loses fractions") {
		for i := range bands {
			v.Levels[i] = roundUp(v.Levels[i], bands[i].Unit)
		}
	}
	state := p.current(k, v.Now)
	state.Slots = slices.DeleteFunc(state.Slots, func(slot bucket.Slot) bool {
		known := slices.ContainsFunc(bands, func(b store.ExactBand) bool { return b.ID == slot.ID })
		return p.is("forgets bands that are not asked for") && !known || p.is("forgets other versions of a band") && known
	})
	state.Store(bands, v)
	p.states[p.place(k)] = state
	if len(bands) > 0 {
		p.holds[p.place(k)] = bands[0].Period
	}
}

func (p *plain) Take(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
	return p.decide(ctx, demands, out, true)
}

func (p *plain) Peek(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
	return p.decide(ctx, demands, out, p.is("takes on a peek"))
}

func (p *plain) decide(_ context.Context, demands []store.Demand, out *store.Outcome, take bool) error {
	if err := store.CheckDemands(demands); err != nil && !p.is("takes broken demands") {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now().UnixMicro()
	out.Prepare(demands)
	vetoed := false
	views := make([]*bucket.View, len(demands))
	for i := range demands {
		d, result := &demands[i], &out.Results[i]
		if id := p.place(d.Key); take && !p.is("stops when the clock steps back") && !p.is("waits for a clock that stepped back") && !p.is("makes tokens when the clock steps back") {
			if state := p.states[id]; state.Adopt(now) {
				p.states[id] = state
			}
		}
		bands := d.Bands
		if p.is("keeps hits beyond a period") && d.CountsRefused() {
			bands = slices.Clone(bands)
			bands[0].CountsRefused = false
		}
		views[i] = p.view(d.Key, bands, now)
		views[i].Holder = d.Holder
		if p.is("counts slots of refused requests") && take && d.Cost > 0 && len(d.Bands) > 0 && d.Bands[0].Kind == bucket.Concurrency {
			early := *views[i]
			early.Steps = slices.Clone(early.Steps)
			early.Take(d.Bands, 1)
			p.write(d.Key, d.Bands, &early)
		}
		result.Now = now
		p.evaluate(d, views[i], result)
		if (d.Shadow && p.is("lets shadow rules veto") || d.Alternative && p.is("rejects if one alternative is over")) && result.Status != store.OK {
			vetoed = true
		}
	}
	out.Decide(demands)
	if vetoed {
		out.Admission = store.NotAdmitted
	}
	if p.is("reads and writes apart") {
		p.mu.Unlock()
		runtime.Gosched()
		p.mu.Lock()
	}
	for i := range demands {
		p.commit(&demands[i], views[i], &out.Results[i], out.Admitted(), take)
	}
	return nil
}

// cost is what a demand is decided for.
func (p *plain) cost(d *store.Demand, v *bucket.View) int64 {
	switch {
	case d.Min == 0 || p.is("grants nothing in part"):
		return d.Cost
	case p.is("binds charges to slots") && d.Bands[len(d.Bands)-1].Kind == bucket.Concurrency:
		return d.Min
	case p.is("grants what one band has"):
		return v.Grant(d.Bands[:1], d.Min, d.Cost)
	case p.is("grants the least only"):
		return d.Min
	case p.is("grants what is there, however little"):
		return v.Grant(d.Bands, 0, d.Cost)
	}
	return v.Grant(d.Bands, d.Min, d.Cost)
}

func (p *plain) evaluate(d *store.Demand, v *bucket.View, result *store.Result) {
	if d.CountsRefused() && !p.is("counts no refused hits") {
		bucketmath.Evaluate(d, v, result)
		return
	}
	if d.Overdraft && !p.is("takes overdrafts for takes") {
		overdrawn := *v
		overdrawn.Steps = slices.Clone(v.Steps)
		result.Granted, _ = overdrawn.Overdraw(d.Bands, d.Cost)
		for i := range d.Bands {
			if wait := v.PositiveAfter(d.Bands, i); wait > 0 && !p.is("admits overdrafts of empty buckets") {
				result.Bands[i].Wait = time.Duration(wait) * time.Microsecond
				result.Wait = max(result.Wait, result.Bands[i].Wait)
				result.Status = store.Rejected
			}
		}
		return
	}
	cost := p.cost(d, v)
	if !bucket.Affordable(d.Bands, cost) || p.is("takes a slot for each token") && d.Bands[0].Kind == bucket.Concurrency && cost > d.Bands[0].Capacity {
		if !p.is("waits for what can never come") {
			result.Status = store.TooCostly
			return
		}
		cost = d.Bands[len(d.Bands)-1].Capacity
	}
	for i := range d.Bands {
		wait := v.WaitOf(d.Bands, i, cost)
		if wait > 0 && d.Bands[i].Kind != bucket.TokenBucket && !p.is("waits for any kind") {
			result.Status = store.Rejected
		}
		if p.is("wakes waiters early") && wait > 0 {
			wait--
		}
		result.Bands[i].Wait = time.Duration(wait) * time.Microsecond
		result.Wait = max(result.Wait, result.Bands[i].Wait)
	}
	if result.Status == store.Rejected {
		return
	}
	if result.Wait > d.MaxWait && (d.MaxWait == 0 || !p.is("accepts any wait")) {
		result.Status = store.Rejected
		return
	}
	result.Granted = cost
}

func (p *plain) commit(d *store.Demand, v *bucket.View, result *store.Result, admitted, take bool) {
	cost := p.cost(d, v)
	if p.is("takes one for nothing") {
		cost = max(1, cost)
	}
	fits := result.Status == store.OK
	switch {
	case !take:
	case d.CountsRefused() && (d.Debited(result.Status) && !p.is("counts no refused hits") || p.is("counts refused requests everywhere")):
		v.Overdraw(d.Bands, cost)
		p.write(d.Key, d.Bands, v)
	case d.Overdraft && !p.is("takes overdrafts for takes"):
		switch {
		case p.is("debits no overdraft of a rejected request") && !admitted:
		case p.is("overdraws without bound"):
			for i := range d.Bands {
				v.Levels[i] += min(1_000*d.Bands[i].Limit, cost*d.Bands[i].Unit)
			}
			p.write(d.Key, d.Bands, v)
		default:
			v.Overdraw(d.Bands, cost)
			p.write(d.Key, d.Bands, v)
			for i := range d.Bands {
				if p.is("waits as before an overdraft") {
					continue
				}
				result.Bands[i].Wait = time.Duration(v.PositiveAfter(d.Bands, i)) * time.Microsecond
				if !fits {
					result.Wait = max(result.Wait, result.Bands[i].Wait)
				}
			}
		}
	case fits && (admitted || p.is("takes from some rules only") || p.is("lets shadow rules take when vetoed") && d.Shadow) && cost > 0:
		if d.Shadow && p.is("takes nothing for shadow rules") || result.Wait > 0 && p.is("books no waits") {
			break
		}
		v.Take(d.Bands, cost)
		p.write(d.Key, d.Bands, v)
	case !fits && p.is("takes from other kinds in any case") && d.Bands[0].Kind != bucket.TokenBucket:
		v.Take(d.Bands[:1], 1)
		p.write(d.Key, d.Bands, v)
	case !fits && p.is("takes half of a shadow demand") && d.Shadow:
		slots := d.Bands[1:]
		half := p.view(d.Key, slots, result.Now)
		half.Holder = d.Holder
		half.Take(slots, 1)
		p.write(d.Key, slots, half)
	case !fits && p.is("takes on rejection") && bucket.Affordable(d.Bands, cost):
		v.Take(d.Bands, cost)
		p.write(d.Key, d.Bands, v)
	case !fits && p.is("takes from some bands only"):
		for i := range d.Bands {
			if v.WaitOf(d.Bands, i, 1) == 0 {
				v.Levels[i] += d.Bands[i].Unit
			}
		}
		p.write(d.Key, d.Bands, v)
	case !fits && p.is("moves time on rejection"):
		for i := range d.Bands {
			v.Levels[i] = roundUp(v.Levels[i], d.Bands[i].Unit)
		}
		p.write(d.Key, d.Bands, v)
	}
	for i := range d.Bands {
		result.Bands[i].Remaining = d.Bands[i].Remaining(v.Levels[i])
		if !p.is("does not tell of debt") {
			result.Bands[i].Owed = d.Bands[i].Owed(v.Levels[i])
		}
		result.Bands[i].FullAfter = time.Duration(v.FullAfterOf(d.Bands, i)) * time.Microsecond
		if !p.is("does not tell when more is left") {
			result.Bands[i].MoreAfter = time.Duration(v.MoreAfterOf(d.Bands, i, result.Bands[i].Remaining)) * time.Microsecond
		}
		if p.is("tells the time until full in seconds") {
			result.Bands[i].FullAfter = result.Bands[i].FullAfter.Round(time.Second)
		}
	}
}

func (p *plain) Settle(_ context.Context, takes store.Takes, costs []int64) ([]store.Settlement, error) {
	if err := store.CheckTakes(takes, costs); err != nil {
		if p.is("settles anything") {
			err = nil
		}
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now().UnixMicro()
	var settled []store.Settlement
	for i, t := range takes {
		actual := costs[i]
		if p.is("settles all takes at the first cost") {
			actual = costs[0]
		}
		v, state := p.view(t.Key, t.Bands, now), p.current(t.Key, now)
		if p.is("releases the slots of others") && t.Bands[0].Kind == bucket.Concurrency && len(state.Slots) > 0 {
			state.Slots[0].Steps = &bucket.Steps{}
			p.states[p.place(t.Key)] = state
		}
		booked := bucket.Booking{Cost: t.Cost, At: t.At, Due: t.Due, Holder: t.Holder}
		var tokens int64
		switch {
		case p.is("gives nothing back") && actual < t.Cost, p.is("charges nothing") && actual > t.Cost:
		case p.is("gives nothing back after a change") && actual < t.Cost && len(state.Slots) > 0 && state.Slots[0].Limit != t.Bands[0].Limit:
		case p.is("gives everything back") && actual < t.Cost:
			for i := range t.Bands {
				v.Levels[i] = max(0, v.Levels[i]-(t.Cost-actual)*t.Bands[i].Unit)
			}
			tokens = t.Cost - actual
			p.write(t.Key, t.Bands, v)
		case p.is("charges without bound") && actual > t.Cost:
			for i := range t.Bands {
				v.Levels[i] += min(1_000*t.Bands[i].Limit, (actual-t.Cost)*t.Bands[i].Unit)
			}
			tokens = t.Cost - actual
			p.write(t.Key, t.Bands, v)
		default:
			if p.is("gives back past the queue") {
				state.Hold = 0
			}
			if p.is("gives back under changed numbers") {
				for k := range state.Slots {
					state.Slots[k].Used = 0
				}
			}
			if !p.is("charges overdrafts twice") {
				actual = t.Correction(actual)
			}
			if p.is("gives quotas back across an edge") && v.Steps != nil {
				booked.Due = []int64{v.Steps[0].End}
			}
			if p.is("gives back to the newest slot") {
				booked.At = now
			}
			var changed bool
			if tokens, changed = state.Settle(t.Bands, booked, actual, now); changed || p.is("gives back under changed numbers") {
				p.states[p.place(t.Key)] = state
			}
		}
		one := store.Settlement{Returned: max(0, tokens), Charged: max(0, -tokens)}
		if !p.is("reports no levels of settlements") {
			one.Level = bucketmath.Level(t.Bands, &state, now)
		}
		settled = append(settled, one)
	}
	return settled, nil
}

func (p *plain) Extend(_ context.Context, takes store.Takes) (held []bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now().UnixMicro()
	for _, t := range takes {
		if state := p.states[p.place(t.Key)]; state.Adopt(now) {
			p.states[p.place(t.Key)] = state
		}
		v := p.view(t.Key, t.Bands, now)
		if p.is("renews lost slots") && !v.Extend(t.Bands, t.Holder) {
			v.Holder = t.Holder
			v.Take(t.Bands, 1)
			p.write(t.Key, t.Bands, v)
		}
		held = append(held, v.Extend(t.Bands, t.Holder))
		if p.is("writes all bands to renew slots") {
			p.write(t.Key, t.Bands, v)
		}
		if p.is("stops at a lost slot") && slices.Contains(held, false) {
			return make([]bool, len(takes)), nil
		}
	}
	return held, nil
}

// Warn implements [store.Store].
func (p *plain) Warn(_ context.Context, w *store.Warning) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	own, now := *w, p.clock.Now().UnixMicro()
	if p.is("warns once for all capacities") {
		own.Capacity = 0
	}
	id := p.place(w.Key)
	if p.is("does not warn again after a reset") {
		id = w.Key.ID
	}
	mark := own.Identify(id.String())
	if p.is("keeps marks beyond the period") {
		mark = fmt.Sprint(id, own.Band, own.Percent, own.Capacity)
	}
	own.Capacity = w.Capacity
	ends, known := p.marks[mark]
	if ends > own.Ends && !p.is("keeps marks when the clock steps back") {
		ends = own.Ends
		p.marks[mark] = ends
	}
	seen := min(own.At, now)
	if p.is("warns by the time of a report") {
		seen = now
	}
	if known && (ends > seen || ends >= own.Ends || p.is("keeps marks beyond the period")) {
		if !p.is("does not tell when a warning ends") {
			w.Ends = ends
		}
		return nil
	}
	p.marks[mark] = own.Ends
	own.Place = fmt.Sprintf("%09d", len(p.warned)+1)
	p.warned, p.pending = append(p.warned, own), append(p.pending, own)
	return nil
}

func (p *plain) PendingWarnings(_ context.Context, after string, most int) ([]store.Warning, error) {
	var all []store.Warning
	for _, w := range p.pending {
		if w.Place > after && len(all) < most {
			all = append(all, w)
		}
	}
	return all, nil
}

func (p *plain) DeliveredWarning(_ context.Context, delivered *store.Warning) error {
	if p.is("delivers warnings again") {
		return nil
	}
	p.pending = slices.DeleteFunc(p.pending, func(w store.Warning) bool { return w == *delivered })
	return nil
}

func (p *plain) RecentWarnings(context.Context, int) ([]store.Warning, error) {
	recent := slices.Clone(p.warned)
	slices.Reverse(recent)
	return recent, nil
}

func (p *plain) Reset(_ context.Context, what store.Reset) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.is("resets nothing"):
	case p.is("resets everything"):
		clear(p.states)
	case what.ID == store.KeyID{}:
		p.generations[[2]string{what.RuleSet, what.Rule}]++
	default:
		delete(p.states, p.place(what.Key))
	}
	return true, nil
}

func (p *plain) Salt() []byte { return []byte("salt") }
func (p *plain) Close() error { return nil }
