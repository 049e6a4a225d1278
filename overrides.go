package fluxgate

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate/internal/keyfield"
	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// Overrides are the overrides of rules for single callers that an engine applies: see
// [WithOverrides]. They are found by the keys of buckets, so that identities are not kept.
// Package rules/reload keeps them up to date. They are safe for concurrent use.
type Overrides struct {
	salt      []byte
	keyer     keyer
	suspended atomic.Bool
	count     atomic.Int64
	shards    [256]overrideShard

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

// Suspend is for a fleet with servers that do not know overrides: while it is set, none is
// applied.
func (t *Overrides) Suspend(suspended bool) { t.suspended.Store(suspended) }

// Suspended reports whether no override is applied.
func (t *Overrides) Suspended() bool { return t.suspended.Load() }

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

// Overrides returns those of [WithOverrides], or nil.
func (e *Engine) Overrides() *Overrides { return e.overrides }

// overrideOf returns the override of a bucket. The request is nil if it is not known.
func (e *Engine) overrideOf(r *keyedRule, key store.KeyID, req *Request) (o override, ok bool) {
	t := e.overrides
	if t == nil || t.count.Load() == 0 || t.suspended.Load() {
		return o, false
	}
	o, ok = t.find(key)
	if !ok && r.byAPIKey && req != nil && req.APIKey != "" && e.keyer.identity == nil {
		o, ok = t.findAPIKey(r, key, req)
	}
	return o, ok && (o.until == 0 || o.until > e.store.Now().UnixMicro())
}

// overridden returns the rule with the numbers that it has for a bucket.
func (e *Engine) overridden(r *keyedRule, key store.KeyID, req *Request) *keyedRule {
	o, ok := e.overrideOf(r, key, req)
	if !ok {
		return r
	}
	known := o.last.Load()
	if known == nil || known.of != r {
		known = &overriddenRule{r, r.with(o.overrideNumbers)}
		o.last.Store(known)
	}
	return known.rule
}

// with returns the rule with other numbers, or itself if they do not fit.
func (r *keyedRule) with(n *overrideNumbers) *keyedRule {
	numbers, err := r.Overridden(n.times, n.bands)
	if err != nil {
		return r // see Problems
	}
	rule := *r.compiledRule
	if rule.use(numbers) != nil {
		return r
	}
	rule.shown = slices.Clone(numbers)
	for i := range rule.shown {
		rule.shown[i].Label = rule.names[i] // also of a band whose name is made of its numbers
	}
	return &keyedRule{compiledRule: &rule, prefix: r.prefix, everyone: r.everyone}
}

// overrideKeys makes the keys of the overrides of a rule.
type overrideKeys struct {
	prefix keyPrefix
	fields []keyfield.Field
	names  string
	err    error // there is no such rule
}

func (t *Overrides) keysOf(set *Compiled, id string) *overrideKeys {
	rule, ok := set.Rule(id)
	if !ok {
		return &overrideKeys{err: fmt.Errorf("%w: %s", ErrNoRule, printable.Quote(id))}
	}
	return &overrideKeys{prefix: newKeyPrefix(t.salt, set.ID(), id), fields: compileFields(&rule), names: keyNames(&rule)}
}

func (k *overrideKeys) key(keyer *keyer, identity map[string]string) (id store.KeyID, err error) {
	if k.err != nil {
		return id, k.err
	}
	req, _, err := keyer.requestOf(k.fields, identity)
	if err != nil {
		return id, err
	}
	digest := [sha256.Size]byte{}
	raw, wrong := hex.DecodeString(strings.TrimPrefix(req.APIKey, keyfield.DigestPrefix))
	copy(digest[:], raw)
	b, ok := keyer.appendDigested(slices.Clone(k.prefix[:]), k.fields, req, digest)
	if !ok || wrong != nil || req.APIKey != "" && len(raw) != len(digest) {
		return id, errors.New("a value of the identity is not one that requests can have")
	}
	sum := sha256.Sum256(b)
	return store.KeyID(sum[:len(id)]), nil
}

// appendDigested appends the parts of a key, with a digest in place of the API key.
func (k *keyer) appendDigested(b []byte, fields []keyfield.Field, req *Request, digest [sha256.Size]byte) (encoded []byte, ok bool) {
	for _, f := range fields {
		if f.Kind == keyfield.APIKey {
			b = append(append(b, byte(keyfield.Digest)), digest[:]...)
		} else if b, ok = k.appendField(b, f, req); !ok {
			return b, false
		}
	}
	return b, true
}

// keyNames names the parts of a rule's key.
func keyNames(r *rules.Rule) string {
	names := fieldNames(compileFields(r))
	if r.IgnoreCase {
		names += " without regard to case"
	}
	return names
}

func fieldNames(fields []keyfield.Field) string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.String()
	}
	return strings.Join(names, ", ")
}

