package telemetry

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fluxgate/fluxgate"
)

// What stands in a label in the place of a name.
const (
	labelOther   = "other"   // there are too many
	labelUnknown = "unknown" // there is no such rule set
)

// table counts by rule set and rule. Readers take no lock: a name that is
// known is found in a map that nobody changes, and a new one makes a new map,
// which happens a bounded number of times.
type table struct {
	maxSets, maxRules int

	sets      atomic.Pointer[map[string]*setCounts]
	rulesFull atomic.Bool

	mu    sync.Mutex // held while a name is added
	rules int        // of all rule sets

	other, unknown *setCounts
}

// setCounts counts what was decided by one rule set.
type setCounts struct {
	name      string
	decisions [outcomes][2][sources]atomic.Uint64 // by whether it was allowed
	rules     atomic.Pointer[map[string]*ruleCounts]
	other     *ruleCounts
}

// ruleCounts counts what one rule decided.
type ruleCounts struct {
	name              string
	decisions         [outcomes]atomic.Uint64
	shadow, nearLimit atomic.Uint64
}

func newTable(maxSets, maxRules int) *table {
	t := &table{maxSets: maxSets, maxRules: maxRules, other: newSetCounts(labelOther), unknown: newSetCounts(labelUnknown)}
	t.sets.Store(&map[string]*setCounts{})
	return t
}

func newSetCounts(name string) *setCounts {
	s := &setCounts{name: name, other: &ruleCounts{name: labelOther}}
	s.rules.Store(&map[string]*ruleCounts{})
	return s
}

// known is the counts of a rule set that was seen before, or else of those
// that do not exist.
func (t *table) known(id string) *setCounts {
	if s := (*t.sets.Load())[id]; s != nil {
		return s
	}
	return t.unknown
}

// set is the counts of a rule set that exists.
func (t *table) set(id string) *setCounts {
	sets := *t.sets.Load()
	if s := sets[id]; s != nil {
		return s
	}
	if len(sets) >= t.maxSets || !fluxgate.ValidID(id) || id == labelUnknown || id == labelOther {
		return t.other
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	sets = *t.sets.Load()
	if s := sets[id]; s != nil {
		return s
	}
	if len(sets) >= t.maxSets {
		return t.other
	}
	s := newSetCounts(strings.Clone(id)) // the request's memory is not kept
	t.sets.Store(with(sets, s.name, s))
	return s
}

// rule is the counts of a rule that decided.
func (t *table) rule(s *setCounts, id string) *ruleCounts {
	rules := *s.rules.Load()
	if r := rules[id]; r != nil {
		return r
	}
	if s == t.other || s == t.unknown || t.rulesFull.Load() || !fluxgate.ValidID(id) || id == labelOther {
		return s.other
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	rules = *s.rules.Load()
	if r := rules[id]; r != nil {
		return r
	}
	if t.rules >= t.maxRules {
		t.rulesFull.Store(true)
		return s.other
	}
	t.rules++
	r := &ruleCounts{name: strings.Clone(id)}
	s.rules.Store(with(rules, r.name, r))
	return r
}

// with is a copy of a map with one entry more.
func with[V any](m map[string]V, key string, value V) *map[string]V {
	m = maps.Clone(m)
	m[key] = value
	return &m
}

// all are the counts of every rule set, those of the nameless included.
func (t *table) all() []*setCounts {
	all := []*setCounts{t.unknown, t.other}
	for _, s := range *t.sets.Load() {
		all = append(all, s)
	}
	return all
}
