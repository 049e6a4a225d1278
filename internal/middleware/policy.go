package middleware

import (
	"hash/maphash"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// ruleNames is the constant part of the headers for a rule.
type ruleNames struct {
	id       string
	measure  string
	bands    []rules.Band
	names    []string // the name of each band's policy, with its quotes
	policies []string // its entry in the RateLimit-Policy list; empty if that cannot have it
}

// PolicyName returns the name of a band in headers and in problem documents: "rule.band", or
// "rule/band" if one of both has a dot. No two bands share one, since neither can have a slash.
func PolicyName(rule, band string) string {
	if strings.Contains(rule, ".") || strings.Contains(band, ".") {
		return rule + "/" + band
	}
	return rule + "." + band
}

func newRuleNames(r *rules.Rule) *ruleNames {
	n := &ruleNames{id: r.ID, measure: r.Measure(), bands: slices.Clone(r.Bands)}
	for i := range r.Bands {
		b := &r.Bands[i]
		name, policy := quote(PolicyName(r.ID, b.Name())), ""
		if hasUnit(n.measure, b) {
			policy = policyOf(name, b.Capacity, b)
		}
		n.names, n.policies = append(n.names, name), append(n.policies, policy)
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

// hasUnit reports whether the lists can have a band. Their registered units are requests, bytes
// and concurrent requests; clients take a number without a unit, or with another, for requests.
// So limits of money and tokens are left out.
func hasUnit(measure string, b *rules.Band) bool {
	return b.Kind == rules.Concurrency || measure == rules.MeasureRequests
}

// policyOf returns an entry of the RateLimit-Policy list: the limit, its unit if that
// is not requests, and the time in which an empty band becomes full. The periods of a quota have no fixed length,
// requests at the same time have no period, and one of less than a second cannot be written.
func policyOf(name string, limit int64, b *rules.Band) string {
	text := append([]byte(name), ";q="...)
	text = strconv.AppendInt(text, min(limit, maxInteger), 10)
	switch {
	case b.Kind == rules.Concurrency:
		text = append(text, `;qu="concurrent-requests"`...)
	case b.Kind != rules.Quota && window(b) >= time.Second:
		text = strconv.AppendInt(append(text, ";w="...), CeilSeconds(window(b)), 10)
	}
	return string(text)
}

// window returns how long an empty token bucket or sliding window takes to become full: a
// caller within the quota in this window is never rejected. Valid rules are full within decades.
func window(b *rules.Band) time.Duration {
	high, low := bits.Mul64(uint64(b.Capacity), uint64(b.Refill))
	full, _ := bits.Div64(high, low, uint64(b.Tokens()))
	return time.Duration(full)
}

// quote makes a structured field's string of a name. Names of rules and bands
// have no characters that would have to be escaped.
func quote(name string) string { return `"` + name + `"` }
