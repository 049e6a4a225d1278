package match

import "hash/maphash"

// none means "no node", "no rule list", "no entry".
const none = int32(-1)

// A hashTable maps (owner, text) to a number. It is one flat array for all owners
// instead of a Go map for each: a lookup touches one slot and the text it names, and
// there are no pointers for the garbage collector to follow.
//
// The hash is seeded per table, so that no caller can choose texts that collide.
type hashTable struct {
	seed  maphash.Seed
	slots []slot // a power of two of them, at least one of them free
	texts string // every distinct text, one after the other
}

type slot struct {
	owner       int32 // none in a free slot
	value       int32
	tag         uint32 // upper half of the hash: spares comparing most other texts
	start, size uint32 // of the text in texts
}

// hash returns the hash of a text, to be used in find for any number of owners.
func (t *hashTable) hash(text string) uint64 {
	return maphash.String(t.seed, text)
}

// find returns the value filed under owner and text, or none.
func (t *hashTable) find(owner int32, hash uint64, text string) int32 {
	spot := spread(owner, hash)
	tag := uint32(spot >> 32)
	mask := uint64(len(t.slots) - 1)
	for i := spot & mask; ; i = (i + 1) & mask {
		s := &t.slots[i]
		if s.owner == none {
			return none
		}
		if s.tag == tag && s.owner == owner && t.texts[s.start:s.start+s.size] == text {
			return s.value
		}
	}
}

// spread gives each owner its own order of the slots. The hash is uniform already;
// the odd multiplier only keeps neighbouring owners apart.
func spread(owner int32, hash uint64) uint64 {
	return hash ^ uint64(uint32(owner))*0x9e3779b97f4a7c15
}

// An entry is what a hashTable finds a number by.
type entry struct {
	owner int32
	text  string
}

// newHashTable builds the table of the given entries. Their texts have less than 4 GiB, since
// rule sets are bounded.
func newHashTable(entries map[entry]int32) hashTable {
	size := 1
	for size < len(entries)+len(entries)/2+1 { // at most two thirds full
		size *= 2
	}
	t := hashTable{seed: maphash.MakeSeed(), slots: make([]slot, size)}
	for i := range t.slots {
		t.slots[i].owner = none
	}
	starts := make(map[string]uint32) // equal texts are kept once, and stay in the cache
	var texts []byte
	for e, value := range entries {
		start, known := starts[e.text]
		if !known {
			start = uint32(len(texts))
			starts[e.text] = start
			texts = append(texts, e.text...)
		}
		spot := spread(e.owner, t.hash(e.text))
		i := spot & uint64(size-1)
		for t.slots[i].owner != none {
			i = (i + 1) & uint64(size-1)
		}
		t.slots[i] = slot{owner: e.owner, value: value, tag: uint32(spot >> 32), start: start, size: uint32(len(e.text))}
	}
	t.texts = string(texts)
	return t
}
