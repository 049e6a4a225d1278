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

// Identity is who calls. It does not change once it is made. A nil one may
// nothing.
type Identity struct {
	// Name is what logs, the audit and histories call it: token:ci,
	// certificate:ops, oidc:ada@example.com, or anonymous where nobody is
	// asked. It can be the author of a change.
	Name string

	roles    map[config.Role]bool
	ruleSets map[string]bool // nil means all
}

// Anonymous is the name of callers where nobody is asked, and Nobody that of
// callers who are not known where everybody is.
const (
	Anonymous = "anonymous"
	Nobody    = "nobody"
)

var (
	anonymous = newIdentity(Anonymous, config.Roles, nil)
	nobody    = newIdentity(Nobody, nil, nil)
)

// newIdentity has roles on some rule sets. None means all of them.
func newIdentity(name string, roles []config.Role, ruleSets []string) *Identity {
	i := &Identity{Name: name, roles: make(map[config.Role]bool, len(roles))}
	for _, r := range roles {
		i.roles[r] = true
		if r == config.RoleWrite {
			i.roles[config.RoleRead] = true
		}
	}
	if len(ruleSets) > 0 {
		i.restrict(ruleSets)
	}
	return i
}

// restrict leaves the roles on these rule sets alone, and on no other.
func (i *Identity) restrict(ruleSets []string) {
	i.ruleSets = make(map[string]bool, len(ruleSets))
	for _, id := range ruleSets {
		i.ruleSets[id] = true
	}
}

// May reports whether the role is the caller's on a rule set.
func (i *Identity) May(role config.Role, ruleSet string) bool {
	return i != nil && i.roles[role] && (i.ruleSets == nil || i.ruleSets[ruleSet])
}

// MayAny reports whether the role is the caller's on any rule set.
func (i *Identity) MayAny(role config.Role) bool {
	return i != nil && i.roles[role] && (i.ruleSets == nil || len(i.ruleSets) > 0)
}

// MayAll reports whether the role is the caller's on every rule set there is
// and will be: it is what touches all of them takes.
func (i *Identity) MayAll(role config.Role) bool {
	return i != nil && i.roles[role] && i.ruleSets == nil
}

// RuleSets are the ids of the rule sets that the roles are for: nil for all,
// and empty for none.
func (i *Identity) RuleSets() []string {
	if i == nil || i.ruleSets == nil {
		return nil
	}
	ids := slices.AppendSeq([]string{}, maps.Keys(i.ruleSets))
	slices.Sort(ids)
	return ids
}

// maxName is how long a name can be, in bytes: as long as that of the author of
// a change.
const maxName = 256

// isName reports whether a text can be the name of somebody without garbling a
// listing or a log.
func isName(s string) bool {
	return len(s) <= maxName && utf8.ValidString(s) && strings.TrimSpace(s) != "" &&
		!strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsGraphic(r) })
}

type identityKey struct{}

// With is a context that knows who calls.
func With(ctx context.Context, who *Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, who)
}

// From is who calls. It is nil, who may nothing, where nobody has asked.
func From(ctx context.Context) *Identity {
	who, _ := ctx.Value(identityKey{}).(*Identity)
	return who
}
