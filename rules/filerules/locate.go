package filerules

import (
	"slices"

	"github.com/fluxgate/fluxgate/internal/yamltree"
	"github.com/fluxgate/fluxgate/rules"
)

// otherNames are alternative names of fields, used if the named field is absent.
var otherNames = map[string][]string{
	"id": {"_id"}, "paths": {"path"}, "methods": {"method"},
	"refill": {"refillSeconds", "windowSeconds", "period"}, "refillTokens": {"capacity"},
}

// locate returns the position of a problem: of the value, or its name. If the value
// is missing it is that of the nearest enclosing value.
func locate(n *yamltree.Node, p rules.Problem) yamltree.Position {
	aboutName := p.Code == rules.CodeUnknownField || p.Code == rules.CodeInvalidName
	at := n.At
	for _, element := range p.Path {
		switch e := element.(type) {
		case int:
			if e >= len(n.Items) {
				return at
			}
			n = n.Items[e]
			at = n.At
		case string:
			f := field(n, e)
			if f == nil {
				return at
			}
			n = f.Value
			at = n.At
			if aboutName || n.IsNull() || n.At.Line != f.At.Line {
				at = f.At
			}
		}
	}
	return at
}

// field returns a field under any of its names, or nil.
func field(n *yamltree.Node, name string) *yamltree.Field {
	other := func(f yamltree.Field) bool { return f.Value.Value != nil && slices.Contains(otherNames[name], f.Name) }
	i := slices.IndexFunc(n.Fields, func(f yamltree.Field) bool { return f.Name == name })
	if i < 0 {
		i = slices.IndexFunc(n.Fields, other)
	}
	if i < 0 {
		return nil
	}
	return &n.Fields[i]
}
