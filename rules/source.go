package rules

import (
	"context"
	"errors"
	"time"
)

// Source is where rule sets are stored. Its methods may be called concurrently,
// and return the error of a context that has ended.
type Source interface {
	// Revisions returns the heads of the rule sets with these ids, in one small
	// read. Unknown ids are not in the result; deleted rule sets are, so that a
	// source that lost its data can be distinguished from one whose rules were deleted.
	Revisions(ctx context.Context, ids []string) (map[string]Head, error)

	// Load reads the current version of a rule set. It returns [ErrNotFound] if
	// the rule set does not exist or is deleted, and a
	// [*ValidationError] if it is invalid.
	Load(ctx context.Context, id string) (*Version, error)
}

// Watcher is a source that detects changes itself.
type Watcher interface {
	Source

	// Watch calls changed with the id of a rule set that may have changed, or
	// with "" if any may have, until ctx ends. Its first call is with "", for
	// earlier changes. It may call without a change and may miss one: poll the
	// revisions too.
	Watch(ctx context.Context, changed func(id string)) error
}

// Reconciler is a source whose content can also be edited with other programs.
type Reconciler interface {
	Source

	// Reconcile imports edits that other programs made to a rule set as a
	// revision, and completes interrupted writes. Every server calls it
	// regularly for each rule set in use. It reports whether it made a
	// revision. After an error the current revision stays in effect.
	Reconcile(ctx context.Context, id string) (imported bool, err error)
	// Unimported returns which of these rule sets may have content that was never
	// imported, in one small read. Callers can invent ids: Reconcile is not called for
	// one that has no revision unless it is among them.
	Unimported(ctx context.Context, ids []string) ([]string, error)
}

// Head is the current revision of a rule set.
type Head struct {
	// Revision differs whenever the content does. Editors count from 1 and never
	// reuse one, even after a deletion. A read-only source, such as a file, derives
	// it from the content: the same content has the same revision. It is never 0.
	Revision int64 `json:"revision" doc:"Its revision. The ETag is the same in quotes."`
	// Deleted is true for a rule set that was deleted.
	Deleted bool `json:"deleted,omitempty" doc:"This revision deleted the rule set."`
	// Commit distinguishes this change from any other with the same revision: a source that has
	// lost its data counts from 1 again. Of one revision it is the same in every answer, but it
	// may be missing from Revisions, and then says nothing. A source that derives its revisions
	// from the content has none.
	Commit string `json:"-"`
}

// Version is a rule set at one revision.
type Version struct {
	Entry
	// RuleSet is nil if this revision is a deletion.
	RuleSet *Set `json:"ruleSet,omitempty" doc:"The rule set; absent if this revision deleted it."`
}

// Entry describes one revision in the history. As JSON it is that of the admin API.
type Entry struct {
	RuleSetID string `json:"id" doc:"The rule set."`
	Head
	// Author made the change at the time At, for the reason in Comment. Files
	// have neither author nor comment.
	Author  string    `json:"author,omitempty" doc:"The author."`
	Comment string    `json:"comment,omitempty" doc:"The reason."`
	At      time.Time `json:"at,omitzero" doc:"When."`
}

// ErrNotFound is wrapped by errors about rule sets and revisions that do not
// exist.
var ErrNotFound = errors.New("not found")
