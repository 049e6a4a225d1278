package yamltree

import (
	"encoding/json"
	"fmt"

	"github.com/fluxgate/fluxgate/internal/printable"
)

// Limits of one file.
const (
	// MaxDepth is the maximum depth of a document. A rule set needs about ten.
	MaxDepth = 64
	// MaxValues is how many values a file may have.
	MaxValues = 1_000_000
	// maxDuplicates is how many duplicate keys are reported.
	maxDuplicates = 100
)

// Position is where a value was written. It is zero for a problem with a whole file.
type Position struct {
	// Line and Column count from 1, columns in characters.
	Line, Column int
	// Source names the source of a value that is not in the file, such as an
	// environment variable.
	Source string
}

// Kind is the kind of a value.
type Kind uint8

// The kinds of values.
const (
	Scalar Kind = iota
	List
	Object
)

// Node is one value of a document and its position.
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

// add adds a field to an object. An omitted value has the position of its name.
func (n *Node) add(f Field) {
	if f.Value.IsNull() {
		f.Value.At = f.At
	}
	n.Fields = append(n.Fields, f)
}

// Field returns the field with a name, or nil.
func (n *Node) Field(name string) *Field {
	for i := range n.Fields {
		if n.Fields[i].Name == name {
			return &n.Fields[i]
		}
	}
	return nil
}

// Get returns the value of a field, or nil.
func (n *Node) Get(name string) *Node {
	if f := n.Field(name); f != nil {
		return f.Value
	}
	return nil
}

// IsNull reports whether the value is null or omitted.
func (n *Node) IsNull() bool { return n.Kind == Scalar && n.Value == nil }

// Tree returns the value as maps, lists and scalars.
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

// Map returns the fields of an object like [Node.Tree].
func (n *Node) Map() map[string]any {
	fields := make(map[string]any, len(n.Fields))
	for _, f := range n.Fields {
		fields[f.Name] = f.Value.Tree()
	}
	return fields
}

// isNumber reports whether an unquoted string is a number in JSON.
func isNumber(s string) bool {
	if s == "" || s[0] != '-' && (s[0] < '0' || s[0] > '9') {
		return false
	}
	return json.Valid([]byte(s))
}

// Flaw is an error in the text of a file, found before its values are validated.
type Flaw struct {
	At      Position
	Message string
}

// Error returns the message.
func (f *Flaw) Error() string { return f.Message }

func tooManyValues(at Position) *Flaw {
	return &Flaw{at, fmt.Sprintf("a file can have at most %d values: split it", MaxValues)}
}

func tooDeep(at Position) *Flaw {
	return &Flaw{at, fmt.Sprintf("nested deeper than %d levels", MaxDepth)}
}

// noteDuplicate adds a flaw for a duplicate name in an object.
func noteDuplicate(flaws []Flaw, names map[string]Position, f Field) []Flaw {
	if first, duplicate := names[f.Name]; duplicate && len(flaws) < maxDuplicates {
		flaws = append(flaws, Flaw{f.At, fmt.Sprintf("duplicate key %s, first in line %d", printable.Quote(f.Name), first.Line)})
	}
	names[f.Name] = f.At
	return flaws
}
