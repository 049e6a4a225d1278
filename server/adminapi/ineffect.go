package adminapi

import (
	"context"
	"log/slog"
	"time"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/access"
	"github.com/fluxgate/fluxgate/server/config"
)

// InEffect are the rules in effect on a server. [reload.Reloader] implements it.
type InEffect interface {
	// Current returns a rule set in memory, or nil.
	Current(ruleSet string) *rules.Version
	// Loaded returns the ids of the rule sets in memory, sorted.
	Loaded() []string
}

// From is where the rules of an answer were read.
type From struct {
	From string `header:"X-Fluxgate-From" doc:"memory, if the rule source cannot be read: the rules in effect on this server. Else absent."`
}

var fromMemory = From{admin.FromMemory}

// sourceTimeout is how long a read of rules that are in memory waits for the source.
const sourceTimeout = 3 * time.Second

// current returns a rule set at its current revision: as the source has it, or as it is in effect if
// the source cannot be read.
func (a *API) current(ctx context.Context, ruleSet string) (*rules.Version, From, error) {
	var known *rules.Version
	if a.config.InEffect != nil {
		known = a.config.InEffect.Current(ruleSet)
	}
	v, err := bounded(ctx, known != nil, func(ctx context.Context) (*rules.Version, error) { return a.reader.Load(ctx, ruleSet) })
	if known != nil && a.unreadable(ctx, err) {
		return known, fromMemory, nil
	}
	return v, From{}, ofSource(ctx, err)
}

// visible returns a page of the rule sets that a caller may see. The page does not show that there
// are others.
func (a *API) visible(ctx context.Context, who *access.Identity, after string, limit int) ([]rules.Entry, From, error) {
	var known []rules.Entry
	if a.config.InEffect != nil {
		for _, id := range a.config.InEffect.Loaded() {
			v := a.config.InEffect.Current(id)
			if v != nil && id > after && len(known) < limit && who.May(config.RoleRead, id) {
				known = append(known, v.Entry)
			}
		}
	}
	page, err := bounded(ctx, known != nil, func(ctx context.Context) ([]rules.Entry, error) { return a.listed(ctx, who, after, limit) })
	if known != nil && a.unreadable(ctx, err) {
		return known, fromMemory, nil
	}
	return page, From{}, err
}

// bounded reads from the source, and does not wait long for it if the rules are in memory.
func bounded[T any](ctx context.Context, inMemory bool, read func(context.Context) (T, error)) (T, error) {
	if inMemory {
		within, cancel := context.WithTimeout(ctx, sourceTimeout)
		defer cancel()
		ctx = within
	}
	return read(ctx)
}

// unreadable reports whether the source could not be read, and logs it. Of invalid content the
// answer is what is wrong with it.
func (a *API) unreadable(ctx context.Context, err error) bool {
	if err == nil || admin.ProblemOf(err) != nil {
		return false
	}
	a.fromMemory.Log(ctx, a.config.Logger, slog.LevelWarn,
		"rule source cannot be read: the admin API shows the rules in effect on this server", "error", err)
	return true
}
