package filerules

import (
	"slices"
	"strconv"
	"strings"

	"github.com/fluxgate/fluxgate"
)

// spot is where a place leads in a file: the value, and its name if it is a
// field.
type spot struct {
	at  position // of the value, or of its name if it stands in another line
	key position // of the name, or of the value
}

// locateProblem is where to point at for a problem.
func (n *node) locateProblem(p fluxgate.Problem) position {
	found := n.locate(p.Place)
	if strings.HasPrefix(p.Message, "is not a known field") || p.Message == "is not a valid name" {
		return found.key
	}
	return found.at
}

// locate finds a place such as rules[3].bands[0].capacity. Where something is
// missing it is the nearest thing around it.
func (n *node) locate(place string) spot {
	found := spot{n.at, n.at}
	for place != "" {
		var rest string
		switch n.kind {
		case list:
			item, after, ok := n.item(place)
			if !ok {
				return found
			}
			n, rest = item, after
			found = spot{n.at, n.at}
		case object:
			f, after := n.field(strings.TrimPrefix(place, "."))
			if f == nil {
				return found
			}
			n, rest = f.value, after
			found = spot{n.at, f.at}
			if n.at.line != f.at.line || n.kind == scalar && n.value == nil {
				found.at = f.at
			}
		default:
			return found
		}
		place = rest
	}
	return found
}

// item is what [3] at the beginning of a place is, and the rest.
func (n *node) item(place string) (*node, string, bool) {
	if !strings.HasPrefix(place, "[") {
		return nil, "", false
	}
	number, rest, ok := strings.Cut(place[1:], "]")
	i, err := strconv.Atoi(number)
	if !ok || err != nil || i < 0 || i >= len(n.items) {
		return nil, "", false
	}
	return n.items[i], rest, true
}

// otherNames are the fields that a place may mean when the one it names is
// not there.
var otherNames = map[string][]string{
	"id": {"_id"}, "paths": {"path"}, "methods": {"method"}, "refill": {"refillSeconds", "windowSeconds"}, "refillTokens": {"capacity"},
}

// field is what the name at the beginning of a place is, and the rest.
func (n *node) field(place string) (best *field, rest string) {
	if strings.HasPrefix(place, `"`) || strings.HasPrefix(place, `["`) {
		return n.quoted(place)
	}
	// Names may have dots, so it is the longest one that fits.
	match := func(name string, f *field) {
		after, ok := strings.CutPrefix(place, name)
		if ok && (after == "" || after[0] == '.' || after[0] == '[') && (best == nil || len(after) < len(rest)) {
			best, rest = f, after
		}
	}
	for i := range n.fields {
		match(n.fields[i].name, &n.fields[i])
	}
	if best != nil {
		return best, rest
	}
	for name, others := range otherNames {
		for i := range n.fields {
			if f := &n.fields[i]; slices.Contains(others, f.name) && f.value.value != nil {
				match(name, f)
			}
		}
	}
	return best, rest
}

// quoted is field for a name in quotes, as in headers["X-A"][0]. A long name
// is cut.
func (n *node) quoted(place string) (*field, string) {
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
	for i := range n.fields {
		if f := &n.fields[i]; f.name == name || cut && strings.HasPrefix(f.name, name) {
			return f, rest
		}
	}
	return nil, ""
}
