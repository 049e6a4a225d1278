package filerules

import (
	"strings"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/yamltree"
)

// otherNames are the fields that a place may mean when the one it names is
// not there.
var otherNames = yamltree.OtherNames{
	"id": {"_id"}, "paths": {"path"}, "methods": {"method"}, "refill": {"refillSeconds", "windowSeconds"}, "refillTokens": {"capacity"},
}

// locate is where to point at for a problem of a rule set.
func locate(n *yamltree.Node, p fluxgate.Problem) yamltree.Position {
	found := n.Locate(p.Place, otherNames)
	if strings.HasPrefix(p.Message, "is not a known field") || p.Message == "is not a valid name" {
		return found.Key
	}
	return found.At
}
