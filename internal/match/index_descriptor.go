package match

import "slices"

// A descriptorTrie holds the descriptors of rules, entry by entry. It has a root for each
// leaf of the index. A request takes two steps for each of its entries, one for the key
// and one for the value, and one more for each length of the beginnings ("foo*") that
// rules with the same entries so far ask for.
type descriptorTrie struct {
	nodes []descriptorNode
	edges edges // (node, key, value or beginning) → node
}

type descriptorNode struct {
	// rules are those whose descriptor ends here.
	rules list
	// beginnings is the node from which the beginnings of values lead on, of a node
	// that a key led to; none if there are no beginnings. They have a node of their
	// own because a value can have the same text.
	beginnings int32
	lengths    []int // of the beginnings, ascending
}

func (t *descriptorTrie) next(at int32, text string) int32 {
	return t.edges.find(at, text)
}

// appendDescriptor appends the rules that ask for the entries, from a node on. Its depth
// is at most that of the trie, however many entries the request has.
func (x *index) appendDescriptor(dst []candidate, at int32, entries []DescriptorEntry) []candidate {
	t := &x.descriptors
	if len(entries) == 0 {
		return x.appendList(dst, t.nodes[at].rules)
	}
	value := entries[0].Value
	behind := t.next(at, entries[0].Key)
	if behind == none {
		return dst
	}
	if next := t.next(behind, value); next != none {
		dst = x.appendDescriptor(dst, next, entries[1:])
	}
	node := &t.nodes[behind]
	for _, length := range node.lengths {
		if length > len(value) {
			break
		}
		if next := t.next(node.beginnings, value[:length]); next != none {
			dst = x.appendDescriptor(dst, next, entries[1:])
		}
	}
	return dst
}

// A descriptorBuilder collects descriptors before they are laid out as a trie.
type descriptorBuilder struct {
	nodes []descriptorNode
	edges edges
}

func (b *descriptorBuilder) addNode() int32 {
	b.nodes = append(b.nodes, descriptorNode{rules: none, beginnings: none})
	return int32(len(b.nodes) - 1)
}

func (b *descriptorBuilder) child(parent int32, text string) int32 {
	child, known := b.edges[edge{parent, text}]
	if !known {
		child = b.addNode()
		b.edges[edge{parent, text}] = child
	}
	return child
}

// add files rules that have the same keys and forms of values below a root.
func (b *descriptorBuilder) add(root int32, descriptor []entryCondition, rules list) {
	at := root
	for i := range descriptor {
		at = b.child(at, descriptor[i].key)
		if descriptor[i].begin {
			at = b.beginnings(at, len(descriptor[i].text))
		}
		at = b.child(at, descriptor[i].text)
	}
	b.nodes[at].rules = rules
}

// beginnings returns the node from which beginnings lead on, and makes one of a length
// known.
func (b *descriptorBuilder) beginnings(at int32, length int) int32 {
	if b.nodes[at].beginnings == none {
		own := b.addNode()
		b.nodes[at].beginnings = own
	}
	node := &b.nodes[at]
	if i, known := slices.BinarySearch(node.lengths, length); !known {
		node.lengths = slices.Insert(node.lengths, i, length)
	}
	return node.beginnings
}
