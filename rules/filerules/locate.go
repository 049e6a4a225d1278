package filerules

import (
	"slices"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/yamltree"
)

// otherNames are the fields that a path may mean when the one it names is
// absent.
var otherNames = map[string][]string{
	"id": {"_id"}, "paths": {"path"}, "methods": {"method"}, "refill": {"refillSeconds", "windowSeconds"}, "refillTokens": {"capacity"},
}

// locate is the position of what a problem of a node is about: a value, or its
// name. Where something is missing it is the nearest value around it.
func locate(n *yamltree.Node, p fluxgate.Problem) yamltree.Position {
	aboutName := p.Code == fluxgate.CodeUnknownField || p.Code == fluxgate.CodeInvalidName
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

// field is nil where the node has no such field, under no name.
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
