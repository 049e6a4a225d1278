package fluxgate

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// Overrides are the overrides of rules for single callers that an engine applies: see
// [WithOverrides]. They are found by the keys of buckets, so that identities are not kept.
// Package rules/reload keeps them up to date. They are safe for concurrent use.
type Overrides struct {
	salt   []byte
	keyer  keyer
	count  atomic.Int64
	shards [256]overrideShard

	mu   sync.Mutex // of those who change them
	sets map[string]*overrideSet
	// aliases are the keys of the buckets of API keys, by the keys of their digests. They are
	// found when the first request has the API key.
	aliases map[store.KeyID]store.KeyID
}

type overrideShard struct {
	mu sync.RWMutex
	of map[store.KeyID]override
}

// override is what replaces the numbers of a rule for one caller.
type override struct {
	*overrideNumbers
	until int64 // in microseconds since 1970; 0 means never
	round int32 // of [Overrides.Load] that found it
	alias bool  // the same override is there under the digest of an API key
}

// overrideNumbers are the numbers of all overrides of a rule with the same times, or of one
// with its own bands.
type overrideNumbers struct {
	overrideName
	set   *overrideSet
	bands []rules.Band
	uses  int
	last  atomic.Pointer[overriddenRule]
}

// overrideName names numbers. Those with bands have the id of their override.
type overrideName struct {
	rule, key string // the id of the rule, and the parts of its key when the overrides were read
	times     rules.Times
	id        string
}

// overriddenRule is a rule with the numbers of overrides. It is the rule itself if they do not
// fit.
type overriddenRule struct{ of, rule *keyedRule }

// overrideSet is the overrides of a rule set.
type overrideSet struct {
	round   int32
	numbers map[overrideName]*overrideNumbers
	unfit   map[string]OverrideProblem // those without a key, by id
}

// maxUnfit bounds the overrides of a rule set that are named because they do not fit.
const maxUnfit = 1_000

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
	t := &Overrides{
		salt: buckets.Salt(), keyer: keyer{ipv6Bits: cmp.Or(ipv6Prefix, 64)},
		sets: map[string]*overrideSet{}, aliases: map[store.KeyID]store.KeyID{},
	}
	for i := range t.shards {
		t.shards[i].of = map[store.KeyID]override{}
	}
	return t
}

// Len returns the number of overrides.
func (t *Overrides) Len() int { return int(t.count.Load()) }

// Apply applies changes of the overrides of a rule set.
func (t *Overrides) Apply(set *Compiled, changes []rules.Override) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.apply(set, t.setOf(set.ID()), changes)
}

