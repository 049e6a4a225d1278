package match

import "strings"

// A trie holds patterns by their segments. A node is a state of the search: it is
// reached when the path so far matches the pattern so far. Nodes are numbered in
// the order in which they were added, which keeps a pattern's own nodes together in
// memory.
type trie struct {
	nodes []node
	edges edges // (node, literal segment) → node
	// longest is the longest tail behind any "**" that is not endless.
	longest uint8
	nested  bool // whether any node is
}

type node struct {
	star int32 // the node after "*", or none
	any  int32 // the node after "**", or none; it is reached together with this one
	// accept is what the trie's owner filed for paths that end here, or none.
	accept int32
	// nested is whether this is a "**" node below another "**": the only ones that a path
	// can reach more than once.
	nested bool
	// tail is how many segments the patterns that go on here with a literal or "*"
	// still want at most, or endless if one of them has a "**". A path with more
	// segments left cannot match any of them.
	tail     uint8
	literals bool // whether edges has any for this node
}

const (
	rootNode = int32(0)
	endless  = 255 // above every tail, since patterns are bounded
)

// appendMatches appends what was filed for the patterns that match a clean path,
// each once.
//
// A segment costs one step for each node in reach. A "**" node stays in reach for the
// rest of the path, so it is entered once, and what follows it is tried only where it
// can still matter: for /**/export that is the last segment. Only a "**" with
// another one behind it is tried all along.
func (t *trie) appendMatches(dst []int32, path string) []int32 {
	var (
		hereBuf, nextBuf, staysBuf, tailsBuf [16]int32

		here  = append(hereBuf[:0], rootNode) // reached by exactly this part of the path
		next  = nextBuf[:0]
		stays = staysBuf[:0] // "**" nodes in reach with an endless tail
		tails = tailsBuf[:0] // "**" nodes in reach with a shorter one
		seen  map[int32]bool // nested "**" nodes, which few patterns have
	)
	if t.nested {
		seen = make(map[int32]bool, 8) // of so many it is not allocated
	}
	rest := path[1:]
	left := 0
	if rest != "" {
		left = strings.Count(path, "/")
	}
	for ; ; left-- {
		for _, n := range here {
			a := t.nodes[n].any
			if a == none {
				continue
			}
			node := &t.nodes[a]
			if node.nested {
				if seen[a] {
					continue
				}
				seen[a] = true
			}
			if node.accept != none {
				dst = append(dst, node.accept)
			}
			switch node.tail {
			case 0:
			case endless:
				stays = append(stays, a)
			default:
				tails = append(tails, a)
			}
		}
		if left == 0 || len(here)+len(stays)+len(tails) == 0 {
			break
		}
		s := step{left: uint8(min(left, endless))}
		s.segment, rest, _ = strings.Cut(rest, "/")
		next = t.appendStep(next[:0], here, &s)
		next = t.appendStep(next, stays, &s)
		if s.left <= t.longest {
			next = t.appendStep(next, tails, &s)
		}
		here, next = next, here
	}
	for _, n := range here {
		if accept := t.nodes[n].accept; accept != none {
			dst = append(dst, accept)
		}
	}
	return dst
}

// A step is one segment of a path.
type step struct {
	segment string
	left    uint8 // segments left, this one included; at most endless
}

// appendStep appends the nodes that a segment leads to. A node has one parent, so as
// long as from holds no node twice, neither does the result.
func (t *trie) appendStep(dst, from []int32, s *step) []int32 {
	for _, n := range from {
		node := &t.nodes[n]
		if node.tail < s.left {
			continue
		}
		if node.literals {
			if child := t.edges.find(n, s.segment); child != none {
				dst = append(dst, child)
			}
		}
		if node.star != none {
			dst = append(dst, node.star)
		}
	}
	return dst
}

// A trieBuilder collects patterns before they are laid out as a trie.
type trieBuilder struct {
	trie
	parents []int32 // of each node
}

func newTrieBuilder() *trieBuilder {
	b := &trieBuilder{trie: trie{edges: newEdges()}}
	b.addNode(none)
	return b
}

func (b *trieBuilder) addNode(parent int32) int32 {
	b.nodes = append(b.nodes, node{star: none, any: none, accept: none})
	b.parents = append(b.parents, parent)
	return int32(len(b.nodes) - 1)
}

// add inserts a pattern and returns its last node.
func (b *trieBuilder) add(pattern []segment) int32 {
	at := rootNode
	below := false // a "**" was passed
	for _, s := range pattern {
		switch s.kind {
		case literal:
			at = b.addLiteral(at, s.text)
		case oneSegment:
			if b.nodes[at].star == none {
				child := b.addNode(at)
				b.nodes[at].star = child
			}
			at = b.nodes[at].star
		case anySegments:
			if b.nodes[at].any == none {
				child := b.addNode(at)
				b.nodes[at].any = child
				b.nodes[child].nested = below
				b.nested = b.nested || below
			}
			at = b.nodes[at].any
			below = true
		}
	}
	return at
}

func (b *trieBuilder) addLiteral(parent int32, text string) int32 {
	child := b.edges.find(parent, text)
	if child == none {
		child = b.addNode(parent)
		b.edges.add(parent, text, child)
		b.nodes[parent].literals = true
	}
	return child
}

// build lays the patterns out. The builder is used up.
func (b *trieBuilder) build() trie {
	b.measureTails()
	for i := range b.nodes {
		if a := b.nodes[i].any; a != none && b.nodes[a].tail != endless {
			b.longest = max(b.longest, b.nodes[a].tail)
		}
	}
	return b.trie
}

// measureTails sets the tail of every node. A child has a higher number than its
// parent, so from the last node to the first every child is done before.
func (b *trieBuilder) measureTails() {
	for n := len(b.nodes) - 1; n > 0; n-- {
		parent := &b.nodes[b.parents[n]]
		if parent.any == int32(n) {
			continue
		}
		tail := uint8(endless)
		if child := &b.nodes[n]; child.any == none && child.tail != endless {
			tail = child.tail + 1
		}
		parent.tail = max(parent.tail, tail)
	}
}
