// Package memstore keeps buckets in this process: for tests, for services on
// one machine, and as the fallback while a shared store is unavailable. As a
// fallback it is set to the levels of the shared store: see [Store.SetLevel].
//
// It is exact, like every [store.Store], and it is bounded. A bucket is
// dropped when it is full again, since a full bucket and a forgotten one are
// the same. A new bucket always gets a place. If there is no room for it,
// another bucket is evicted:
//
//   - Every rule that has buckets has an equal share of the room. A rule here
//     is a rule of one rule set.
//   - If the rule of the new bucket is below its share, the rule with the most
//     buckets loses one. Otherwise the rule of the new bucket loses one.
//   - Of that rule, the bucket nearest to full is evicted.
//
// So a flood of callers of one rule does not evict the buckets of another rule
// that is within its share. Within a rule, callers that used more tokens are
// kept longer than callers that used few. Two limits remain. Where callers can
// invent identities under one rule, and use up more buckets than its share,
// they evict other buckets of the same rule. And where more rules have buckets
// than there is room for, a rule may keep none.
//
// The store is divided into parts by a hash of the key, and the shares are
// those of each part. A rule whose buckets are close to its share may lose
// some early, because hashes do not spread evenly: a few percent.
//
// An eviction gives the evicted caller a full bucket, which is a loss of state
// in the sense of the exactness guarantee. [Store.Stats] counts evictions.
package memstore
