package admin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/fluxgate/fluxgate/internal/keyfield"
	"github.com/fluxgate/fluxgate/rules"
)

// checkUnderstood returns an error for a change of rules that a server of the fleet would not
// understand. It would decide by its last good rules.
func (d *Direct) checkUnderstood(ctx context.Context, before, after *rules.Set) error {
	if after == nil {
		return nil
	}
	needs := after.Needs()
	if before != nil {
		needs = rules.NotUnderstood(needs, before.Needs()) // what it needs already is not new to them
	}
	return d.understood(ctx, needs, "it would keep its last good rules: upgrade it first, or force the change")
}

// checkAppliedByAll returns an error for overrides that a server of the fleet would not apply. They
// can be deleted.
func (d *Direct) checkAppliedByAll(ctx context.Context, changes []rules.Override) error {
	if !slices.ContainsFunc(changes, func(o rules.Override) bool { return !o.Deleted }) {
		return nil
	}
	needs := []string{rules.FeatureOverrides}
	if d.OverrideEditor != nil {
		needs = append(needs, rules.FeatureSharedOverrides)
	}
	if slices.ContainsFunc(changes, ofDescriptor) {
		needs = append(needs, rules.FeatureDescriptorOverrides)
	}
	return d.understood(ctx, needs, "it would not apply them: upgrade it first")
}

// ofDescriptor reports whether an override is for a descriptor, or a part of one.
func ofDescriptor(o rules.Override) bool {
	for name := range o.Identity {
		if f, ok := keyfield.Parse(name); ok && (f.Kind == keyfield.Descriptor || f.Kind == keyfield.DescriptorEntry) {
			return true
		}
	}
	return false
}

// understood returns an error if a server does not understand what a change needs.
func (d *Direct) understood(ctx context.Context, needs []string, advice string) error {
	if d.Fleet == nil || len(needs) == 0 {
		return nil
	}
	for _, s := range d.Fleet(ctx) {
		if missing := rules.NotUnderstood(needs, s.Understands); len(missing) > 0 {
			detail := fmt.Sprintf("server %s (version %s) does not understand %s: %s",
				s.Name, cmp.Or(s.Version, "unknown"), strings.Join(missing, ", "), advice)
			return NewProblem(http.StatusConflict, KindConflict, detail)
		}
	}
	return nil
}
