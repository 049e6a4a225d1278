package fluxgate

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/internal/snapshotmap"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// Overrides are the overrides of rules for single callers that an engine applies: see
// [WithOverrides]. They are found by the keys of buckets, so that identities are not kept.
// Package rules/reload keeps them up to date. They are safe for concurrent use.
type Overrides struct {
	salt  []byte
	keyer keyer
	mu    sync.Mutex // of those who change them
	sets  snapshotmap.Map[string, *overrideSet]
}

// overrideSet is the overrides of a rule set.
type overrideSet struct {
	now atomic.Pointer[overrideTable]

	// digested are the keys of overrides by the keys of buckets with secrets. An override has
	// the digest of an API key or another secret, and its bucket is known when a request has
	// the secret.
	mu       sync.RWMutex
	digested map[store.KeyID]store.KeyID

	byRule atomic.Pointer[numbersByRule]
}

// overrideTable is one version of the overrides of a rule set. It is replaced, not changed: no
// decision waits.
type overrideTable struct {
	byKey map[store.KeyID]override
	unfit map[string]OverrideProblem // those without a key, by id
	// shared are numbers that several overrides have. Only those who change overrides use it.
	shared map[overrideName]*overrideNumbers
}

// override is what replaces the numbers of a rule for one caller.
type override struct {
	*overrideNumbers
	until int64 // in microseconds since 1970; 0 means never
}

// overrideNumbers are the numbers of all overrides of a rule with the same times, or of one
// with its own bands, which has an id.
type overrideNumbers struct {
	overrideName
	id    string
	bands []rules.Band
	last  atomic.Pointer[overriddenRule]
}

// overrideName names shared numbers.
type overrideName struct {
	rule, key string // the id of the rule, and the parts of its key when the overrides were read
	times     rules.Times
}

// overriddenRule is a rule with the numbers of overrides. It is the rule itself if they do not
// fit.
type overriddenRule struct{ of, rule *keyedRule }

const (
	// maxUnused bounds what is kept of overrides that were replaced.
	maxUnused = 1_000
	// maxUnfit bounds the overrides of a rule set that are named because they do not fit.
	maxUnfit = 1_000
)

// OverrideProblem is why overrides do not fit their rule. They are not applied.
type OverrideProblem struct {
	Rule string
	// ID is empty for all overrides of the rule with the same times.
	ID  string
	Err error
}

// NewOverrides returns overrides for engines over a store. ipv6Prefix is that of
// [WithIPv6Prefix]; 0 means 64.
func NewOverrides(buckets store.Store, ipv6Prefix int) *Overrides {
	return &Overrides{salt: buckets.Salt(), keyer: keyer{ipv6Bits: cmp.Or(ipv6Prefix, 64)}}
}

// Len returns the number of overrides.
func (t *Overrides) Len() (n int) {
	for _, s := range t.sets.Entries() {
		n += len(s.now.Load().byKey)
	}
	return n
}

// Loaded reports whether overrides of a rule set were loaded and not dropped.
func (t *Overrides) Loaded(ruleSet string) bool { return t.sets.Entries()[ruleSet] != nil }

// Apply applies changes of the overrides of a rule set.
func (t *Overrides) Apply(set *Compiled, changes []rules.Override) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.setOf(set.ID())
	table := *s.now.Load()
	table.byKey, table.unfit = maps.Clone(table.byKey), maps.Clone(table.unfit)
	t.apply(set, &table, changes)
	if len(table.shared) > len(table.byKey)+maxUnused {
		clear(table.shared)
	}
	s.replace(&table)
}

// Load replaces the overrides of a rule set by those of pages. After an error the old ones
// stay.
func (t *Overrides) Load(set *Compiled, pages iter.Seq2[[]rules.Override, error]) error {
	s, table := t.setOf(set.ID()), newOverrideTable()
	for page, err := range pages {
		if err != nil {
			return err
		}
		t.apply(set, table, page)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sets.Entries()[set.ID()] != s {
		return fmt.Errorf("the overrides of rule set %s were dropped meanwhile", printable.Quote(set.ID()))
	}
	s.replace(table)
	return nil
}

// Drop removes the overrides of a rule set.
func (t *Overrides) Drop(ruleSet string) {
	t.sets.Drop(func(id string, _ *overrideSet) bool { return id == ruleSet })
}

func (t *Overrides) setOf(id string) *overrideSet {
	s, _ := t.sets.Add(id, math.MaxInt, func() *overrideSet {
		s := &overrideSet{digested: map[store.KeyID]store.KeyID{}}
		s.now.Store(newOverrideTable())
		return s
	})
	return s
}

func newOverrideTable() *overrideTable {
	return &overrideTable{
		byKey: map[store.KeyID]override{}, unfit: map[string]OverrideProblem{}, shared: map[overrideName]*overrideNumbers{},
	}
}

// replace brings a table into effect.
func (s *overrideSet) replace(table *overrideTable) {
	s.now.Store(table)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.digested) > len(table.byKey)+maxUnused {
		clear(s.digested)
	}
}

// table returns the overrides of a rule set.
func (t *Overrides) table(ruleSet string) *overrideTable {
	if s := t.sets.Entries()[ruleSet]; s != nil {
		return s.now.Load()
	}
	return &overrideTable{}
}

