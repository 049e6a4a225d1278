package match

import (
	"hash/maphash"
	"slices"
)

// none means "no node", "no rule list", "no entry".
const none = int32(-1)

// edges maps (owner, text) to a number in one flat array: with thousands of rules a lookup
// reads half as many places that are not in the cache as with a Go map. The hash is seeded, so
// that no caller can choose texts that collide.
type edges struct {
	seed  maphash.Seed
	slots []edge // a power of two of them, at most half of them in use; the others have none
	used  int
}

type edge struct {
	owner, number int32
	text          string
}

func newEdges() edges { return edges{seed: maphash.MakeSeed(), slots: []edge{{number: none}}} }

// find returns the number of an owner and a text, or none.
func (e *edges) find(owner int32, text string) int32 { return e.slot(owner, text).number }

// slot returns the slot of an owner and a text, or the free one where the search for it ends.
// The odd multiplier keeps the owners of one text apart.
func (e *edges) slot(owner int32, text string) *edge {
	mask := uint64(len(e.slots) - 1)
	for i := maphash.String(e.seed, text) ^ uint64(uint32(owner))*0x9e3779b97f4a7c15; ; i++ {
		s := &e.slots[i&mask]
		if s.number == none || s.owner == owner && s.text == text {
			return s
		}
	}
}

// add files a number under an owner and a text that have none.
func (e *edges) add(owner int32, text string, number int32) {
	if e.used++; 2*e.used > len(e.slots) {
		former := e.slots
		e.slots = slices.Repeat([]edge{{number: none}}, 4*len(former))
		for _, s := range former {
			if s.number != none {
				*e.slot(s.owner, s.text) = s
			}
		}
	}
	*e.slot(owner, text) = edge{owner, number, text}
}
