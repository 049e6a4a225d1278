package memstore

import (
	"encoding/binary"
	"errors"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/fluxgate/fluxgate"
)

// maxResets bounds how many rules and rule sets can have been reset.
const maxResets = 100_000

// resets moves the buckets of a rule or rule set to new places, where none
// exist yet: that makes them all full at once. The old ones are dropped when
// they would have been full.
type resets struct {
	mu sync.Mutex
	// generation is how often what was reset; nil while nothing was, so that
	// requests pay one load for it.
	generation atomic.Pointer[map[target]uint64]
}

// target is a rule, or without one a rule set.
type target struct{ ruleSet, rule string }

func (r *resets) add(ruleSet, rule string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := map[target]uint64{}
	if old := r.generation.Load(); old != nil {
		next = maps.Clone(*old)
	}
	if len(next) >= maxResets && next[target{ruleSet, rule}] == 0 {
		return errors.New("resetting buckets: too many rules have been reset")
	}
	next[target{ruleSet, rule}]++
	r.generation.Store(&next)
	return nil
}

// place is where a key's bucket is.
func (r *resets) place(key *fluxgate.Key) fluxgate.KeyID {
	generation := r.generation.Load()
	if generation == nil {
		return key.ID
	}
	g := (*generation)[target{key.RuleSet, key.Rule}]
	h := (*generation)[target{key.RuleSet, ""}]
	if g == 0 && h == 0 {
		return key.ID
	}
	// The id is a hash already: any other 128 bits that depend on all of it
	// and on the generations are as far from everybody else's.
	id := key.ID
	low, high := binary.LittleEndian.Uint64(id[:8]), binary.LittleEndian.Uint64(id[8:])
	binary.LittleEndian.PutUint64(id[:8], low^(g*0x9e3779b97f4a7c15+h*0xd1b54a32d192ed03))
	binary.LittleEndian.PutUint64(id[8:], high^(h*0x9e3779b97f4a7c15+g*0xd1b54a32d192ed03))
	return id
}