// numbers returns the numbers that the overrides have.
func (t *overrideTable) numbers() map[*overrideNumbers]bool {
	all := map[*overrideNumbers]bool{}
	for _, o := range t.byKey {
		all[o.overrideNumbers] = true
	}
	return all
}

// Problems returns what does not fit the rules of a set.
func (t *Overrides) Problems(set *rules.Set) []OverrideProblem {
	table := t.table(set.ID())
	problems := slices.Collect(maps.Values(table.unfit))
	for n := range table.numbers() {
		rule, ok := set.Rule(n.rule)
		err := ErrNoRule
		if ok {
			if _, err = rule.Overridden(n.times, n.bands); err == nil && n.key != keyNames(&rule) {
				err = fmt.Errorf("the key of the rule is %s, not %s", keyNames(&rule), n.key)
			}
		}
		if err != nil {
			problems = append(problems, OverrideProblem{n.rule, n.id, err})
		}
	}
	slices.SortFunc(problems, func(a, b OverrideProblem) int {
		return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Err.Error(), b.Err.Error()))
	})
	return problems
}

// Stale reports whether the overrides of a rule set must be loaded again for a new version: a
// rule is gone, the parts of its key have changed, or some did not fit.
func (t *Overrides) Stale(set *Compiled) bool {
	table := t.table(set.ID())
	stale := len(table.unfit) > 0
	for n := range table.numbers() {
		n.last.Store(nil) // it keeps a former version in memory
		if rule, ok := set.Rule(n.rule); !ok || n.key != keyNames(&rule) {
			stale = true
		}
	}
	return stale
}

// Check returns why an override does not fit its rule, and writes its identity as the rule's
// key has it.
func (t *Overrides) Check(set *rules.Set, o *rules.Override) error {
	if err := o.Check(); err != nil {
		return err
	}
	rule, ok := set.Rule(o.RuleID)
	switch {
	case !ok:
		return fmt.Errorf("%w: %s in rule set %s", ErrNoRule, printable.Quote(o.RuleID), printable.Quote(set.ID()))
	case !rule.Limits():
		return fmt.Errorf("rule %s does not limit: its action is %s", printable.Quote(o.RuleID), rule.Action)
	}
	_, identity, err := t.keyer.requestOf(compileFields(&rule), o.Identity)
	if err != nil {
		return err
	}
	o.Identity = identity
	if o.Deleted {
		return nil
	}
	_, err = rule.Overridden(o.Times, o.Bands)
	return err
}

// apply applies changes to a table that is not in effect.
func (t *Overrides) apply(set *Compiled, table *overrideTable, changes []rules.Override) {
	keys := map[string]*overrideKeys{}
	for i := range changes {
		o := &changes[i]
		k := keys[o.RuleID]
		if k == nil {
			k = t.keysOf(set, o.RuleID)
			keys[o.RuleID] = k
		}
		id := o.ID()
		delete(table.unfit, id)
		key, err := k.key(&t.keyer, o.Identity)
		switch {
		case err == nil && o.Deleted:
			delete(table.byKey, key)
		case err == nil:
			table.byKey[key] = table.next(k.names, id, o)
		case !o.Deleted && len(table.unfit) < maxUnfit:
			table.unfit[id] = OverrideProblem{o.RuleID, id, err}
		}
	}
}

// next is an override as it is found by the engine.
func (t *overrideTable) next(key, id string, o *rules.Override) override {
	name := overrideName{rule: o.RuleID, key: key, times: o.Times}
	n := t.shared[name]
	switch {
	case o.Times == 0:
		n = &overrideNumbers{overrideName: name, id: id, bands: o.Bands}
	case n == nil:
		n = &overrideNumbers{overrideName: name}
		t.shared[name] = n
	}
	next := override{overrideNumbers: n}
	if !o.Until.IsZero() {
		next.until = max(1, o.Until.UnixMicro())
	}
	return next
}

// find finds the override of a bucket. The request is nil if it is not known.
func (t *Overrides) find(r *keyedRule, key store.KeyID, req *Request) (o override, ok bool) {
	s := t.sets.Entries()[r.RuleSetID]
	if s == nil {
		return o, false
	}
	table := s.now.Load()
	if o, ok = table.byKey[key]; ok || !r.secrets || len(table.byKey) == 0 {
		return o, ok
	}
	s.mu.RLock()
	digested, known := s.digested[key]
	s.mu.RUnlock()
	if !known && req != nil {
		digested = t.digestedKey(r, req)
	}
	if o, ok = table.byKey[digested]; ok && !known {
		s.mu.Lock()
		s.digested[key] = digested
		s.mu.Unlock()
	}
	return o, ok
}

// digestedKey returns the key that an override for the secrets of a request has.
func (t *Overrides) digestedKey(r *keyedRule, req *Request) (key store.KeyID) {
	var space [512]byte
	if b, ok := t.keyer.appendDigested(append(space[:0], r.prefix[:]...), r.fields, req, digestOf); ok {
		sum := sha256.Sum256(b)
		key = store.KeyID(sum[:len(key)])
	}
	return key
}
