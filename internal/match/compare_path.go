package match

import (
	"slices"
	"strings"
)

// coveringLeaves returns the leaves of the patterns that match each path, in each reading, that a
// pattern matches.
func (c *Comparison) coveringLeaves(pattern []segment, folded bool) []int32 {
	m := c.matcher
	leaves := c.appendCovering(nil, &m.trie, recased(pattern, folded, false))
	if m.folded != nil {
		leaves = c.appendCovering(leaves, m.folded, recased(pattern, folded, true))
	}
	return leaves
}

// recased returns a pattern as it is compared with patterns that ignore case or do not. A name in
// any case is more than any of their names: it is like a star.
func recased(pattern []segment, from, to bool) []segment {
	if from == to {
		return pattern
	}
	pattern = slices.Clone(pattern)
	for i := range pattern {
		switch s := &pattern[i]; {
		case s.kind != literal:
		case to:
			s.text = strings.ToLower(s.text)
		default:
			*s = segment{kind: oneSegment}
		}
	}
	return pattern
}

// covers reports whether one of the patterns of a trie matches each path that a pattern matches.
func (c *Comparison) covers(t *trie, pattern []segment) bool {
	return len(c.appendCovering(nil, t, pattern)) > 0
}

// appendCovering appends what was filed for the patterns that match each path that a pattern
// matches. It walks the trie with the pattern in place of a path: only "*" and "**" match a "*",
// and only "**" matches a "**".
func (c *Comparison) appendCovering(dst []int32, t *trie, pattern []segment) []int32 {
	pattern = starsFirst(pattern)
	here := []int32{rootNode}
	var stays []int32               // "**" nodes in reach
	seen := make(map[int32]bool, 8) // nested ones
	for i := 0; ; i++ {
		for _, n := range here {
			a := t.nodes[n].any
			if a == none || seen[a] {
				continue
			}
			if t.nodes[a].nested {
				seen[a] = true
			}
			stays = append(stays, a)
			if accept := t.nodes[a].accept; accept != none {
				dst = append(dst, accept)
			}
		}
		if i == len(pattern) || !c.spend(len(here)+len(stays)) {
			break
		}
		here = t.appendSegment(t.appendSegment(nil, here, &pattern[i]), stays, &pattern[i])
	}
	for _, n := range here {
		if accept := t.nodes[n].accept; accept != none {
			dst = append(dst, accept)
		}
	}
	return dst
}

// appendSegment appends the nodes that match whatever a segment of a pattern matches. Those that
// match "**" stay in reach anyway.
func (t *trie) appendSegment(dst, from []int32, s *segment) []int32 {
	if s.kind == anySegments {
		return dst
	}
	for _, n := range from {
		if child := t.literalChild(n, s); child != none {
			dst = append(dst, child)
		}
		if star := t.nodes[n].star; star != none {
			dst = append(dst, star)
		}
	}
	return dst
}

func (t *trie) literalChild(parent int32, s *segment) int32 {
	if s.kind != literal || !t.nodes[parent].literals {
		return none
	}
	return t.edges.find(parent, s.text)
}

// starsFirst returns a pattern with the same paths in which "**" comes after the "*" beside it.
func starsFirst(pattern []segment) []segment {
	var ordered []segment
	anySegment := false // one is due
	for _, s := range pattern {
		if s.kind == literal && anySegment {
			ordered, anySegment = append(ordered, segment{kind: anySegments}), false
		}
		if s.kind == anySegments {
			anySegment = true
		} else {
			ordered = append(ordered, s)
		}
	}
	if anySegment {
		ordered = append(ordered, segment{kind: anySegments})
	}
	return ordered
}

// meet reports whether two patterns may match the same path. Without steps it is true.
func (c *Comparison) meet(p, q []segment, folded bool) bool {
	if !c.spend((len(p) + 1) * (len(q) + 1)) {
		return true
	}
	// reached[j] is whether the rests of p after i segments and of q after j may match the same.
	reached, before := make([]bool, len(q)+1), make([]bool, len(q)+1)
	for i := len(p); i >= 0; i-- {
		before, reached = reached, before
		for j := len(q); j >= 0; j-- {
			switch {
			case i == len(p) && j == len(q):
				reached[j] = true
			case i < len(p) && p[i].kind == anySegments || j < len(q) && q[j].kind == anySegments:
				reached[j] = i < len(p) && before[j] || j < len(q) && reached[j+1]
			default:
				reached[j] = i < len(p) && j < len(q) && before[j+1] && sameSegment(&p[i], &q[j], folded)
			}
		}
	}
	return reached[0]
}

// sameSegment reports whether two segments other than "**" may match the same name.
func sameSegment(a, b *segment, folded bool) bool {
	return a.kind != literal || b.kind != literal || a.text == b.text ||
		folded && strings.ToLower(a.text) == strings.ToLower(b.text) //nolint:staticcheck // as patterns are folded
}
