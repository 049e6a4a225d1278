package insight

import (
	"container/heap"
	"maps"
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
	order  []uint16 // a heap of indexes of entries, the lowest count first
	index  map[store.KeyID]uint16
}

// counted is one caller. Nothing in it is allocated.
type counted struct {
	id       store.KeyID
	count    uint32
	place    uint16 // in the order
	named    bool   // whether identity was written
	length   uint8  // of identity
	identity [identityLength]byte
}

// add counts a request of a caller. The entry is new if it belonged to no caller or to
// another one before.
func (s *sketch) add(id *store.KeyID, extra *budget) (e *counted, isNew bool) {
	if e = s.find(id); e != nil {
		e.count++
		heap.Fix(s, int(e.place))
		return e, false
	}
	if len(s.entries) == cap(s.entries) && !s.grow(extra) {
		return s.replace(id), true
	}
	i := len(s.entries)
	s.entries = s.entries[:i+1]
	e = &s.entries[i]
	*e = counted{id: *id, count: s.lowest + 1, place: uint16(i)}
	s.order = append(s.order, uint16(i))
	s.index[*id] = uint16(i)
	heap.Fix(s, i)
	return e, true
}

// replace gives the entry with the lowest count to another caller.
func (s *sketch) replace(id *store.KeyID) *counted {
	i := s.order[0]
	e := &s.entries[i]
	delete(s.index, e.id)
	s.lowest = e.count
	e.id, e.named, e.length = *id, false, 0
	e.count++
	s.index[*id] = i
	heap.Fix(s, 0)
	return e
}

// grow makes room for twice as many callers, if the budget allows it.
func (s *sketch) grow(extra *budget) bool {
	before := cap(s.entries)
	size := min(max(leastCallers, 2*before), mostCallers)
	if size == before || before > 0 && !extra.take(size-before) {
		return false
	}
	index := make(map[store.KeyID]uint16, size)
	maps.Copy(index, s.index)
	s.entries, s.order, s.index = append(make([]counted, 0, size), s.entries...), append(make([]uint16, 0, size), s.order...), index
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
	s.entries, s.order, s.lowest = s.entries[:0], s.order[:0], 0
	clear(s.index)
}

// find returns the entry of a caller, or nil.
func (s *sketch) find(id *store.KeyID) *counted {
	if i, ok := s.index[*id]; ok {
		return &s.entries[i]
	}
	return nil
}

// Len, Less, Swap, Push and Pop implement [heap.Interface]. The last two are not used.
func (s *sketch) Len() int { return len(s.order) }

func (s *sketch) Less(a, b int) bool {
	return s.entries[s.order[a]].count < s.entries[s.order[b]].count
}

func (s *sketch) Swap(a, b int) {
	s.order[a], s.order[b] = s.order[b], s.order[a]
	s.entries[s.order[a]].place, s.entries[s.order[b]].place = uint16(a), uint16(b)
}

func (*sketch) Push(any) {}
func (*sketch) Pop() any { return nil }
