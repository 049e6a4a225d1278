package yamltree

import (
	"slices"
	"strconv"
	"strings"
)

// Spot is the position of a value, and of its name if it is a field.
type Spot struct {
	At  Position // of the value, or of its name if that is in another line
	Key Position // of the name, or of the value
}

// OtherNames are the fields that a place may mean when the one it names is not
// there.
type OtherNames map[string][]string

// Locate finds a place such as rules[3].bands[0].capacity, or the nearest value
// around it if there is no such place.
func (n *Node) Locate(place string, others OtherNames) Spot {
	found := Spot{n.At, n.At}
	for place != "" {
		var rest string
		switch n.Kind {
		case List:
			item, after, ok := n.item(place)
			if !ok {
				return found
			}
			n, rest = item, after
			found = Spot{n.At, n.At}
		case Object:
			f, after := n.field(strings.TrimPrefix(place, "."), others)
			if f == nil {
				return found
			}
			n, rest = f.Value, after
			found = Spot{n.At, f.At}
			if n.At.Line != f.At.Line {
				found.At = f.At
			}
		default:
			return found
		}
		place = rest
	}
	return found
}

// item is what [3] at the beginning of a place is, and the rest.
func (n *Node) item(place string) (*Node, string, bool) {
	if !strings.HasPrefix(place, "[") {
		return nil, "", false
	}
	number, rest, ok := strings.Cut(place[1:], "]")
	i, err := strconv.Atoi(number)
	if !ok || err != nil || i < 0 || i >= len(n.Items) {
		return nil, "", false
	}
	return n.Items[i], rest, true
}

// field is what the name at the beginning of a place is, and the rest.
func (n *Node) field(place string, otherNames OtherNames) (best *Field, rest string) {
	if strings.HasPrefix(place, `"`) || strings.HasPrefix(place, `["`) {
		return n.quoted(place)
	}
	// Names may have dots, so it is the longest one that fits.
	match := func(name string, f *Field) {
		after, ok := strings.CutPrefix(place, name)
		if ok && (after == "" || after[0] == '.' || after[0] == '[') && (best == nil || len(after) < len(rest)) {
			best, rest = f, after
		}
	}
	for i := range n.Fields {
		match(n.Fields[i].Name, &n.Fields[i])
	}
	if best != nil {
		return best, rest
	}
	for name, others := range otherNames {
		for i := range n.Fields {
			if f := &n.Fields[i]; slices.Contains(others, f.Name) && f.Value.Value != nil {
				match(name, f)
			}
		}
	}
	return best, rest
}

// quoted is field for a name in quotes, as in headers["X-A"][0]. A long name
// is cut.
func (n *Node) quoted(place string) (*Field, string) {
	place, bracket := strings.CutPrefix(place, "[")
	name, err := strconv.QuotedPrefix(place)
	if err != nil {
		return nil, ""
	}
	rest, cut := strings.CutPrefix(place[len(name):], "…")
	if bracket {
		rest = strings.TrimPrefix(rest, "]")
	}
	if name, err = strconv.Unquote(name); err != nil {
		return nil, ""
	}
	for i := range n.Fields {
		if f := &n.Fields[i]; f.Name == name || cut && strings.HasPrefix(f.Name, name) {
			return f, rest
		}
	}
	return nil, ""
}
