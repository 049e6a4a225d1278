package yamltree

import (
	"strconv"
	"strings"
)

// Locate returns the positions of the value at a path and of its name, or those of the nearest
// enclosing value if there is none. The elements of the path are names and the positions in
// lists. A value on another line than its name has the position of the name. field returns a
// field of an object, or nil: see [Node.Field].
func (n *Node) Locate(path []any, field func(n *Node, name string) *Field) (value, name Position) {
	value, name = n.At, n.At
	for _, element := range path {
		switch e := element.(type) {
		case int:
			if e >= len(n.Items) {
				return value, name
			}
			n = n.Items[e]
			value, name = n.At, n.At
		case string:
			f := field(n, e)
			if f == nil {
				return value, name
			}
			n = f.Value
			value, name = n.At, f.At
			if value.Line != name.Line {
				value = name
			}
		}
	}
	return value, name
}

// LocatePlace returns the position of a place such as rules[3].bands[0].capacity. Its names have
// no dots and brackets.
func (n *Node) LocatePlace(place string) Position {
	var path []any
	for _, e := range strings.FieldsFunc(place, func(r rune) bool { return strings.ContainsRune(".[]", r) }) {
		if i, err := strconv.ParseUint(e, 10, 31); err == nil {
			path = append(path, int(i))
		} else {
			path = append(path, e)
		}
	}
	at, _ := n.Locate(path, (*Node).Field)
	return at
}
