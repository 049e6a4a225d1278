package admin

import (
	"context"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// Operator is what an operator can do.
//
// Put and Delete are those of an editor with two habits more. The times of
// rules (createdAt, updatedAt) are kept, whatever the caller wrote there. And a
// rule set that says what is said already is not put again: Put then returns
// the revision that there is. A conflict is a [*Conflict] where more is known
// than two revisions.
type Operator interface {
	rules.Editor

	// Restore makes a former revision current again, as it was to the byte,
	// and returns the revision that it got.
	Restore(ctx context.Context, id string, revision int64, change rules.Change) (int64, error)

	// Explain says which rules apply to a request, which do not and why, and
	// what would be decided now. Nothing is taken.
	Explain(ctx context.Context, req *fluxgate.Request) (*Explanation, error)

	// Buckets are what the caller of a request has left under the named rules
	// of its rule set, or under all that apply if none is named.
	Buckets(ctx context.Context, req *fluxgate.Request, rules ...string) ([]Bucket, error)

	// Reset makes buckets full.
	Reset(ctx context.Context, what Reset) error

	// Whoami is who the operator is taken for, and what is here to work on.
	Whoami(ctx context.Context) (*Who, error)
}
