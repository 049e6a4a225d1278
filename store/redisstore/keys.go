package redisstore

import (
	"encoding/base64"
	"encoding/binary"
	"maps"
	"strconv"
	"strings"

	"github.com/fluxgate/fluxgate/store"
)

// names turns keys into the names they have in Redis:
//
//	fluxgate:{tag}:K0qFhPJzv1m9cB2nGq3xXA
//
// The tag puts the key into its shard's slot, and the rest is the hashed
// identity. After a reset of its rule or rule set the generation follows it.
type names struct {
	prefix string
	tags   []string
}

// shard returns the shard of a key. Keys are hashes, so their first bits are
// uniform.
func (n *names) shard(id store.KeyID) int {
	return int(binary.LittleEndian.Uint64(id[:8]) % uint64(len(n.tags)))
}

// key is a key's name.
func (n *names) key(k *store.Key, g generations) string { return string(n.appendKey(nil, k, g)) }

func (n *names) appendKey(b []byte, k *store.Key, g generations) []byte {
	b = append(b, n.prefix...)
	b = append(b, '{')
	b = append(b, n.tags[n.shard(k.ID)]...)
	b = append(b, '}', ':')
	b = base64.RawURLEncoding.AppendEncode(b, k.ID[:])
	if len(g) > 0 {
		b = g.append(b, k)
	}
	return b
}

const holdersSuffix = ":holders"

// holdersOf is the key of the requests that hold slots of a bucket set, in its slot.
func holdersOf(key string) string { return key + holdersSuffix }

// probe is a key in the slot of a shard. It does not exist.
func (n *names) probe(shard int) string { return n.prefix + "{" + n.tags[shard] + "}:probe" }

// fleet is the key of the fleet state.
func (n *names) fleet() string { return n.prefix + "fleet" }

// resets is the channel on which resets are announced.
func (n *names) resets() string { return n.prefix + "resets" }

// generations is when each rule and rule set was last reset, by its field in
// the fleet state. A rule of a new generation has new keys, so all of its
// buckets are full; the old ones expire when they would have been full. No
// generation of a rule set and its rules is used twice.
type generations map[string]int64

// resetField is the field of the generation of a rule, or of a rule set. Ids
// have no slash.
func resetField(ruleSet, rule string) string { return "reset/" + ruleSet + "/" + rule }

// forgotField is the field of the generation before which resets of rules that
// have no field were forgotten.
func forgotField(ruleSet string) string { return "forgot/" + ruleSet }

// splitField returns the rule set and the rule of a generation field.
func splitField(field string) (ruleSet, rule string, ok bool) {
	if ruleSet, ok = strings.CutPrefix(field, "forgot/"); ok {
		return ruleSet, "", true
	}
	ids, ok := strings.CutPrefix(field, "reset/")
	ruleSet, rule, _ = strings.Cut(ids, "/")
	return ruleSet, rule, ok
}

// rulesOf are the fields of the rules of a rule set.
func (g generations) rulesOf(ruleSet string) []string {
	var fields []string
	for field := range g {
		if of, rule, _ := splitField(field); of == ruleSet && rule != "" {
			fields = append(fields, field)
		}
	}
	return fields
}

// last is the last generation of a rule set and its rules.
func (g generations) last(ruleSet string) (last int64) {
	for field, n := range g {
		if of, _, _ := splitField(field); of == ruleSet {
			last = max(last, n)
		}
	}
	return last
}

// tidy drops rules whose reset is older than that of their rule set.
func (g generations) tidy() {
	maps.DeleteFunc(g, func(field string, n int64) bool {
		ruleSet, rule, _ := splitField(field)
		return rule != "" && n < g[resetField(ruleSet, "")]
	})
}

// forget drops rules that the fleet state has forgotten. A fleet state that was
// lost has not forgotten anything.
func (g generations) forget(found map[string]string) {
	maps.DeleteFunc(g, func(field string, n int64) bool {
		ruleSet, rule, _ := splitField(field)
		_, there := found[field]
		forgot, _ := strconv.ParseInt(found[forgotField(ruleSet)], 10, 64) // 0 if absent
		return rule != "" && !there && n < forgot
	})
}

func (g generations) append(b []byte, k *store.Key) []byte {
	last := max(g[resetField(k.RuleSet, "")], g[resetField(k.RuleSet, k.Rule)])
	if last == 0 {
		return b
	}
	return strconv.AppendInt(append(b, '.'), last, 36)
}
