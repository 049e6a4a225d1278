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
	value, name := n.Locate(p.Path, field)
	if p.Code == rules.CodeUnknownField || p.Code == rules.CodeInvalidName {
		return name
	}
	return value
}

// field returns a field under any of its names, or nil.
func field(n *yamltree.Node, name string) *yamltree.Field {
	other := func(f yamltree.Field) bool { return f.Value.Value != nil && slices.Contains(otherNames[name], f.Name) }
	if f := n.Field(name); f != nil {
		return f
	}
	if i := slices.IndexFunc(n.Fields, other); i >= 0 {
		return &n.Fields[i]
	}
	return nil
}
