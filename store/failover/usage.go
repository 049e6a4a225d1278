package failover

import (
	"slices"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/store"
)

// phase is what decides a bucket set that the fallback has used.
type phase uint8

const (
	// phaseLocal: the fallback decides. The store does not know its tokens, and could hand out the
	// same again.
	phaseLocal phase = iota
	// phaseCharged: the fallback still decides. The last charge was made, and the next can be the
	// last one.
	phaseCharged
	// phaseLeaving: the store decides, and is charged what the fallback has granted since the
	// last charge.
	phaseLeaving
	// phaseDone: the store was charged for all of it. The usage is kept for settlements.
	phaseDone
)

// usage is a bucket set that the fallback has used. Its transitions are took, settled, reset,
// begin, charged and failed.
type usage struct {
	key         store.Key
	bands, here []store.ExactBand // in the store and in the fallback
	phase       phase
	granted     int64  // tokens since the last charge
	debts       []debt // one for each band; a limit on concurrent requests has none
	sentAt      int64  // when the store was first charged, by its clock
}

// debt is what the store is to be charged for one band, in units of the store.
type debt struct {
	open amount // negative where it is to give back
	// rest is what is open if the charge that is under way is made.
	rest amount
	// sent is what the store was charged, less what it gave back, and due when the tokens
	// of the first charge were due, for a quota when the period of the last charge ends. Only
	// the goroutine that charges changes them before the phase is done.
	sent, due int64
	// lost is what was sent in charges of which it is not known whether the store got them.
	// What is given back counts for these first: the store may never have had it.
	lost int64
}

// amount is a number of units. Those of a token bucket refill from a moment of the fallback's
// clock on: until then what was used before refills.
type amount struct{ units, from int64 }

// newUsage returns the usage that begins with a take. What the store was charged before goes on.
func newUsage(d *store.Demand, bands []store.ExactBand, r *store.Result, before *usage) *usage {
	u := &usage{key: d.Key, bands: bands, here: d.Bands, debts: make([]debt, len(bands))}
	if before != nil && slices.EqualFunc(before.bands, bands, sameNumbers) {
		copy(u.debts, before.debts)
		u.sentAt = before.sentAt
	}
	for i := range u.debts {
		// The take is at the end of what refills.
		b := &d.Bands[i]
		own := b.FullAfter(debited(d, r, i)*b.Unit, 0)
		u.debts[i].open = amount{from: r.Now + max(0, r.Bands[i].FullAfter.Microseconds()-own)}
		u.debts[i].rest = amount{}
	}
	return u
}

// took notes a take. held is whether the fallback decided the bucket when the request began:
// requests that wait for the answers of other rules do not keep it there.
func (u *usage) took(d *store.Demand, r *store.Result, held bool) {
	if !slices.EqualFunc(u.here, d.Bands, sameNumbers) { // another share
		for i := range u.debts {
			u.bring(i, r.Now)
		}
	}
	if u.here = d.Bands; u.phase == phaseLeaving && !held {
		u.phase = phaseCharged
	}
	u.granted += r.Granted
	for i := range u.debts {
		u.add(i, debited(d, r, i)*u.bands[i].Unit, r.Now)
	}
}

// debited is how many tokens a take took from band i. An overdraft takes its cost from each
// band whose debt is not the largest, and Granted is the least of all bands.
func debited(d *store.Demand, r *store.Result, i int) int64 {
	if b := &d.Bands[i]; d.Overdraft && r.Bands[i].Owed*b.Unit < b.Max-b.Limit {
		return d.Cost
	}
	return r.Granted
}

// settled notes that a settlement has moved what the bucket holds. Bands may move by less or
// more than the settlement says, which is that of the band that moved least. Where the take was
// at another share, the fallback moves token buckets in proportion, and the store has to move by
// as many tokens as were settled.
func (u *usage) settled(t *store.Taken, s *store.Settlement, before, after *store.Result) {
	u.granted += s.Charged
	for i := range u.debts {
		units := (s.Charged - s.Returned) * u.bands[i].Unit
		j := slices.IndexFunc(t.Bands, func(b store.ExactBand) bool { return b.ID == u.here[i].ID && b.Kind == u.here[i].Kind })
		if j >= 0 && before != nil && after != nil {
			same := sameNumbers(t.Bands[j], u.here[i])
			switch moved := u.moved(i, before, after); {
			case u.bands[i].Kind == bucket.TokenBucket && !same:
				units = int64(float64(moved) / float64(u.here[i].Capacity) * float64(t.Bands[j].Capacity))
			case u.bands[i].Kind == bucket.TokenBucket || same:
				units = moved
			}
		}
		u.add(i, units, now(after))
	}
}