// requestOf returns a request with an identity, which must have a value for each part of a
// key, and the identity as the key has it.
func (k *keyer) requestOf(fields []keyfield.Field, identity map[string]string) (*Request, map[string]string, error) {
	req := &Request{Headers: map[string][]string{}, Attributes: map[string]string{}}
	given, normal := make(map[string]string, len(identity)), make(map[string]string, len(identity))
	for name, value := range identity {
		if f, ok := keyfield.Parse(name); ok {
			name = f.String() // names of headers have several spellings
		}
		given[name] = value
	}
	for _, f := range fields {
		if f.Kind == keyfield.Global {
			continue
		}
		value, ok := given[f.String()]
		if !ok {
			return nil, nil, fmt.Errorf("the identity has no %s, which is a part of the rule's key", f)
		}
		switch f.Kind {
		case keyfield.IP:
			var err error
			if req.IP, value, err = k.parseIP(value); err != nil {
				return nil, nil, err
			}
		case keyfield.User:
			req.UserID = value
		case keyfield.APIKey:
			req.APIKey = value
		case keyfield.Method:
			value = methodClass(value)
			req.Method = value
		case keyfield.Path:
			value = cleanPath(f, value)
			req.Path = value
		case keyfield.Header:
			req.Headers[f.Name] = []string{value}
		case keyfield.Attribute:
			req.Attributes[f.Name] = value
		default:
			return nil, nil, fmt.Errorf("a rule that counts by %s can have no overrides", f)
		}
		normal[f.String()] = value
	}
	if len(normal) < len(identity) {
		return nil, nil, fmt.Errorf("the identity has other parts than the rule's key: %s", fieldNames(fields))
	}
	return req, normal, nil
}

// parseIP reads an address, or the network of IPv6 addresses that counts as one caller.
func (k *keyer) parseIP(s string) (ip netip.Addr, normal string, err error) {
	network, err := netip.ParsePrefix(s)
	if err == nil && network.Addr().Is6() && network.Bits() == k.ipv6Bits {
		ip = network.Masked().Addr()
		return ip, network.Masked().String(), nil
	}
	ip, err = netip.ParseAddr(s)
	if err != nil {
		return ip, "", fmt.Errorf("the ip of an identity must be an address or an IPv6 network with /%d", k.ipv6Bits)
	}
	if ip = ip.Unmap().WithZone(""); ip.Is4() {
		return ip, ip.String(), nil
	}
	network, _ = ip.Prefix(k.ipv6Bits) // checked when the engine was created
	return network.Addr(), network.String(), nil
}

// OverrideStatus is the override that applies to a caller under a rule.
type OverrideStatus struct {
	// Times or Bands are its numbers.
	Times rules.Times
	Bands []rules.Band
	// Until is when it ends. Zero means never.
	Until time.Time
}

// overrideStatus returns nil if no override applies.
func (e *Engine) overrideStatus(r *keyedRule, key store.KeyID, req *Request) *OverrideStatus {
	o, ok := e.overrideOf(r, key, req)
	if !ok || e.overridden(r, key, req) == r {
		return nil
	}
	status := &OverrideStatus{Times: o.times, Bands: o.bands}
	if o.until != 0 {
		status.Until = time.UnixMicro(o.until)
	}
	return status
}
