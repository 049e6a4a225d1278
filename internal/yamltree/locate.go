package yamltree

import (
	"strconv"
	"strings"
)

// Locate returns the position of a path such as rules[3].bands[0].capacity, or of the
// nearest enclosing value if there is none. A value on another line than its name has the
// position of the name.
func (n *Node) Locate(place string) Position {
	at := n.At
	for place != "" {
		if n.Kind == List {
			item, rest := n.item(place)
			if item == nil {
				return at
			}
			n, at, place = item, item.At, rest
			continue
		}
		f, rest := n.longestField(strings.TrimPrefix(place, "."))
		if f == nil {
			return at
		}
		n, at, place = f.Value, f.Value.At, rest
		if at.Line != f.At.Line {
			at = f.At
		}
	}
	return at
}

// item returns the item of an index such as [3] at the beginning of a path, and the rest.
func (n *Node) item(place string) (*Node, string) {
	number, rest, _ := strings.Cut(strings.TrimPrefix(place, "["), "]")
	i, err := strconv.Atoi(number)
	if err != nil || i < 0 || i >= len(n.Items) {
		return nil, ""
	}
	return n.Items[i], rest
}

// longestField returns the field whose name begins a path, and the rest. Names may have
// dots, so it is the longest one.
func (n *Node) longestField(place string) (best *Field, rest string) {
	for i := range n.Fields {
		after, ok := strings.CutPrefix(place, n.Fields[i].Name)
		if ok && (after == "" || after[0] == '.' || after[0] == '[') && (best == nil || len(after) < len(rest)) {
			best, rest = &n.Fields[i], after
		}
	}
	return best, rest
}
