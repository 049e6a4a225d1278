package memstore

import (
	"encoding/binary"

	"github.com/fluxgate/fluxgate/store"
)

const (
	// maxShards is so high that requests with different keys rarely contend:
	// waiting for a lock costs far more than the work under it.
	maxShards = 256
	// shardBuckets is the least a shard has room for if there are several. The
	// smaller shards are, the less evenly keys spread.
	shardBuckets = 1024
)

// newShards divides a bound over as many shards as it fills.
func newShards(maxBuckets int) []shard {
	count := 1
	for count < maxShards && maxBuckets >= 2*count*shardBuckets {
		count *= 2
	}
	shards := make([]shard, count)
	for i := range shards {
		shards[i].entries = make(map[store.KeyID]*entry)
		shards[i].rules = make(map[target]*ruleBuckets)
		shards[i].order[byCount].by = byCount
		shards[i].most = maxBuckets / count
	}
	return shards
}

// shardOf spreads keys, which are hashes, by their first bits.
func (s *Store) shardOf(id store.KeyID) int {
	return int(binary.LittleEndian.Uint64(id[:8]) & uint64(len(s.shards)-1))
}

// lock locks the shards of a request in order, so that requests cannot
// deadlock.
func (s *Store) lock(lookups []lookup) {
	for n := nextShard(lookups, -1); n < maxShards; n = nextShard(lookups, n) {
		s.shards[n].mu.Lock()
	}
}

func (s *Store) unlock(lookups []lookup) {
	for n := nextShard(lookups, -1); n < maxShards; n = nextShard(lookups, n) {
		s.shards[n].mu.Unlock()
	}
}

// nextShard returns the number of the first shard after one, or maxShards.
func nextShard(lookups []lookup, after int) int {
	next := maxShards
	for i := range lookups {
		if n := lookups[i].shardNumber; n > after && n < next {
			next = n
		}
	}
	return next
}
