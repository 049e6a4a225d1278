package rules

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fluxgate/fluxgate"
)

// Editor is a source that can be written.
type Editor interface {
	Source

	// Put makes a rule set current, kept as it is to the byte of its JSON.
	// It returns the revision that it got.
	//
	// A change that was based on another revision than the current one is a
	// [*ConflictError]. Any other error may mean that the change was made and
	// only the answer was lost: look before you try again.
	Put(ctx context.Context, set *fluxgate.RuleSet, change Change) (revision int64, err error)

	// Delete deletes a rule set. Its history stays. Conflicts are those of Put;
	// a rule set that does not exist, with a change of base 0, is
	// [ErrNotFound].
	Delete(ctx context.Context, id string, change Change) (revision int64, err error)

	// List has the rule sets that exist, in the order of the bytes of their
	// ids, at most [PageSize] of those that come after the given one.
	List(ctx context.Context, after string, limit int) ([]Entry, error)

	// History has the revisions of a rule set, newest first, at most
	// [PageSize] of those before the given one. Before 0 starts with the
	// current one. A rule set that never existed has none. Old revisions are
	// forgotten beyond the source's bounds: a number of revisions, and a
	// number of bytes.
	History(ctx context.Context, id string, before int64, limit int) ([]Entry, error)

	// Version reads a rule set as it was at a revision. One that is not there,
	// or no longer, is [ErrNotFound]; a deletion is a version without rules.
	Version(ctx context.Context, id string, revision int64) (*Version, error)
}

const (
	// MaxPage is how many entries List and History return at most.
	MaxPage = 1_000
	// DefaultHistory is how many revisions of a rule set editors keep unless
	// configured otherwise.
	DefaultHistory = 1_000
	// DefaultHistoryBytes is how many bytes of JSON the revisions of a rule set
	// have together that editors keep, unless configured otherwise. The current
	// revision and the one before it are always kept.
	DefaultHistoryBytes = 32 << 20
	// MaxDocument is how long the JSON of a rule set that is put may be.
	MaxDocument = 12 << 20

	maxAuthor  = 256
	maxComment = 1_024
)

// PageSize is how many entries List and History return at most for a limit: that
// many, or MaxPage where the limit is larger or not positive.
func PageSize(limit int) int {
	if limit <= 0 || limit > MaxPage {
		return MaxPage
	}
	return limit
}

// Change is who changes a rule set, based on what, and why.
type Change struct {
	// Base is the revision that the author has seen. 0 means that the rule
	// set must not exist.
	Base int64
	// Author is required.
	Author  string
	Comment string
}

// Check refuses a change without an author, and an author or a comment that is
// not printable. Editors call it first.
func (c Change) Check() error {
	if c.Base < 0 {
		return errors.New("a change cannot be based on a negative revision")
	}
	if strings.TrimSpace(c.Author) == "" {
		return errors.New("a change needs an author")
	}
	if err := checkWords("author", c.Author, maxAuthor, ""); err != nil {
		return err
	}
	return checkWords("comment", c.Comment, maxComment, "\n\t")
}

func checkWords(what, s string, most int, allowed string) error {
	if len(s) > most {
		return fmt.Errorf("the %s of a change can have %d bytes, not %d", what, most, len(s))
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("the %s of a change must be UTF-8", what)
	}
	for _, r := range s {
		if !unicode.IsGraphic(r) && !strings.ContainsRune(allowed, r) {
			return fmt.Errorf("the %s of a change cannot contain %U", what, r)
		}
	}
	return nil
}

// CheckHead refuses a change that is not based on head, which is the zero
// Head where the rule set never existed. Editors call it before they commit.
func (c Change) CheckHead(id string, head Head) error {
	if current := head.Current(); c.Base != current {
		return &ConflictError{RuleSetID: id, Base: c.Base, Current: current}
	}
	return nil
}

// ConflictError is returned for a change that was based on another revision
// than the current one.
type ConflictError struct {
	RuleSetID string `json:"ruleSet" doc:"The rule set."`
	// Base is the revision that the change was based on.
	Base int64 `json:"base" doc:"The revision that the change was based on; 0 for a new rule set."`
	// Current is the revision that exists, 0 if the rule set does not.
	Current int64 `json:"current" doc:"The current revision; 0 if the rule set does not exist."`
}

func (e *ConflictError) Error() string {
	switch {
	case e.Base == 0:
		return fmt.Sprintf("rule set %q exists already, at revision %d", e.RuleSetID, e.Current)
	case e.Current == 0:
		return fmt.Sprintf("rule set %q is not at revision %d: it does not exist", e.RuleSetID, e.Base)
	}
	return fmt.Sprintf("rule set %q is at revision %d, not at %d: somebody else has changed it", e.RuleSetID, e.Current, e.Base)
}

// Restore makes the rules of a former revision current again, under a new
// revision. An empty comment becomes [RestoreComment].
func Restore(ctx context.Context, e Editor, id string, revision int64, change Change) (int64, error) {
	former, err := e.Version(ctx, id, revision)
	if err != nil {
		return 0, fmt.Errorf("restoring revision %d of rule set %q: %w", revision, id, err)
	}
	if former.RuleSet == nil {
		return 0, fmt.Errorf("restoring revision %d of rule set %q: it is a deletion: %w", revision, id, ErrNotFound)
	}
	if change.Comment == "" {
		change.Comment = RestoreComment(revision)
	}
	return e.Put(ctx, former.RuleSet, change)
}

// RestoreComment is the default comment of a revision that restores another.
func RestoreComment(revision int64) string { return fmt.Sprintf("restore revision %d", revision) }
