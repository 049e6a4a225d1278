package failover

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate/store"
)

const (
	// maxCarried bounds how many bucket sets are charged after an outage, and how many are
	// kept afterwards.
	maxCarried = 100_000
	// keepCharges is how long it is known what the store was charged for a bucket set.
	keepCharges = 10 * time.Minute
	// million is how many parts a token has where parts are counted.
	million = 1_000_000
)

// ledger has the bucket sets that the fallback has used.
type ledger struct {
	pendingSets        atomic.Int64 // requests pay one load for it
	admitted, pending  atomic.Int64 // tokens
	charged, uncharged atomic.Int64 // in millionths of a token
	unsettled          atomic.Int64 // settlements that are lost

	mu   sync.Mutex
	sets map[store.KeyID]*usage
	kept int // of sets, those that are done
}

// took notes a take from the fallback. bands are those of the store. It returns the usage if it is
// new, and has to be charged.
func (l *ledger) took(d *store.Demand, bands []store.ExactBand, r *store.Result, held bool) (added *usage) {
	l.admitted.Add(r.Granted)
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.sets[d.Key.ID]
	if u.pending() && !slices.EqualFunc(u.bands, bands, sameNumbers) {
		l.giveUp(u)
		u = nil
	}
	if !u.pending() {
		if l.pendingSets.Load() >= maxCarried {
			l.uncharged.Add(r.Granted * million)
			return nil
		}
		u = l.add(newUsage(d, bands, r, u))
		added = u
		if held { // it has left while the request was decided
			u.phase = phaseLeaving
		}
	}
	u.took(d, r, held)
	l.pending.Add(r.Granted)
	return added
}

// add adds a bucket set to those to be charged. The lock is held.
func (l *ledger) add(u *usage) *usage {
	if l.sets[u.key.ID] != nil {
		l.kept--
	}
	if l.sets == nil {
		l.sets = make(map[store.KeyID]*usage)
	}
	l.sets[u.key.ID] = u
	l.pendingSets.Add(1)
	return u
}

// giveUp drops a bucket set that the store cannot be charged for. The lock is held.
func (l *ledger) giveUp(u *usage) {
	l.uncharged.Add(u.granted * million)
	l.pending.Add(-u.granted)
	l.pendingSets.Add(-1)
	delete(l.sets, u.key.ID)
}

// finish ends a bucket set that the store was charged for, and keeps for a while what was
// charged. The lock is held.
func (l *ledger) finish(u *usage) {
	l.pending.Add(-u.granted)
	l.pendingSets.Add(-1)
	if l.kept >= maxCarried || !slices.ContainsFunc(u.debts, func(d debt) bool { return d.sent > 0 }) {
		delete(l.sets, u.key.ID)
		return
	}
	u.phase = phaseDone
	l.kept++
	time.AfterFunc(keepCharges, func() { l.forget(u) })
}

func (l *ledger) forget(u *usage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sets[u.key.ID] == u {
		delete(l.sets, u.key.ID)
		l.kept--
	}
}

// held has a bit for each demand whose bucket set the fallback decides.
func (l *ledger) held(demands []store.Demand) (held uint64) {
	if l.pendingSets.Load() == 0 {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range demands {
		if l.sets[demands[i].Key.ID].decidedHere() {
			held |= 1 << i
		}
	}
	return held
}

// has reports whether a bucket set is still to be charged.
func (l *ledger) has(id store.KeyID) bool {
	if l.pendingSets.Load() == 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sets[id].pending()
}

// reset notes that buckets of the fallback were reset.
func (l *ledger) reset(what store.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, u := range l.sets {
		all := u.key.RuleSet == what.RuleSet && what.Rule == ""
		rule := u.key.RuleSet == what.RuleSet && u.key.Rule == what.Rule
		if all || rule && (what.ID == store.KeyID{} || u.key.ID == what.ID) {
			u.reset()
		}
	}
}

// of returns the usage of a bucket set, or nil, and whether it is still to be charged.
func (l *ledger) of(id store.KeyID) (u *usage, pending bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u = l.sets[id]
	pending = u.pending()
	return u, pending
}

// settled notes a settlement in the fallback, and returns the usage as of does.
func (l *ledger) settled(t *store.Taken, s *store.Settlement, before, after *store.Result) (u *usage, pending bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u = l.sets[t.Key.ID]
	if pending = u.pending(); pending {
		u.settled(t, s, before, after)
		l.pending.Add(s.Charged)
	}
	return u, pending
}
