package filerules

import "encoding/json"

// Bounds of one file.
const (
	// maxDepth is how deep a document may be. A rule set needs about ten.
	maxDepth = 64
	// maxValues is how many values a file may have.
	maxValues = 1_000_000
)

// position is where something stands in a file, counted from 1, columns in
// characters.
type position struct{ line, column int }

type kind uint8

const (
	scalar kind = iota
	list
	object
)

// node is one value of a document and where it stands, from whatever format.
type node struct {
	at     position
	kind   kind
	value  any // of a scalar: nil, bool, string or json.Number
	items  []*node
	fields []field
}

// field is a name in an object and its value.
type field struct {
	name  string
	at    position
	value *node
}

// get is the value of a field, nil if there is none.
func (n *node) get(name string) *node {
	for _, f := range n.fields {
		if f.name == name {
			return f.value
		}
	}
	return nil
}

// tree is the value as the decoder of rule sets takes it.
func (n *node) tree() any {
	switch n.kind {
	case list:
		items := make([]any, len(n.items))
		for i, item := range n.items {
			items[i] = item.tree()
		}
		return items
	case object:
		return n.object()
	}
	return n.value
}

func (n *node) object() map[string]any {
	fields := make(map[string]any, len(n.fields))
	for _, f := range n.fields {
		fields[f.name] = f.value.tree()
	}
	return fields
}

// isNumber reports whether a plain word is a number in JSON.
func isNumber(s string) bool {
	if s == "" || s[0] != '-' && (s[0] < '0' || s[0] > '9') {
		return false
	}
	return json.Valid([]byte(s))
}

// flaw is something wrong in the text of a file, before it is about rules.
type flaw struct {
	at      position
	message string
}

func (f *flaw) Error() string { return f.message }
