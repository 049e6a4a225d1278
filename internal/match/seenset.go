package match

import "slices"

// A seenSet remembers small numbers during one match. The first few are kept on the
// stack; only a match that meets more of them pays for a bit per possible number, so
// that a hostile rule set costs memory once and not time on every lookup.
type seenSet struct {
	few   [16]int32
	count int
	bits  []uint64 // nil while few is enough
}

// has reports whether v was added.
func (s *seenSet) has(v int32) bool {
	if s.bits != nil {
		return s.bits[v/64]&(1<<(v%64)) != 0
	}
	return slices.Contains(s.few[:s.count], v)
}

// add adds v, which is below limit, and reports whether it is new. Every call for
// one set gives the same limit.
func (s *seenSet) add(v, limit int32) bool {
	if s.has(v) {
		return false
	}
	if s.bits == nil {
		if s.count < len(s.few) {
			s.few[s.count] = v
			s.count++
			return true
		}
		s.bits = make([]uint64, limit/64+1)
		for _, w := range s.few {
			s.bits[w/64] |= 1 << (w % 64)
		}
	}
	s.bits[v/64] |= 1 << (v % 64)
	return true
}
