package memstore

import (
	"encoding/binary"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/fluxgate/fluxgate/store"
)

const (
	// maxRuleResets bounds how many rules of one rule set can have been reset.
	maxRuleResets = 1_000
	// maxResets bounds how many rules and rule sets can.
	maxResets = 100_000
)

// resets gives the buckets of a rule or rule set new ids, under which none
// exist yet: that makes all of them full at once. The old ones are dropped when
// they would have been full.
type resets struct {
	mu   sync.Mutex
	last uint64 // the last generation: none is used twice
	// generation has the generation of each target that was reset. It is nil
	// before the first reset, so that requests pay one load for it.
	generation atomic.Pointer[map[target]uint64]
}

// target is a rule, or without one a rule set.
type target struct{ ruleSet, rule string }

func (r *resets) add(ruleSet, rule string, exists func(rule string) bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	next, of := map[target]uint64{}, target{ruleSet, rule}
	if old := r.generation.Load(); old != nil {
		next = maps.Clone(*old)
	}
	if rule == "" {
		// It is the later reset of all of its rules.
		maps.DeleteFunc(next, func(t target, _ uint64) bool { return t.ruleSet == ruleSet })
	}
	err := checkRoom(next, of)
	if err != nil && exists != nil {
		maps.DeleteFunc(next, func(t target, _ uint64) bool { return t.ruleSet == ruleSet && t.rule != "" && !exists(t.rule) })
		err = checkRoom(next, of)
	}
	if err != nil {
		return err
	}
	r.last++
	next[of] = r.last
	r.generation.Store(&next)
	return nil
}

// checkRoom returns an error if too many resets are kept for another one.
func checkRoom(all map[target]uint64, of target) error {
	rules := 0
	for t := range all {
		if t.ruleSet == of.ruleSet && t.rule != "" {
			rules++
		}
	}
	_, known := all[of]
	switch {
	case !known && of.rule != "" && rules >= maxRuleResets:
		return fmt.Errorf("resetting buckets: %w: %d rules of rule set %q were reset one by one, the maximum: reset the whole rule set",
			store.ErrTooManyResets, rules, of.ruleSet)
	case !known && len(all) >= maxResets:
		return fmt.Errorf("resetting buckets: %w: %d rules of all rule sets were reset, which is the maximum; reset whole rule sets",
			store.ErrTooManyResets, len(all))
	}
	return nil
}

// place returns the id of a key's bucket.
func (r *resets) place(key *store.Key) store.KeyID {
	generation := r.generation.Load()
	if generation == nil {
		return key.ID
	}
	g := max((*generation)[target{key.RuleSet, key.Rule}], (*generation)[target{key.RuleSet, ""}])
	if g == 0 {
		return key.ID
	}
	// The id is a hash already: any other 128 bits that depend on all of it and
	// on the generation collide as rarely.
	id := key.ID
	low, high := binary.LittleEndian.Uint64(id[:8]), binary.LittleEndian.Uint64(id[8:])
	binary.LittleEndian.PutUint64(id[:8], low^g*0x9e3779b97f4a7c15)
	binary.LittleEndian.PutUint64(id[8:], high^g*0xd1b54a32d192ed03)
	return id
}
