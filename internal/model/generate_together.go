package model

import (
	"slices"

	"github.com/fluxgate/fluxgate/rules"
)

// joining gives some histories groups, rules that allow and deny, and requests that are decided together:
// some of as many callers as one call can have.
func (g *generator) joining() {
	o := g.together
	if o.IntN(100) >= 15 {
		return
	}
	h := g.h
	grouped, priorities := o.chance(40), map[string]int{}
	deny := rules.Rule{ID: "deny", Action: rules.ActionDeny, Paths: []string{pathDenied}, Priority: o.IntN(3)}
	allow := rules.Rule{ID: "exempt", Action: rules.ActionAllow, Paths: []string{path}, Priority: o.IntN(3)}
	exempts := o.chance(40)
	for i, list := range h.Versions {
		list = slices.Clone(list)
		for j := range list {
			r := &list[j]
			if _, drawn := priorities[r.ID]; !drawn {
				priorities[r.ID] = o.IntN(3)
			}
			if r.Priority = priorities[r.ID]; grouped && r.Mode == "" {
				r.Group = "group"
			}
		}
		if list = append(list, deny); exempts {
			list = append(list, allow)
		}
		h.Versions[i] = list
	}
	h.joinRequests(o)
}

// joinRequests lets some operations decide several requests as one, and sends some to the paths of rules
// that allow and deny.
func (h *History) joinRequests(o *generator) {
	byCaller, shared := 0, 0
	for _, r := range h.Versions[0] {
		switch {
		case !r.Limits() || len(r.Paths) > 0:
		case r.Scope == rules.ScopeGlobal:
			shared++
		default:
			byCaller++
		}
	}
	for i := range h.Ops {
		op := &h.Ops[i]
		if op.Kind != OpCheck || !o.chance(40) {
			continue
		}
		switch o.IntN(4) {
		case 0:
			op.Path = one(o, path, pathDenied)
		case 1, 2:
			op.With, op.Denied, op.N = one(o, 0, 1, 2, 5), o.chance(40), min(op.N, 10)
		case 3:
			if byCaller > 0 {
				op.With, op.Denied, op.N = (64-shared)/byCaller-1, o.chance(60), min(op.N, 2)
			}
		}
	}
}
