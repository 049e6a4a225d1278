package insight

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/fluxgate/fluxgate/store"
)

const (
	// leastCallers is how many callers every list can hold, and mostCallers how many at
	// most, if the budget of the server has them.
	leastCallers = 8
	mostCallers  = 512
	// identityLength is how many bytes of an identity are kept.
	identityLength = 64
)

// budget is how many callers all lists may hold beyond their own.
type budget struct{ left atomic.Int64 }

func (b *budget) take(n int) bool {
	if b.left.Add(int64(-n)) >= 0 {
		return true
	}
	b.left.Add(int64(n))
	return false
}

func (b *budget) giveBack(n int) { b.left.Add(int64(n)) }

// sketch counts the callers with the most requests in a stream of any number of them
// (Space-Saving, Metwally, Agrawal and El Abbadi, 2005). A caller that is not in it takes
// the place of the one with the lowest count and continues that count: so counts are too
// high, by at most the count that was there. In a sketch that has grown since, it continues
// the last count that was replaced: it may have made as many requests before. A caller
// with more requests than that is always in it.
type sketch struct {
	entries []counted
	// lowest is the last count that was replaced, and the highest: the most requests
	// that a caller that is not in the sketch can have made.
	lowest uint32
	heap   []uint16 // indexes of entries, the lowest count first
	table  []uint16 // index + 1 of the entry of a key, by open addressing; 0 is free
}

// counted is one caller. Nothing in it is allocated.
type counted struct {
	id          store.KeyID
	count, over uint32 // over is how much of count may be of others
	place       uint16 // in the heap
	named       bool   // whether identity was written
	length      uint8  // of identity
	identity    [identityLength]byte
}

// add counts a request of a caller. The entry is new if it belonged to no caller or to
// another one before.
func (s *sketch) add(id *store.KeyID, extra *budget) (e *counted, isNew bool) {
	at := s.slot(id)
	if at < len(s.table) && s.table[at] != 0 {
		e = &s.entries[s.table[at]-1]
		e.count++
		s.down(int(e.place))
		return e, false
	}
	if len(s.entries) == cap(s.entries) && !s.grow(extra) {
		return s.replace(id), true
	}
	i := len(s.entries)
	s.entries = s.entries[:i+1]
	e = &s.entries[i]
	*e = counted{id: *id, count: s.lowest + 1, over: s.lowest, place: uint16(i)}
	s.heap = append(s.heap, uint16(i))
	s.table[s.slot(id)] = uint16(i + 1)
	s.up(i)
	return e, true
}

// replace gives the entry with the lowest count to another caller.
func (s *sketch) replace(id *store.KeyID) *counted {
	i := s.heap[0]
	e := &s.entries[i]
	s.remove(s.slot(&e.id))
	s.lowest = e.count
	e.id, e.over, e.named, e.length = *id, e.count, false, 0
	e.count++
	s.table[s.slot(id)] = i + 1
	s.down(0)
	return e
}

// grow makes room for twice as many callers, if the budget allows it.
func (s *sketch) grow(extra *budget) bool {
	before := cap(s.entries)
	size := min(max(leastCallers, 2*before), mostCallers)
	if size == before || before > 0 && !extra.take(size-before) {
		return false
	}
	entries, heap := make([]counted, len(s.entries), size), make([]uint16, len(s.heap), size)
	copy(entries, s.entries)
	copy(heap, s.heap)
	s.entries, s.heap, s.table = entries, heap, make([]uint16, 2*size)
	for i := range s.entries {
		s.table[s.slot(&s.entries[i].id)] = uint16(i + 1)
	}
	return true
}

// reset forgets all callers and keeps the room for them, or gives it back if there were
// none.
func (s *sketch) reset(extra *budget) {
	if len(s.entries) == 0 {
		extra.giveBack(max(0, cap(s.entries)-leastCallers))
		*s = sketch{}
		return
	}
	s.entries, s.heap, s.lowest = s.entries[:0], s.heap[:0], 0
	clear(s.table)
}

// find returns the entry of a caller, or nil.
func (s *sketch) find(id *store.KeyID) *counted {
	if at := s.slot(id); at < len(s.table) && s.table[at] != 0 {
		return &s.entries[s.table[at]-1]
	}
	return nil
}

// slot returns the place of a key in the table: its own, or the free one where it would
// be. Keys are hashes. The table has a power of two of places, half of which are free.
func (s *sketch) slot(id *store.KeyID) int {
	if len(s.table) == 0 {
		return 0
	}
	at := s.home(id)
	for s.table[at] != 0 && s.entries[s.table[at]-1].id != *id {
		at = (at + 1) & (len(s.table) - 1)
	}
	return at
}

func (s *sketch) home(id *store.KeyID) int {
	return int(binary.LittleEndian.Uint64(id[:8])) & (len(s.table) - 1)
}

// remove frees a place of the table, and moves the keys that follow to where they are
// looked for.
func (s *sketch) remove(at int) {
	mask := len(s.table) - 1
	for next := (at + 1) & mask; s.table[next] != 0; next = (next + 1) & mask {
		home := s.home(&s.entries[s.table[next]-1].id)
		if (next-home)&mask >= (next-at)&mask {
			s.table[at] = s.table[next]
			at = next
		}
	}
	s.table[at] = 0
}

// up and down restore the order of the heap.
func (s *sketch) up(place int) {
	for place > 0 {
		parent := (place - 1) / 2
		if s.count(parent) <= s.count(place) {
			return
		}
		s.swap(place, parent)
		place = parent
	}
}

func (s *sketch) down(place int) {
	for {
		least := 2*place + 1
		if least >= len(s.heap) {
			return
		}
		if right := least + 1; right < len(s.heap) && s.count(right) < s.count(least) {
			least = right
		}
		if s.count(place) <= s.count(least) {
			return
		}
		s.swap(place, least)
		place = least
	}
}

func (s *sketch) count(place int) uint32 { return s.entries[s.heap[place]].count }

func (s *sketch) swap(a, b int) {
	s.heap[a], s.heap[b] = s.heap[b], s.heap[a]
	s.entries[s.heap[a]].place, s.entries[s.heap[b]].place = uint16(a), uint16(b)
}
