package match

import (
	"slices"
	"strings"
)

// A choice is one condition under which a rule can be filed: all the values with
// which it holds.
type choice []anchorValue

type anchorValue struct {
	anchorID
	value string
}

func newChoice(id anchorID, values []string) choice {
	c := make(choice, 0, len(values))
	for _, value := range distinct(values) {
		c = append(c, anchorValue{id, value})
	}
	return c
}

// distinct returns the values without repetitions, in the order of their first.
func distinct[T comparable](values []T) []T {
	seen := make(map[T]struct{}, len(values))
	var result []T
	for _, v := range values {
		if _, known := seen[v]; !known {
			seen[v] = struct{}{}
			result = append(result, v)
		}
	}
	return result
}

// An indexBuilder files rules, one leaf after the other.
type indexBuilder struct {
	rules   []rule
	choices [][]choice // by rule
	leaves  [][]int32  // by rule
	index   index
}

func newIndexBuilder(rules []rule, choices [][]choice) *indexBuilder {
	return &indexBuilder{
		rules: rules, choices: choices, leaves: make([][]int32, len(rules)),
		index: index{values: newEdges(), descriptors: descriptorTrie{edges: newEdges()}},
	}
}

// addLeaf files ascending rules at a new leaf and returns its number.
func (b *indexBuilder) addLeaf(rules []int32) int32 {
	var open []candidate
	var values []anchorValue // in the order of their first rule
	filed := make(map[anchorValue][]candidate)
	shared := b.countValues(rules)
	number := int32(len(b.index.leaves))
	for _, r := range rules {
		b.leaves[r] = append(b.leaves[r], number)
		best := leastShared(b.choices[r], shared)
		if best == nil || len(rules) <= scanLimit {
			open = append(open, newCandidate(r, b.rules[r].when == nil))
			continue
		}
		c := newCandidate(r, b.rules[r].when.count == 1) // it is filed under its only condition
		for _, v := range best {
			if filed[v] == nil {
				values = append(values, v)
			}
			filed[v] = append(filed[v], c)
		}
	}
	p := leaf{open: b.addList(open), firstAnchor: int32(len(b.index.anchors))}
	numbers := make(map[anchorID]int32)
	for _, v := range values {
		id, known := numbers[v.anchorID]
		if !known {
			id = int32(len(b.index.anchors))
			numbers[v.anchorID] = id
			b.index.anchors = append(b.index.anchors, b.newAnchor(v.anchorID))
		}
		a := &b.index.anchors[id]
		if v.kind == byDescriptor {
			first := &b.rules[filed[v][0].rule()] // all of them have the same descriptor
			b.index.descriptors.add(a.root, first.when.descriptor, b.addList(filed[v]))
			continue
		}
		if v.kind == byHost {
			a.longest = max(a.longest, suffixLength(v.value))
		}
		b.index.values.add(id, v.value, b.addList(filed[v]))
	}
	p.anchorCount = int32(len(numbers))
	b.index.leaves = append(b.index.leaves, p)
	return number
}

func (b *indexBuilder) newAnchor(id anchorID) anchor {
	a := anchor{anchorID: id, lower: strings.ToLower(id.name)}
	if id.kind == byDescriptor {
		a.root = b.index.descriptors.addNode()
	}
	return a
}

// countValues counts for every value how many of the rules hold with it.
func (b *indexBuilder) countValues(rules []int32) map[anchorValue]int {
	if len(rules) <= scanLimit {
		return nil
	}
	shared := make(map[anchorValue]int)
	for _, r := range rules {
		for _, c := range b.choices[r] {
			for _, v := range c {
				shared[v]++
			}
		}
	}
	return shared
}

// leastShared returns the condition that leaves a request with the fewest other
// rules to look at, or nil if the rule has none to be filed under.
func leastShared(choices []choice, shared map[anchorValue]int) choice {
	var best choice
	fewest := 0
	for _, c := range choices {
		most := 0
		for _, v := range c {
			most = max(most, shared[v])
		}
		if best == nil || most < fewest {
			best, fewest = c, most
		}
	}
	return best
}

func (b *indexBuilder) addList(candidates []candidate) list {
	switch len(candidates) {
	case 0:
		return none
	case 1:
		return none - 1 - list(candidates[0])
	}
	b.index.lists = append(b.index.lists, slices.Clone(candidates))
	return list(len(b.index.lists) - 1)
}

// build returns the index. The builder is used up.
func (b *indexBuilder) build() index {
	b.index.lists = slices.Clip(b.index.lists)
	return b.index
}
