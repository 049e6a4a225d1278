package match

import "slices"

// A descriptorTrie holds the descriptors of rules, entry by entry. It has a root for each
// leaf of the index. From each node a request takes two steps for its next entry, one for
// the key and one for the value, and one more for each length of the beginnings ("foo*") that
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

func (t *descriptorTrie) next(at int32, text string) int32 { return t.edges.find(at, text) }

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

func (t *descriptorTrie) addNode() int32 {
	t.nodes = append(t.nodes, descriptorNode{rules: none, beginnings: none})
	return int32(len(t.nodes) - 1)
}

func (t *descriptorTrie) child(parent int32, text string) int32 {
	child := t.next(parent, text)
	if child == none {
		child = t.addNode()
		t.edges.add(parent, text, child)
	}
	return child
}

// add files rules that have the same keys and forms of values below a root.
func (t *descriptorTrie) add(root int32, descriptor []entryCondition, rules list) {
	at := root
	for i := range descriptor {
		at = t.child(at, descriptor[i].key)
		if descriptor[i].begin {
			at = t.beginnings(at, len(descriptor[i].text))
		}
		at = t.child(at, descriptor[i].text)
	}
	t.nodes[at].rules = rules
}

// beginnings returns the node from which beginnings lead on, and makes one of a length
// known.
func (t *descriptorTrie) beginnings(at int32, length int) int32 {
	if t.nodes[at].beginnings == none {
		own := t.addNode()
		t.nodes[at].beginnings = own
	}
	node := &t.nodes[at]
	if i, known := slices.BinarySearch(node.lengths, length); !known {
		node.lengths = slices.Insert(node.lengths, i, length)
	}
	return node.beginnings
}