func now(r *store.Result) int64 {
	if r == nil {
		return 0
	}
	return r.Now
}

// moved is by how many units what is used of band i differs between two levels.
func (u *usage) moved(i int, before, after *store.Result) int64 {
	old, current := &before.Bands[i], &after.Bands[i]
	if u.bands[i].Kind != bucket.TokenBucket {
		return (old.Remaining - old.Owed - current.Remaining + current.Owed) * u.bands[i].Unit
	}
	micros := current.FullAfter.Microseconds() - max(0, old.FullAfter.Microseconds()-(after.Now-before.Now))
	if micros < 0 {
		return -u.here[i].Regained(-micros, u.bands[i].Unit)
	}
	return u.here[i].Regained(micros, u.bands[i].Unit)
}

// reset notes that the bucket is full.
func (u *usage) reset() {
	for i := range u.debts {
		u.debts[i].open, u.debts[i].rest = amount{}, amount{}
	}
}

// begin begins a charge, at a level of the bucket in the fallback, and returns the units for each
// band: bands fill at different rates. They are negative where settlements gave back more than
// was granted since the last charge, at most what was sent.
func (u *usage) begin(level *store.Result) []int64 {
	if u.phase == phaseCharged {
		u.phase = phaseLeaving
	}
	units := make([]int64, len(u.debts))
	for i := range u.debts {
		d, b, held := &u.debts[i], &u.bands[i], &level.Bands[i]
		if u.bring(i, level.Now); b.Kind != bucket.TokenBucket { // what has come back since is not in the bucket any more
			used := u.here[i].Capacity - held.Remaining
			if b.CountsRefused {
				used += held.Owed
			}
			d.open.units = min(d.open.units, used*b.Unit)
		}
		if d.open.units < 0 {
			absorbed := min(-d.open.units, d.lost)
			d.lost -= absorbed
			d.open.units = max(d.open.units+absorbed, -b.Limit, -d.sent)
		}
		units[i] = d.open.units
		d.rest = amount{from: level.Now + held.FullAfter.Microseconds()}
	}
	return units
}

// charged notes that the charge was made, or may have been made. It reports whether nothing is
// left to charge.
func (u *usage) charged(units []int64, certain bool) (all bool) {
	all = certain
	for i := range units {
		d := &u.debts[i]
		d.open = d.rest
		all = all && d.open.units == 0
		if !certain {
			d.lost += max(0, units[i])
			d.sent += min(0, units[i])
		}
	}
	switch {
	case !certain:
		u.phase = phaseLocal
	case u.phase == phaseLocal:
		u.phase = phaseCharged
	}
	return all
}

// failed notes that the charge was not made.
func (u *usage) failed() { u.phase = phaseLocal }

// decidedHere reports whether the fallback decides the bucket set.
func (u *usage) decidedHere() bool { return u != nil && (u.phase < phaseLeaving) }

// pending reports whether the store is to be charged.
func (u *usage) pending() bool { return u != nil && u.phase != phaseDone }

func (u *usage) add(i int, units, now int64) {
	if u.bands[i].Kind == bucket.Concurrency {
		return // requests that are under way end by themselves
	}
	u.bring(i, now)
	u.debts[i].open.units += units
	u.debts[i].rest.units += units
}

// bring brings what band i owes to a moment of the fallback's clock.
func (u *usage) bring(i int, now int64) {
	if b := &u.here[i]; b.Kind == bucket.TokenBucket {
		u.debts[i].open.bring(b, u.bands[i].Unit, now)
		u.debts[i].rest.bring(b, u.bands[i].Unit, now)
	}
}

func (a *amount) bring(b *store.ExactBand, unit, now int64) {
	if now <= a.from {
		return
	}
	ticks := (now - a.from) / b.Tick
	if a.units > 0 {
		a.units = max(0, a.units-b.Regained(ticks*b.Tick, unit))
	}
	if a.from += ticks * b.Tick; a.units <= 0 {
		a.from = now
	}
}

// sameNumbers reports whether two versions of a band are equal but for the time.
func sameNumbers(a, b store.ExactBand) bool {
	a.Edges = b.Edges
	return a == b
}
