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

// tag is a revision as an ETag.
func tag(revision int64) string { return `"` + strconv.FormatInt(revision, 10) + `"` }

// parseTag reads an ETag.
func parseTag(s string) (int64, bool) {
	s = strings.TrimSpace(s)
	if len(s) < 3 || s[0] != '"' || s[len(s)-1] != '"' {
		return 0, false
	}
	revision, err := strconv.ParseInt(s[1:len(s)-1], 10, 64)
	return revision, err == nil && revision > 0 && s == tag(revision)
}

// Condition is what a change is based on.
type Condition struct {
	IfMatch     string `header:"If-Match" doc:"The ETag of the rule set that was seen, or * for whatever is current."`
	IfNoneMatch string `header:"If-None-Match" doc:"With * the rule set must not exist."`
	Comment     string `query:"comment" maxLength:"1024" doc:"Why, for the history."`
}

// base is the revision that a change is based on.
func (c *Condition) base(ctx context.Context, source rules.Source, ruleSet string) (int64, error) {
	switch {
	case c.IfMatch != "" && c.IfNoneMatch != "":
		return 0, admin.NewProblem(http.StatusBadRequest, admin.KindPrecondition, "Send If-Match or If-None-Match, not both.")
	case c.IfNoneMatch == "*":
		return 0, nil
	case c.IfNoneMatch != "":
		return 0, admin.NewProblem(http.StatusBadRequest, admin.KindPrecondition, "A change knows only If-None-Match: *.")
	case c.IfMatch == "":
		return 0, admin.NewProblem(http.StatusPreconditionRequired, admin.KindPrecondition,
			"Say what the change is based on: If-Match with the ETag of the rule set, or If-None-Match: * for a new one.")
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

// unchanged reports whether a reader has this revision already.
func unchanged(ifNoneMatch string, revision int64) bool {
	for candidate := range strings.SplitSeq(ifNoneMatch, ",") {
		candidate = strings.TrimPrefix(strings.TrimSpace(candidate), "W/")
		if candidate == tag(revision) || candidate == "*" {
			return true
		}
	}
	return false
}
