package redisstore

import (
	"encoding/base64"
	"encoding/binary"
	"strconv"

	"github.com/fluxgate/fluxgate"
)

// names turns keys into the names they have in Redis:
//
//	fluxgate:{tag}:K0qFhPJzv1m9cB2nGq3xXA
//
// The tag puts the key into its shard's slot, and the rest is the hashed
// identity. After a reset of its rule a generation stands behind it.
type names struct {
	prefix string
	tags   []string
}

func newNames(prefix string, shards int) names {
	return names{prefix: prefix + ":", tags: tagsFor(shards)}
}

// shard is where a key lives. Keys are hashes, so their first bits spread.
func (n *names) shard(id fluxgate.KeyID) int {
	return int(binary.LittleEndian.Uint64(id[:8]) % uint64(len(n.tags)))
}

// key is a key's name.
func (n *names) key(k *fluxgate.Key, g generations) string {
	var space [128]byte
	b := append(space[:0], n.prefix...)
	b = append(b, '{')
	b = append(b, n.tags[n.shard(k.ID)]...)
	b = append(b, '}', ':')
	b = base64.RawURLEncoding.AppendEncode(b, k.ID[:])
	if len(g) > 0 {
		b = g.append(b, k)
	}
	return string(b)
}

// fleet is the name of the record that all gateways agree on.
func (n *names) fleet() string { return n.prefix + "fleet" }

// generations is how often each rule and rule set was reset, by the name of
// its field in the record. A rule of a new generation has new keys, so all of
// its buckets are full; the old ones expire when they would have been full.
type generations map[string]int64

// resetField is where the generation of a rule, or of a rule set, stands in
// the record. Ids have no slash.
func resetField(ruleSet, rule string) string { return "reset/" + ruleSet + "/" + rule }

func (g generations) append(b []byte, k *fluxgate.Key) []byte {
	set, rule := g[resetField(k.RuleSet, "")], g[resetField(k.RuleSet, k.Rule)]
	if set == 0 && rule == 0 {
		return b
	}
	b = append(b, '.')
	b = strconv.AppendInt(b, set, 36)
	b = append(b, '.')
	return strconv.AppendInt(b, rule, 36)
}
