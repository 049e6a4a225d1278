package adminapi

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
)

// tag returns a revision as an ETag.
func tag(revision int64) string { return `"` + strconv.FormatInt(revision, 10) + `"` }

// parseTag reads an ETag.
func parseTag(s string) (int64, bool) {
	s = strings.TrimSpace(s)
	revision, err := strconv.ParseInt(strings.Trim(s, `"`), 10, 64)
	return revision, err == nil && revision > 0 && s == tag(revision)
}

// Condition is the precondition of a change.
type Condition struct {
	IfMatch     string `header:"If-Match" doc:"The ETag of the rule set that the change is based on, or * for the current one."`
	IfNoneMatch string `header:"If-None-Match" doc:"With * the rule set must not exist."`
	Comment     string `query:"comment" maxLength:"1024" doc:"The reason, for the history."`
	Force       bool   `query:"force" doc:"Make the change although overrides do not fit, or a server does not understand the new rules."`
}

// base returns the revision that a change is based on.
func (c *Condition) base(ctx context.Context, source rules.Source, ruleSet string) (int64, error) {
	switch {
	case c.IfMatch != "" && c.IfNoneMatch != "":
		return 0, admin.NewProblem(http.StatusBadRequest, admin.KindPrecondition, "Send If-Match or If-None-Match, not both.")
	case c.IfNoneMatch == "*":
		return 0, nil
	case c.IfNoneMatch != "":
		return 0, admin.NewProblem(http.StatusBadRequest, admin.KindPrecondition, "If-None-Match of a change must be *.")
	case c.IfMatch == "":
		return 0, admin.NewProblem(http.StatusPreconditionRequired, admin.KindPrecondition,
			"Send the revision that the change is based on: If-Match with the ETag of the rule set, or If-None-Match: * for a new one.")
	case c.IfMatch == "*":
		heads, err := source.Revisions(ctx, []string{ruleSet})
		if err != nil {
			return 0, err
		}
		if head := heads[ruleSet]; head.Revision != 0 && !head.Deleted {
			return head.Revision, nil
		}
		return 0, admin.NewProblem(http.StatusPreconditionFailed, admin.KindConflict, fmt.Sprintf("rule set %q does not exist", ruleSet))
	}
	revision, ok := parseTag(c.IfMatch)
	if !ok {
		return 0, admin.NewProblem(http.StatusBadRequest, admin.KindPrecondition, `If-Match must be an ETag of a rule set, such as "17".`)
	}
	return revision, nil
}
