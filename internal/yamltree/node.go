package yamltree

import "encoding/json"

// Bounds of one file.
const (
	// MaxDepth is how deep a document may be. A rule set needs about ten.
	MaxDepth = 64
	// MaxValues is how many values a file may have.
	MaxValues = 1_000_000
	// maxTwice is how many keys that stand twice are reported.
	maxTwice = 100
)

// Position is where something stands in a file, counted from 1, columns in
// characters. It is zero where something is wrong with the whole file.
type Position struct{ Line, Column int }

// Kind is what a value is.
type Kind uint8

// The kinds of values.
const (
	Scalar Kind = iota
	List
	Object
)

// Node is one value of a document and where it stands, from whatever format.
type Node struct {
	At     Position
	Kind   Kind
	Value  any // of a scalar: nil, bool, string or json.Number
	Items  []*Node
	Fields []Field
}

// Field is a name in an object and its value.
type Field struct {
	Name  string
	At    Position
	Value *Node
}

// Get is the value of a field, nil if there is none.
func (n *Node) Get(name string) *Node {
	for _, f := range n.Fields {
		if f.Name == name {
			return f.Value
		}
	}
	return nil
}

// IsNull reports whether the value is null or was left out.
func (n *Node) IsNull() bool { return n.Kind == Scalar && n.Value == nil }

// Tree is the value as maps, lists and scalars.
func (n *Node) Tree() any {
	switch n.Kind {
	case List:
		items := make([]any, len(n.Items))
		for i, item := range n.Items {
			items[i] = item.Tree()
		}
		return items
	case Object:
		return n.Map()
	}
	return n.Value
}

// Map is the fields of an object as [Node.Tree] has them.
func (n *Node) Map() map[string]any {
	fields := make(map[string]any, len(n.Fields))
	for _, f := range n.Fields {
		fields[f.Name] = f.Value.Tree()
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

// Flaw is something wrong in the text of a file, before it is about what the
// file says.
type Flaw struct {
	At      Position
	Message string
}

// Error is the message.
func (f *Flaw) Error() string { return f.Message }
