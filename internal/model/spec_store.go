package model

import (
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// replay is the shared store as the contract wants it. Whatever happens between gateways
// and store, the store decides like this.
type replay struct {
	*spec
	sets map[setID]*bucketSet
	// generation is the last that a gateway has used of a bucket.
	generation map[gatewayBucket]int
	stepped    bool
}

type setID struct {
	bucket     string
	generation int
}

type gatewayBucket struct {
	gateway int
	bucket  string
}

// bucketSet is all bands of one rule for one identity.
type bucketSet struct {
	accounts map[uint32]*account
	writes   map[uint32][]write
	ends     map[moment]int64 // of the periods of quotas at a take
	// since are the lines that what happened since the last answer of the store is under.
	since []Line
	// changes is how often the numbers of its bands have changed, and mixed whether
	// gateways have asked for different ones.
	changes int
	mixed   bool
	bands   []*band
	// wrong is whether it broke a line: nothing is known of it then.
	wrong bool
}

// moment is one of an account, by the store's clock.
type moment struct {
	account uint32
	clock   int64
}

// write is a change of what is left in a band.
type write struct {
	at            time.Duration
	before, after *big.Rat // at least
}

func (s *spec) checkStore() {
	r := &replay{spec: s, sets: map[setID]*bucketSet{}, generation: map[gatewayBucket]int{}}
	for i := range s.facts {
		switch f := &s.facts[i]; f.Kind {
		case StoreTook, StorePeeked:
			r.take(f)
		case StoreSettled:
			r.settle(f)
		case StoreExtended:
			r.extend(f)
		case StoreReset:
			if len(f.Buckets) > 0 {
				r.full(setID{f.Buckets[0].Bucket, f.Buckets[0].Generation}, f)
			}
		case StoreEmptied:
			for id := range r.sets {
				r.full(id, f)
			}
		case ClockStepped:
			for _, set := range r.sets {
				set.since = append(set.since, LineClock)
				for _, a := range set.accounts {
					if f.Step < 0 {
						a.stepBack(f.Clock-f.Step.Microseconds(), f.Clock)
					}
				}
			}
			r.stepped = true
		case Decided:
			r.refused(f)
		}
	}
}

func (r *replay) set(b *BucketFact) *bucketSet {
	id := setID{b.Bucket, b.Generation}
	if r.sets[id] == nil {
		r.sets[id] = &bucketSet{accounts: map[uint32]*account{}, writes: map[uint32][]write{}, ends: map[moment]int64{}}
	}
	return r.sets[id]
}

// accountOf names the account of a band. The slots of a rule are one, whatever its band is
// called.
func accountOf(e *store.ExactBand) uint32 {
	if e.Kind == bucket.Concurrency {
		return 1 << 31
	}
	return e.ID
}

// full fills a bucket set.
func (r *replay) full(id setID, f *Fact) {
	set := r.sets[id]
	if set == nil {
		return
	}
	for id, a := range set.accounts {
		least, _ := a.left()
		// Other numbers, under which nothing was left, may have come since the last write.
		set.writes[id] = append(set.writes[id], write{f.At, new(big.Rat).Set(lesser(least, new(big.Rat))), whole(a.Capacity)})
	}
	set.accounts, set.since, set.wrong = map[uint32]*account{}, []Line{LineReset}, false
}

// take compares a take or a peek with what the contract wants, and takes.
func (r *replay) take(f *Fact) {
	demands := make([]*demand, len(f.Buckets))
	admitted, fits, rejected, alternatives, over := true, true, false, 0, 0
	for i := range f.Buckets {
		b := &f.Buckets[i]
		r.generation[gatewayBucket{f.Gateway, b.Bucket}] = b.Generation
		d := &demand{BucketFact: b, set: r.set(b)}
		for j := range b.Exact {
			d.views = append(d.views, r.view(d.set, b, &b.Exact[j], f))
		}
		if !f.Charge || b.Cost == 0 { // a charge is of single bands, but first looks at all
			d.set.noteBands(d.views)
		}
		demands[i] = d
		d.evaluate()
		if b.Alternative && !b.Shadow {
			alternatives++
		}
		rejected = rejected || b.DebitOnly
		switch {
		case b.Shadow || b.Status == store.OK:
		case b.Alternative:
			over++
		default:
			admitted = false
			fits = fits && !d.must
		}
	}
	admitted = admitted && !rejected && (alternatives == 0 || over < alternatives)
	peek := f.Kind == StorePeeked
	if !peek && !f.Charge && f.Admitted != admitted {
		r.violate(LineDecision, f.At, "%v: the take of request %d was admitted: %t, by its enforced demands %t", demands[0].Bucket, f.Check, f.Admitted, admitted)
	}
	for _, d := range demands {
		if f.Charge {
			r.charge(f, d)
			continue
		}
		r.compare(f, d, admitted, peek)
	}
}

// noteBands notes whether the bands of a set are others than before.
func (set *bucketSet) noteBands(views []*account) {
	var bands []*band
	for _, a := range views {
		if a != nil {
			bands = append(bands, a.band)
		}
	}
	set.mixed = set.mixed || set.bands != nil && !slices.Equal(set.bands, bands)
	set.bands = bands
}

// view is a copy of an account, brought to the band and the moment of a fact.
func (r *replay) view(set *bucketSet, b *BucketFact, e *store.ExactBand, f *Fact) *account {
	numbers := r.bandOf(b.Rule, e)
	if numbers == nil {
		return nil
	}
	a := set.accounts[accountOf(e)]
	if a == nil {
		a = newAccount(numbers, f.Clock)
		a.advance(f.Clock, e.Edges)
		a.open = len(set.accounts) > 0 // a new band may be an old one with another label
		return a
	}
	a = a.clone()
	// A full band is forgotten: it may be found under another label, and the period of a quota need
	// not end before another begins.
	full := (set.mixed || a.band != numbers && a.kind() == rules.Quota) && a.fullAt(f.Clock)
	if full && !set.mixed && len(set.accounts) == 1 && !a.open && !a.renamed && numbers.kind() == a.kind() {
		a = newAccount(numbers, f.Clock) // absent and full are the same
		a.advance(f.Clock, e.Edges)
		return a
	}
	a.open, a.renamed = a.open || a.renamed, false
	if a.band != numbers && f.Charge && a.kind() == rules.TokenBucket && numbers.kind() == a.kind() {
		a.advance(f.Clock, e.Edges)
		a.open = true // it is debited in proportion. What is full is forgotten, and begins with the numbers of the charge.
		return a
	}
	if a.band != numbers {
		a.change(numbers, f.Clock, e.Edges, set.changes == 0)
	}
	a.advance(f.Clock, e.Edges)
	a.open = a.open || full
	return a
}

// fullAt reports whether an account is full at a moment.
func (a *account) fullAt(now int64) bool {
	late := a.clone()
	late.advance(now, a.edges)
	least, _ := late.left()
	return least.Cmp(whole(a.Capacity)) == 0
}

// compare compares the answer to a demand, takes what was granted, and compares what is
// left then.
func (r *replay) compare(f *Fact, d *demand, admitted, peek bool) {
	if d.set.wrong {
		return
	}
	own := LineExact
	if d.full && !d.set.mixed {
		own = LineSlots
	}
	switch ok := d.Status == store.OK; {
	case ok && !d.can:
		r.wrong(f, d, own, "admits a cost of %d that does not fit", d.Cost)
		return
	case !ok && d.must && d.Cost > 0:
		r.wrong(f, d, own, "refuses a cost of %d that fits", d.Cost)
		return
	}
	takes := !peek && d.Granted > 0
	switch {
	case !peek && d.uncounted():
		r.wrong(f, d, LineOverdraft, "counts %d of %d refused hits", d.Granted, d.Cost)
		return
	case takes && !d.Overdraft && !d.counted() && (!admitted || d.Status != store.OK):
		r.wrong(f, d, LineAllOrNothing, "was granted %d tokens of a request that was refused", d.Granted)
		return
	case !peek && d.Status == store.OK && admitted && d.Cost > 0 && !d.Overdraft && (d.Granted < d.grants[0] || d.Granted > d.grants[1]):
		r.wrong(f, d, own, "was granted %d of %d tokens, and %d to %d are there", d.Granted, d.Cost, d.grants[0], d.grants[1])
		return
	case takes && !d.Overdraft && !d.counted() && !d.waits():
		r.wrong(f, d, own, "was granted %d tokens after a wait of %v, and they are due at another time", d.Granted, d.Wait)
		return
	}
	switch {
	case (d.Overdraft || d.counted()) && !peek:
		own = LineOverdraft
		d.overdraw()
	case takes:
		d.takes(f.Clock)
	case !peek && !admitted:
		own = LineRejection
	}
	for i, a := range d.views {
		if a != nil && !r.agrees(f, d, a, &d.Bands[i], own) {
			return
		}
	}
	r.times(f, d)
	if !peek {
		r.commit(f, d, takes || d.debits)
	}
	d.set.since = nil
	if own != LineExact {
		d.set.since = append(d.set.since, own)
	}
}

// agrees compares what is left with what the store says, and narrows what is open.
func (r *replay) agrees(f *Fact, d *demand, a *account, says *BandFact, own Line) bool {
	net := says.Remaining - says.Owed
	switch full := d.set.accounts[accountOf(&a.exact)] == nil; {
	case a.kind() == rules.Concurrency && !d.set.mixed:
		own = LineSlots
	case full && own == LineExact:
		own = LineAbsent
	}
	if !a.open {
		least, most := a.left()
		if net < floor(least) || net > floor(most) {
			r.wrong(f, d, own, "has %d tokens left in %s, and %s should be", net, a.Name(), rangeOf(least, most))
			return false
		}
	}
	switch {
	case a.kind() == rules.TokenBucket:
		return r.agreesWithTime(f, d, a, says, own)
	case a.open && a.kind() == rules.Quota:
		a.least, a.most, a.open = whole(net), whole(net), false
		if net >= 0 && net < a.Capacity { // the period may be that of a band with another label
			a.end = a.at + says.FullAfter.Microseconds()
		}
	case a.open && a.kind() == rules.SlidingWindow:
		// When they were taken is not known. A longer version may still count what is older.
		for i := range a.log {
			a.log[i].gone = true
		}
		a.log = slices.DeleteFunc(a.log, func(s spent) bool { return s.at > a.at-a.Refill.Microseconds() })
		a.log, a.open = append(a.log, spent{at: a.at, tokens: whole(a.Capacity - net), gone: true}), false
	}
	return true
}

// agreesWithTime compares when a token bucket is full: that is finer than a token.
func (r *replay) agreesWithTime(f *Fact, d *demand, a *account, says *BandFact, own Line) bool {
	full := says.FullAfter.Microseconds()
	ticks := (a.at+full)/a.exact.Tick - a.at/a.exact.Tick
	least := new(big.Rat).Sub(whole(a.Capacity), new(big.Rat).Mul(a.rate, whole(ticks)))
	most := new(big.Rat).Add(least, a.rate)
	if full == 0 {
		most = whole(a.Capacity)
	}
	if a.open {
		a.least, a.most, a.open = least, most, false
		return true
	}
	// What is left is above least and at most most of what the store says.
	if a.most.Cmp(least) < 0 || a.least.Cmp(most) > 0 {
		r.wrong(f, d, own, "%s is full after %v, and %s tokens should be left", a.Name(), says.FullAfter, rangeOf(a.least, a.most))
		return false
	}
	if a.least.Cmp(a.most) != 0 {
		if a.least.Cmp(least) < 0 {
			a.least.Set(least)
		}
		if a.most.Cmp(most) > 0 {
			a.most.Set(most)
		}
	}
	return true
}

// commit keeps the views of a demand, a rejection the clock alone.
func (r *replay) commit(f *Fact, d *demand, taken bool) {
	for i, a := range d.views {
		if a == nil || !taken {
			continue
		}
		id := accountOf(&d.Exact[i])
		before := d.set.accounts[id]
		if before != nil && before.band != a.band {
			d.set.changes++
			d.set.since = append(d.set.since, LineChange)
		}
		d.set.renames(d.BucketFact, before, f.Clock)
		r.wrote(d.set, id, before, a, f)
		d.set.accounts[id], d.set.ends[moment{id, f.Clock}] = a, a.end
	}
	if taken {
		d.set.written(f.Clock)
	}
	d.set.adopt(f.Clock)
}

// written brings the token buckets to the time of a write, which a set has in common: those that
// a call does not ask for count from there too.
func (set *bucketSet) written(clock int64) {
	for _, a := range set.accounts {
		if a.unwritten = false; a.kind() == rules.TokenBucket {
			a.advance(clock, a.edges)
		}
	}
}

// maybeWritten is for a call that may have written nothing: if the clock steps back then, no time
// has passed since the last write, which may be this one.
func (set *bucketSet) maybeWritten() {
	for _, a := range set.accounts {
		a.unwritten = a.kind() == rules.TokenBucket || a.kind() == rules.SlidingWindow
	}
}

// adopt follows a clock that has stepped back, which every call does that names the set.
func (set *bucketSet) adopt(clock int64) {
	for _, a := range set.accounts {
		if clock < a.at {
			a.advance(clock, a.edges)
		}
	}
}

// unsureOf notes that a clock that has stepped back is adopted or not: the slot of a holder, which is
// released, may have ended before, and a settlement may have written nothing.
func (set *bucketSet) unsureOf(clock int64, holder int) {
	for _, a := range set.accounts {
		a.open = a.open || clock < a.at && a.kind() != rules.Concurrency
		delete(a.slots, holder)
		for id, s := range a.slots {
			s.early = min(s.early, clock+s.hold)
			a.slots[id] = s
		}
	}
}

// renames notes that a band which is written may continue one that the call does not ask for, if
// it had no account of its own, or a full one.
func (set *bucketSet) renames(b *BucketFact, before *account, clock int64) {
	if before != nil && !before.renamed && (!set.mixed || !before.fullAt(clock)) {
		return
	}
	asked := slices.Concat(b.Exact, b.Beside)
	for id, other := range set.accounts {
		if !slices.ContainsFunc(asked, func(e store.ExactBand) bool { return accountOf(&e) == id }) {
			other.renamed = true
		}
	}
}

// wrote notes what was left before and after a write.
func (r *replay) wrote(set *bucketSet, id uint32, before, after *account, f *Fact) {
	w := write{at: f.At, before: whole(after.Capacity)}
	if before != nil && before.band == after.band {
		b := before.clone()
		b.advance(f.Clock, after.edges)
		least, _ := b.left()
		w.before = new(big.Rat).Set(least)
	}
	least, _ := after.left()
	w.after = new(big.Rat).Set(least)
	set.writes[id] = append(set.writes[id], w)
}

// wrong says that a set is not what the contract wants: under the line of what has
// happened since it last was, or else under that of what happens now.
func (r *replay) wrong(f *Fact, d *demand, own Line, format string, args ...any) {
	line := own
	if d.set.mixed {
		line = LineChange
	}
	for _, other := range []Line{LineChange, LineReset, LineClock, LineCharge, LineSettlement, LineOverdraft, LineRejection} {
		if line == own && own != LineSlots && slices.Contains(d.set.since, other) {
			line = other
		}
	}
	if line == LineExact && f.Kind == StorePeeked && f.Gateway == All {
		line = LineConservation
	}
	d.set.wrong = true
	r.violate(line, f.At, "bucket %s %v", d.Bucket, fmt.Sprintf(format, args...))
}
