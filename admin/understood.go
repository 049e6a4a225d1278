package admin

import (
	"context"
	"fmt"
	"net/http"
	"strings"

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

// understood returns an error if a server does not understand what a change needs.
func (d *Direct) understood(ctx context.Context, needs []string, advice string) error {
	if d.Fleet == nil || len(needs) == 0 {
		return nil
	}
	for _, s := range d.Fleet(ctx) {
		if missing := rules.NotUnderstood(needs, s.Understands); len(missing) > 0 {
			return NewProblem(http.StatusConflict, KindConflict, fmt.Sprintf(
				"server %s (version %s) does not understand %s: %s", s.Name, s.Version, strings.Join(missing, ", "), advice))
		}
	}
	return nil
}