// Load replaces the overrides of a rule set by those of pages. After an error, those that
// were not read stay.
func (t *Overrides) Load(set *Compiled, pages iter.Seq2[[]rules.Override, error]) error {
	t.mu.Lock()
	s := t.setOf(set.ID())
	s.round++
	clear(s.unfit)
	t.mu.Unlock()
	for page, err := range pages {
		if err != nil {
			return err
		}
		t.Apply(set, page)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sets[set.ID()] != s {
		return fmt.Errorf("the overrides of rule set %s were dropped meanwhile", printable.Quote(set.ID()))
	}
	t.sweep(s)
	return nil
}

// Drop removes the overrides of a rule set.
func (t *Overrides) Drop(ruleSet string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.sets[ruleSet]; s != nil {
		s.round++
		t.sweep(s)
		delete(t.sets, ruleSet)
	}
}

// Problems returns what does not fit the rules of a set.
func (t *Overrides) Problems(set *rules.Set) (problems []OverrideProblem) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sets[set.ID()]
	if s == nil {
		return nil
	}
	for _, p := range s.unfit {
		problems = append(problems, p)
	}
	for _, n := range s.numbers {
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

// Loaded reports whether overrides of a rule set were loaded and not dropped.
func (t *Overrides) Loaded(ruleSet string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sets[ruleSet] != nil
}

// Stale reports whether the overrides of a rule set must be loaded again for a new version: a
// rule is gone, the parts of its key have changed, or some did not fit.
func (t *Overrides) Stale(set *Compiled) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sets[set.ID()]
	if s == nil {
		return false
	}
	stale := len(s.unfit) > 0
	for _, n := range s.numbers {
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

func (t *Overrides) setOf(id string) *overrideSet {
	if t.sets[id] == nil {
		t.sets[id] = &overrideSet{numbers: map[overrideName]*overrideNumbers{}, unfit: map[string]OverrideProblem{}}
	}
	return t.sets[id]
}

// apply has the lock.
func (t *Overrides) apply(set *Compiled, s *overrideSet, changes []rules.Override) {
	keys := map[string]*overrideKeys{}
	for i := range changes {
		o := &changes[i]
		k := keys[o.RuleID]
		if k == nil {
			k = t.keysOf(set, o.RuleID)
			keys[o.RuleID] = k
		}
		id := o.ID()
		delete(s.unfit, id)
		key, err := k.key(&t.keyer, o.Identity)
		switch {
		case err == nil:
			t.put(key, s.next(k.names, id, o))
		case !o.Deleted && len(s.unfit) < maxUnfit:
			s.unfit[id] = OverrideProblem{o.RuleID, id, err}
		}
	}
}

// next is an override as it is found by the engine, without numbers if it is deleted.
func (s *overrideSet) next(key, id string, o *rules.Override) override {
	if o.Deleted {
		return override{}
	}
	name := overrideName{rule: o.RuleID, key: key, times: o.Times}
	if o.Times == 0 {
		name.id = id
	}
	n := s.numbers[name]
	if n == nil || !slices.Equal(n.bands, o.Bands) {
		n = &overrideNumbers{overrideName: name, set: s, bands: o.Bands}
		s.numbers[name] = n
	}
	next := override{overrideNumbers: n, round: s.round}
	if !o.Until.IsZero() {
		next.until = max(1, o.Until.UnixMicro())
	}
	return next
}

// put replaces the override of a bucket, or deletes it if it has no numbers.
func (t *Overrides) put(key store.KeyID, next override) {
	t.swap(key, next)
	if alias, ok := t.aliases[key]; ok {
		next.alias = true
		t.swap(alias, next)
		if next.overrideNumbers == nil {
			delete(t.aliases, key)
		}
	}
}

func (t *Overrides) swap(key store.KeyID, next override) {
	shard := &t.shards[key[0]]
	shard.mu.Lock()
	before := shard.of[key]
	if next.overrideNumbers == nil {
		delete(shard.of, key)
	} else {
		shard.of[key] = next
	}
	shard.mu.Unlock()
	t.recount(next, 1) // first: numbers that nothing uses are forgotten
	t.recount(before, -1)
}

// recount notes that there is an override more or less.
func (t *Overrides) recount(o override, n int) {
	if o.overrideNumbers == nil || o.alias {
		return
	}
	t.count.Add(int64(n))
	if o.uses += n; o.uses == 0 && o.set.numbers[o.overrideName] == o.overrideNumbers {
		delete(o.set.numbers, o.overrideName)
	}
}

// sweep removes the overrides of a rule set that the last round has not found.
func (t *Overrides) sweep(s *overrideSet) {
	for i := range t.shards {
		shard := &t.shards[i]
		shard.mu.Lock()
		for key, o := range shard.of {
			if o.set == s && o.round != s.round {
				delete(shard.of, key)
				delete(t.aliases, key)
				t.recount(o, -1)
			}
		}
		shard.mu.Unlock()
	}
}

func (t *Overrides) find(key store.KeyID) (override, bool) {
	shard := &t.shards[key[0]]
	shard.mu.RLock()
	defer shard.mu.RUnlock()
	o, ok := shard.of[key]
	return o, ok
}

// findAPIKey finds an override by the digest of an API key, and keeps the key of the bucket.
func (t *Overrides) findAPIKey(r *keyedRule, key store.KeyID, req *Request) (override, bool) {
	var space [512]byte // converting the string would allocate
	digest := sha256.Sum256(append(space[:0], req.APIKey...))
	b, ok := t.keyer.appendDigested(append(space[:0], r.prefix[:]...), r.fields, req, digest)
	if !ok {
		return override{}, false
	}
	sum := sha256.Sum256(b)
	digested := store.KeyID(sum[:len(key)])
	o, ok := t.find(digested)
	if ok {
		t.mu.Lock()
		defer t.mu.Unlock()
		if o, ok = t.find(digested); ok { // it may have been deleted
			t.aliases[digested] = key
			o.alias = true
			t.swap(key, o)
		}
	}
	return o, ok
}
