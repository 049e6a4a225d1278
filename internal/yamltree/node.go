package yamltree

import (
	"encoding/json"
	"fmt"
)

// Bounds of one file.
const (
	// MaxDepth is how deep a document may be. A rule set needs about ten.
	MaxDepth = 64
	// MaxValues is how many values a file may have.
	MaxValues = 1_000_000
	// maxDuplicates is how many duplicate keys are reported.
	maxDuplicates = 100
)

// Position is where a value was written. It is zero for a problem with a whole
// file.
type Position struct {
	// Line and Column count from 1, columns in characters.
	Line, Column int
	// Source names what a value comes from that is not in the file, such as an
	// environment variable.
	Source string
}

// Kind is what a value is.
type Kind uint8

// The kinds of values.
const (
	Scalar Kind = iota
	List
	Object
)

// Node is one value of a document and where it was written.
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

// add adds a field to an object. A value that was left out is at its name.
func (n *Node) add(f Field) {
	if f.Value.IsNull() {
		f.Value.At = f.At
	}
	n.Fields = append(n.Fields, f)
}

// Field is the field of a name, nil if there is none.
func (n *Node) Field(name string) *Field {
	for i := range n.Fields {
		if n.Fields[i].Name == name {
			return &n.Fields[i]
		}
	}
	return nil
}

// Get is the value of a field, nil if there is none.
func (n *Node) Get(name string) *Node {
	if f := n.Field(name); f != nil {
		return f.Value
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

// isNumber reports whether a string without quotes is a number in JSON.
func isNumber(s string) bool {
	if s == "" || s[0] != '-' && (s[0] < '0' || s[0] > '9') {
		return false
	}
	return json.Valid([]byte(s))
}

// Flaw is an error in the text of a file, before its values are looked at.
type Flaw struct {
	At      Position
	Message string
}

// Error is the message.
func (f *Flaw) Error() string { return f.Message }

func tooManyValues(at Position) *Flaw {
	return &Flaw{at, fmt.Sprintf("a file can have %d values: split it", MaxValues)}
}

func tooDeep(at Position) *Flaw {
	return &Flaw{at, fmt.Sprintf("nested deeper than %d levels", MaxDepth)}
}

// noteDuplicate notes a name that an object has twice.
func noteDuplicate(flaws []Flaw, names map[string]Position, f Field) []Flaw {
	if first, duplicate := names[f.Name]; duplicate && len(flaws) < maxDuplicates {
		flaws = append(flaws, Flaw{f.At, fmt.Sprintf("duplicate key %s, first in line %d", Quote(f.Name), first.Line)})
	}
	names[f.Name] = f.At
	return flaws
}
