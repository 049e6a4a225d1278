package model

import (
	"slices"

	"github.com/fluxgate/fluxgate/rules"
)

// fleetOperations are the features of histories that are not about single gateways with small numbers.
var fleetOperations = []string{
	"large fleet", "large numbers", "api key", "override by key", "calendar", "zone", "wrong clock", "extreme cost", "extreme settlement",
	"gone before", "gone when settled", "together", "together with 64", "denied together", "denied", "exempt", "group",
}

// fleetFeatures says what a history has of them.
func (h *History) fleetFeatures(found map[string]bool) {
	is := func(name string, is bool) {
		if is {
			found[name] = true
		}
	}
	is("large fleet", len(h.Gateways) > 4)
	is("wrong clock", slices.ContainsFunc(h.Gateways, func(g Gateway) bool { return g.Ahead != 0 }))
	paths := map[string]rules.Action{}
	for version, list := range h.Versions {
		for i := range list {
			r := &list[i]
			is("group", r.Group != "")
			is("api key", r.Scope == rules.ScopeAPIKey)
			is("override by key", r.Scope == rules.ScopeAPIKey && slices.ContainsFunc(h.overridesOf(version), func(o Override) bool { return o.Rule == r.ID }))
			if !r.Limits() {
				paths[r.Paths[0]] = r.Action
			}
			for _, b := range r.Bands {
				is("large numbers", b.Capacity >= 1_000_000)
				is("calendar", b.Period == "day" || b.Period == "week" || b.Period == "month")
				is("zone", b.Timezone != "")
			}
		}
	}
	for i := range h.Ops {
		op := &h.Ops[i]
		if op.Kind != OpCheck {
			continue
		}
		is("extreme cost", max(op.Cost, op.Tokens) >= 1<<52)
		is("extreme settlement", max(op.Actual, op.ActualTokens) >= 1<<52)
		is("gone before", op.Leaves == Gone)
		is("gone when settled", op.Gone)
		is("together", op.With > 0)
		is("together with 64", op.With > 10)
		is("denied together", op.Denied)
		is("denied", paths[op.Path] == rules.ActionDeny)
		is("exempt", paths[op.Path] == rules.ActionAllow)
	}
}
