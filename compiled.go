package fluxgate

import (
	"bytes"
	"fmt"
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
	active   []compiledRule // the enabled rules, also those that have ended, in the order they are evaluated
	byID     map[string]int // the index of each in active
	replaces bool           // a rule has Replaces
	ends     bool           // a rule has an end
	matcher  *match.Matcher

	mu sync.Mutex // of those who make an entry of keyed
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
	// secrets is whether the key has parts of which overrides have digests.
	secrets bool
	shadow  bool
}

// Compile compiles a rule set for engines. Every valid rule set compiles.
func Compile(set *rules.Set) (*Compiled, error) {
	c := &Compiled{Set: set, byID: make(map[string]int, set.Len())}
	patterns := make([]match.Rule, 0, set.Len())
	for i := range set.Len() {
		rule := set.At(i)
		if rule.Disabled {
			continue
		}
		r, err := compileRule(rule)
		if err != nil {
			return nil, fmt.Errorf("compiling rule %s of rule set %s: %w", printable.Quote(rule.ID), printable.Quote(set.ID()), err)
		}
		c.byID[rule.ID] = len(c.active)
		c.replaces = c.replaces || len(rule.Replaces) > 0
		c.ends = c.ends || !rule.Until.IsZero()
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

// rulesAt is a rule set at a moment of the store's clock: rules that have ended do not apply.
// One is used for all of a request.
type rulesAt struct {
	*Compiled       // nil if there is no rule set
	now       int64 // in microseconds since 1970; not read if no rule has an end
}

// at returns the rule set at the time of a store.
func (c *Compiled) at(clock store.Store) rulesAt {
	if c == nil || !c.ends {
		return rulesAt{Compiled: c}
	}
	return rulesAt{c, clock.Now().UnixMicro()}
}

// match returns the rules that apply to a request. It uses the space of dst.
func (s rulesAt) match(req *Request, dst []int32) match.Matches {
	asked := req.matching(s.now)
	return s.matcher.Match(&asked, dst)
}

// ended reports whether a rule has ended.
func (s rulesAt) ended(r *rules.Rule) bool { return !r.Until.IsZero() && r.Until.UnixMicro() <= s.now }

// compileRule compiles a rule but for its prices.
func compileRule(rule *rules.Rule) (r compiledRule, err error) {
	r = compiledRule{Rule: rule, shadow: rule.Mode == rules.ModeShadow, fields: compileFields(rule), shown: rule.Bands}
	r.byAddress = (rule.OnMissingIdentity == "" || rule.OnMissingIdentity == rules.MissingIP) &&
		!slices.ContainsFunc(r.fields, func(f keyfield.Field) bool { return f.Kind == keyfield.IP })
	r.secrets = slices.ContainsFunc(r.fields, keyfield.Field.Secret)
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
