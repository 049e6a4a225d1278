package fluxgate

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fluxgate/fluxgate/internal/keyfield"
	"github.com/fluxgate/fluxgate/internal/match"
	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// Compiled is a rule set as engines evaluate it. Any number of engines can use it.
type Compiled struct {
	*rules.Set
	active   []compiledRule // the enabled rules, in the order they are evaluated
	byID     map[string]int // the index of each in active
	replaces bool           // a rule has Replaces
	matcher  *match.Matcher

	// from and ends are between which moments the active rules are the same: from the last end
	// of a rule to the next. later is the rule set after that, made when it is first needed.
	from, ends int64
	later      atomic.Pointer[Compiled]

	mu sync.Mutex // of those who make later, or an entry of keyed
	// keyed are the active rules, with the salts of the stores that have used them.
	keyed atomic.Pointer[keyedRules]
}

// compiledRule is a rule as the engine evaluates it.
type compiledRule struct {
	*rules.Rule
	// numbers are the bands of the rule, or of an override of it. shown are the same, with
	// the names that they have in the rule.
	numbers, shown []rules.Band
	bands          []store.ExactBand
	quotas         *quotas           // nil without
	prices         map[string]*Price // by model; nil for a rule that counts requests
	slots          bool              // a band limits how many requests there are at the same time
	warns          bool              // a band has warnAt
	names          []string          // of the bands
	fields         []keyfield.Field
	// byAddress is whether a request without a part of the key counts by its address instead.
	byAddress bool
	byAPIKey  bool // the API key is a part of the key
	shadow    bool
}

// Compile compiles a rule set for engines. Every valid rule set compiles.
func Compile(set *rules.Set) (*Compiled, error) { return compileAt(set, math.MinInt64) }

// compileAt compiles the rules that have not ended at a moment, in microseconds since 1970.
func compileAt(set *rules.Set, now int64) (*Compiled, error) {
	c := &Compiled{Set: set, byID: make(map[string]int, set.Len()), from: math.MinInt64, ends: math.MaxInt64}
	patterns := make([]match.Rule, 0, set.Len())
	for i := range set.Len() {
		rule := set.At(i)
		if rule.Disabled {
			continue
		}
		if end := rule.Until.UnixMicro(); !rule.Until.IsZero() {
			if end <= now {
				c.from = max(c.from, end)
				continue
			}
			c.ends = min(c.ends, end)
		}
		r, err := compileRule(rule)
		if err != nil {
			return nil, fmt.Errorf("compiling rule %s of rule set %s: %w", printable.Quote(rule.ID), printable.Quote(set.ID()), err)
		}
		c.byID[rule.ID] = len(c.active)
		c.replaces = c.replaces || len(rule.Replaces) > 0
		c.active = append(c.active, r)
		patterns = append(patterns, rule.Matching())
	}
	c.compilePrices()
	var err error
	if c.matcher, err = match.Compile(patterns); err != nil {
		return nil, fmt.Errorf("compiling rule set %s: %w", printable.Quote(set.ID()), err)
	}
	return c, nil
}

