package admin

import (
	"context"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// Operator has the operations of an operator.
//
// Put and Delete are those of an editor, with two differences. They maintain the
// times of rules (createdAt, updatedAt) and ignore those of the caller. Put without
// changes makes no revision but returns the current one. A conflict is a [*Conflict]
// if the author and the differences are known.
type Operator interface {
	rules.Editor

	// Restore makes a copy of a former revision the current one, and returns
	// its new revision.
	Restore(ctx context.Context, id string, revision int64, change rules.Change) (int64, error)

	// Explain returns which rules apply to a request, which do not and why, and
	// the decision. It takes no tokens.
	Explain(ctx context.Context, req *fluxgate.Request) (*Explanation, error)

	// Reset resets buckets to full.
	Reset(ctx context.Context, what Reset) error

	// ListOverrides and Override are those of [rules.Overrides].
	ListOverrides(ctx context.Context, ruleSet, after string, limit int) (rules.OverridePage, error)
	Override(ctx context.Context, ruleSet, id string) (rules.Override, error)

	// PutOverrides writes overrides, at most [MaxOverrides], and deletes those that are
	// Deleted. All are checked before one is written: see [OverrideErrors]. They are written
	// in parts of [rules.MaxPage]. With dryRun they are only checked.
	PutOverrides(ctx context.Context, ruleSet string, changes []rules.Override, dryRun bool) (*OverridesChanged, error)

	// Warnings returns the last warnings of limits, the newest first: at most limit, and no
	// more than [MaxWarnings].
	Warnings(ctx context.Context, limit int) ([]Warning, error)

	// Whoami returns the identity of the operator and the default rule set.
	Whoami(ctx context.Context) (*Who, error)
}
