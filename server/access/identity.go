package access

import (
	"context"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fluxgate/fluxgate/server/config"
)

// Identity is an authenticated caller. It is immutable. A nil one has no roles.
type Identity struct {
	// Name is the name in logs, the audit and histories: token:ci,
	// certificate:ops, oidc:ada@example.com, or anonymous without
	// authentication. It can be the author of a change.
	Name string

	roles    map[config.Role]bool
	ruleSets map[string]bool // nil means all
}

// Anonymous is the name of callers without authentication.
const Anonymous = "anonymous"

var anonymous = newIdentity(Anonymous, config.Roles, nil)

// newIdentity returns an identity with roles on some rule sets. No rule sets
// means all of them.
func newIdentity(name string, roles []config.Role, ruleSets []string) *Identity {
	i := &Identity{Name: name, roles: make(map[config.Role]bool, len(roles))}
	for _, r := range roles {
		i.roles[r] = true
		if r == config.RoleWrite {
			i.roles[config.RoleRead], i.roles[config.RoleCheck], i.roles[config.RoleSupport] = true, true, true
		}
	}
	if len(ruleSets) > 0 {
		i.restrict(ruleSets)
	}
	return i
}

// restrict limits the roles to these rule sets.
func (i *Identity) restrict(ruleSets []string) {
	i.ruleSets = make(map[string]bool, len(ruleSets))
	for _, id := range ruleSets {
		i.ruleSets[id] = true
	}
}

// May reports whether the caller has a role on a rule set.
func (i *Identity) May(role config.Role, ruleSet string) bool {
	return i != nil && i.roles[role] && (i.ruleSets == nil || i.ruleSets[ruleSet])
}

// MayAny reports whether the caller has a role on any rule set.
func (i *Identity) MayAny(role config.Role) bool {
	return i != nil && i.roles[role] && (i.ruleSets == nil || len(i.ruleSets) > 0)
}

// MayAll reports whether the caller has a role on all rule sets, including future
// ones.
func (i *Identity) MayAll(role config.Role) bool {
	return i != nil && i.roles[role] && i.ruleSets == nil
}

// RuleSets returns the ids of the rule sets that the roles are limited to: nil
// means all, empty none.
func (i *Identity) RuleSets() []string {
	if i == nil || i.ruleSets == nil {
		return nil
	}
	return append([]string{}, slices.Sorted(maps.Keys(i.ruleSets))...)
}

// maxName is the longest name in bytes, as for the author of a change.
const maxName = 256

// isName reports whether a text can be the name of a caller in listings and logs.
func isName(s string) bool {
	return len(s) <= maxName && utf8.ValidString(s) && strings.TrimSpace(s) != "" &&
		!strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsGraphic(r) })
}

type identityKey struct{}

// With returns a context with the identity of the caller.
func With(ctx context.Context, who *Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, who)
}

// From returns the identity of the caller. It is nil without authentication.
func From(ctx context.Context) *Identity {
	who, _ := ctx.Value(identityKey{}).(*Identity)
	return who
}