// at returns the rule set at the time of a store, without the rules that have ended.
func (c *Compiled) at(clock store.Store) *Compiled {
	if c == nil || c.ends == math.MaxInt64 {
		return c
	}
	now := clock.Now().UnixMicro()
	if now < c.ends {
		return c
	}
	covers := func(later *Compiled) bool { return later != nil && later.from <= now && now < later.ends }
	if later := c.later.Load(); covers(later) {
		return later
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if later := c.later.Load(); covers(later) {
		return later
	}
	later := Must(compileAt(c.Set, now)) // all of its rules have been compiled before
	c.later.Store(later)
	return later
}

// compileRule compiles a rule but for its prices.
func compileRule(rule *rules.Rule) (r compiledRule, err error) {
	r = compiledRule{Rule: rule, shadow: rule.Mode == rules.ModeShadow, fields: compileFields(rule), shown: rule.Bands}
	r.byAddress = (rule.OnMissingIdentity == "" || rule.OnMissingIdentity == rules.MissingIP) &&
		!slices.ContainsFunc(r.fields, func(f keyfield.Field) bool { return f.Kind == keyfield.IP })
	r.byAPIKey = slices.ContainsFunc(r.fields, func(f keyfield.Field) bool { return f.Kind == keyfield.APIKey })
	for _, b := range rule.Bands {
		r.slots, r.warns = r.slots || b.Kind == rules.Concurrency, r.warns || b.WarnAt != (rules.Percents{})
		r.names = append(r.names, b.Name())
	}
	err = r.use(rule.Bands)
	return r, err
}

// use compiles the numbers of the rule.
func (r *compiledRule) use(numbers []rules.Band) (err error) {
	r.numbers, r.bands = numbers, make([]store.ExactBand, len(numbers))
	for position, b := range numbers {
		if r.bands[position], err = r.Exact(b, position); err != nil {
			return err
		}
	}
	r.quotas, err = newQuotas(r.Rule)
	return err
}

// keyedRules are the active rules for the stores with one salt.
type keyedRules struct {
	salt  []byte
	rules []keyedRule
	next  *keyedRules
}

// keyedRule is a rule with what depends on the salt of a store.
type keyedRule struct {
	*compiledRule
	prefix keyPrefix
	// everyone is the key of a GLOBAL rule for all callers that [WithIdentity]
	// does not name, hashed once instead of on every request, and nil for other
	// rules.
	everyone *store.KeyID
	// local are the bands in the fallback, made when they are first needed and
	// when the share has changed.
	local atomic.Pointer[localBands]
}

// keyedBy returns the active rules for stores with a salt. They are made at the first request,
// however many need them at the same time: those of 10,000 rules take tens of milliseconds.
func (c *Compiled) keyedBy(salt []byte) []keyedRule {
	if known := c.keyed.Load().find(salt); known != nil {
		return known.rules
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.keyed.Load().find(salt)
	if known == nil {
		known = &keyedRules{salt, make([]keyedRule, len(c.active)), c.keyed.Load()}
		for i := range c.active {
			known.rules[i].init(&c.active[i], newKeyPrefix(salt, c.ID(), c.active[i].ID))
		}
		c.keyed.Store(known)
	}
	return known.rules
}

func (k *keyedRules) find(salt []byte) *keyedRules {
	for k != nil && !bytes.Equal(k.salt, salt) {
		k = k.next
	}
	return k
}

func (r *keyedRule) init(rule *compiledRule, prefix keyPrefix) {
	r.compiledRule, r.prefix = rule, prefix
	if rule.Scope == rules.ScopeGlobal {
		// Such a key does not depend on the request.
		id, _, _ := new(keyer).key(rule, &prefix, &Request{})
		r.everyone = &id
	}
}

// key returns the key of a request, as [keyer.key] does.
func (r *keyedRule) key(k *keyer, req *Request) (id store.KeyID, ok bool, err error) {
	if r.everyone != nil && k.identity == nil {
		return *r.everyone, true, nil
	}
	return k.key(r.compiledRule, &r.prefix, req)
}

// localBands are the bands of a rule at a share.
type localBands struct {
	share float64
	of    *store.ExactBand // the first band that they are a share of
	bands []store.ExactBand
}

// localBands returns the bands of the rule at a share of its capacities and rates.
func (r *keyedRule) localBands(share float64, clock store.Store) []store.ExactBand {
	known, now := r.local.Load(), r.bandsNow(clock)
	if known == nil || known.share != share || known.of != &now[0] {
		known = &localBands{share, &now[0], r.bandsAt(now, share)}
		r.local.Store(known)
	}
	return known.bands
}

func (r *compiledRule) bandsAt(now []store.ExactBand, share float64) []store.ExactBand {
	bands := make([]store.ExactBand, len(now))
	for position, b := range r.numbers {
		part := shareOf(b, share)
		exact, err := r.Exact(part, position)
		for err != nil && part.RefillTokens > 1 {
			part.RefillTokens /= 2 // a slower rate that is exact
			exact, err = r.Exact(part, position)
		}
		if err != nil {
			exact = now[position]
		}
		exact.Edges = now[position].Edges
		bands[position] = exact
	}
	return bands
}

// scopeFields are the fields of scopes that have one.
var scopeFields = map[rules.Scope]keyfield.Kind{
	rules.ScopeGlobal: keyfield.Global, rules.ScopeIP: keyfield.IP, rules.ScopeUser: keyfield.User, rules.ScopeAPIKey: keyfield.APIKey,
}

// compileFields are the parts of a valid rule's key.
func compileFields(r *rules.Rule) []keyfield.Field {
	if kind, ok := scopeFields[r.Scope]; ok {
		return []keyfield.Field{{Kind: kind}}
	}
	fields := make([]keyfield.Field, len(r.KeyFields))
	for i, s := range r.KeyFields {
		fields[i], _ = keyfield.Parse(s)
		fields[i].IgnoreCase = r.IgnoreCase
	}
	return fields
}
