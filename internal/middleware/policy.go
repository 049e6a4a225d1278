package middleware

import (
	"hash/maphash"
	"math/bits"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// ruleNames is the constant part of the headers for a rule.
type ruleNames struct {
	id       string
	measure  string
	bands    []rules.Band
	names    []string // "rule.band", with its quotes, of each band
	policies []string // its entry in the RateLimit-Policy list
}

func newRuleNames(r *rules.Rule) *ruleNames {
	n := &ruleNames{id: r.ID, measure: r.Measure(), bands: slices.Clone(r.Bands)}
	for i := range r.Bands {
		b := &r.Bands[i]
		name := quote(r.ID + "." + b.Name())
		n.names = append(n.names, name)
		n.policies = append(n.policies, policyOf(name, n.measure, b.Capacity, b))
	}
	return n
}

// describes reports whether the names are those of a rule. A reloaded rule is
// another one in memory, mostly with the same content.
func (n *ruleNames) describes(r *rules.Rule) bool {
	return n.id == r.ID && n.measure == r.Measure() && slices.Equal(n.bands, r.Bands)
}

// nameCache caches names. Rules share its slots by the hashes of their ids, so its
// size is fixed and it keeps no rule set in memory.
type nameCache struct {
	seed  maphash.Seed
	slots [1024]atomic.Pointer[ruleNames]
}

func newNameCache() *nameCache { return &nameCache{seed: maphash.MakeSeed()} }

func (c *nameCache) of(r *rules.Rule) *ruleNames {
	slot := &c.slots[maphash.String(c.seed, r.ID)%uint64(len(c.slots))]
	if known := slot.Load(); known != nil && known.describes(r) {
		return known
	}
	names := newRuleNames(r)
	slot.Store(names)
	return names
}

// policyOf returns an entry of the RateLimit-Policy list: the limit, its unit if that
// is not requests, and the time in which an empty band becomes full. The periods of a quota have no fixed length,
// and requests at the same time have no period.
func policyOf(name, measure string, limit int64, b *rules.Band) string {
	text := append([]byte(name), ";q="...)
	text = strconv.AppendInt(text, min(limit, maxInteger), 10)
	if measure != rules.MeasureRequests {
		text = append(append(text, ";qu="...), quote(measure)...)
	}
	if b.Kind == rules.Quota || b.Kind == rules.Concurrency {
		return string(text)
	}
	text = append(text, ";w="...)
	return string(strconv.AppendInt(text, window(b), 10))
}

// window returns how long an empty band takes to become full, in seconds, rounded
// up: a caller within the quota in this window is never rejected. Valid rules are
// full within decades.
func window(b *rules.Band) int64 {
	high, low := bits.Mul64(uint64(b.Capacity), uint64(b.Refill))
	full, _ := bits.Div64(high, low, uint64(b.Tokens()))
	return CeilSeconds(time.Duration(full))
}

// quote makes a structured field's string of a name. Names of rules and bands
// have no characters that would have to be escaped.
func quote(name string) string { return `"` + name + `"` }
