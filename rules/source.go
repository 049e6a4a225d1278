package rules

import (
	"context"
	"errors"
	"time"

	"github.com/fluxgate/fluxgate"
)

// Source is where rule sets live. Its methods may be called by any number of
// goroutines, and return the error of a context that has ended.
type Source interface {
	// Revisions returns the heads of the rule sets with these ids, in one small
	// read however large they are. An id that the source does not know is not
	// in the answer; one that was deleted is, so that a source that has lost
	// its data is not mistaken for one whose rules were deleted.
	Revisions(ctx context.Context, ids []string) (map[string]Head, error)

	// Load reads the current version of a rule set. A rule set that does not
	// exist, or no longer, is [ErrNotFound]; one that is invalid is a
	// [*fluxgate.ValidationError].
	Load(ctx context.Context, id string) (*Version, error)
}

// Watcher is a source that notices changes by itself.
type Watcher interface {
	Source

	// Watch calls changed with the id of a rule set that may have changed, or
	// with "" if any may have, until ctx ends. It does so with "" when it has
	// begun to watch, for what changed before. It may call it for nothing and
	// may miss a change: poll the revisions too.
	Watch(ctx context.Context, changed func(id string)) error
}

// Reconciler is a source whose content can also be edited with other programs.
type Reconciler interface {
	Source

	// Reconcile imports edits that were made with other programs to a rule set
	// as a revision, and finishes what an interrupted writer has left. Every
	// server calls it regularly for each rule set in use. It reports whether it
	// made a revision. An error is about content that could not be imported;
	// the current revision stays in effect.
	Reconcile(ctx context.Context, id string) (imported bool, err error)
}

// Head is the current revision of a rule set.
type Head struct {
	// Revision differs whenever the content does. Editors count it up from 1
	// and never use one twice, not even after a deletion. A source that cannot
	// be written, such as a file, makes it from the content: the same content
	// has the same revision. It is never 0.
	Revision int64
	// Deleted rule sets existed once.
	Deleted bool
}

// Version is a rule set at one revision.
type Version struct {
	Entry
	RuleSet *fluxgate.RuleSet // nil if this revision is a deletion
}

// Entry is one line of the history.
type Entry struct {
	RuleSetID string
	Head
	// Author made the change at the time At, and says why in the Comment.
	// Files know neither.
	Author, Comment string
	At              time.Time
}

// ErrNotFound is wrapped by errors about rule sets and revisions that do not
// exist.
var ErrNotFound = errors.New("not found")
