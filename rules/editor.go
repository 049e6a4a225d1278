package rules

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Editor is a source that can be written.
type Editor interface {
	Source

	// Put makes a rule set current and returns its revision. The JSON of the
	// rule set is kept byte for byte.
	//
	// A change based on another revision than the current one is a
	// [*ConflictError]. After any other error the change may have been made:
	// read the rule set before you try again.
	Put(ctx context.Context, set *Set, change Change) (revision int64, err error)

	// Delete deletes a rule set and keeps its history. It returns conflicts
	// like Put, and [ErrNotFound] for a rule set that does not exist and a
	// change with base 0.
	Delete(ctx context.Context, id string, change Change) (revision int64, err error)

	// List returns the rule sets that exist, in byte order of their ids: at
	// most [PageSize] with ids greater than after.
	List(ctx context.Context, after string, limit int) ([]Entry, error)

	// History returns the revisions of a rule set, newest first: at most
	// [PageSize] of those before the given one. 0 starts with the current
	// one. A rule set that never existed has none. Old revisions are deleted
	// when the history exceeds the source's limits on number and bytes.
	History(ctx context.Context, id string, before int64, limit int) ([]Entry, error)

	// Version reads a rule set at a revision. A revision that does not exist
	// is [ErrNotFound]; a deletion is a version without rules.
	Version(ctx context.Context, id string, revision int64) (*Version, error)
}

const (
	// MaxPage is the maximum number of entries that List and History return.
	MaxPage = 1_000
	// DefaultHistory is how many revisions of a rule set editors keep unless
	// configured otherwise.
	DefaultHistory = 1_000
	// DefaultHistoryBytes is how many bytes of JSON the kept revisions of a
	// rule set have in total, unless configured otherwise. The current
	// revision and the one before it are always kept.
	DefaultHistoryBytes = 32 << 20
	// MaxDocument is the maximum size of the JSON of a rule set, in bytes.
	MaxDocument = 12 << 20

	maxAuthor  = 256
	maxComment = 1_024
)

// PageSize returns the maximum number of entries of List and History for a limit: the
// limit, or MaxPage if the limit is larger or not positive.
func PageSize(limit int) int {
	if limit <= 0 || limit > MaxPage {
		return MaxPage
	}
	return limit
}

// Change describes a change of a rule set: its base, author and reason.
type Change struct {
	// Base is the revision that the author has seen. 0 means that the rule
	// set must not exist.
	Base int64
	// Force makes the change although overrides do not fit the new rules, or servers do not
	// understand them. Editors ignore it.
	Force bool
	// Author is required.
	Author  string
	Comment string
}

// Check returns an error for a change without an author, or with an author or a
// comment that is not printable. Editors call it first.
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

// CheckHead returns an error for a change that is not based on head, which is the
// zero Head if the rule set never existed. Editors call it before they commit.
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
	// Current is the current revision. It is 0 if the rule set does not exist.
	Current int64 `json:"current" doc:"The current revision; 0 if the rule set does not exist."`
}

func (e *ConflictError) Error() string {
	switch {
	case e.Base == 0:
		return fmt.Sprintf("rule set %q exists already, at revision %d", e.RuleSetID, e.Current)
	case e.Current == 0:
		return fmt.Sprintf("rule set %q is not at revision %d: it does not exist", e.RuleSetID, e.Base)
	}
	return fmt.Sprintf("rule set %q is at revision %d, not at %d: another operator changed it", e.RuleSetID, e.Current, e.Base)
}

// RestoreComment is the default comment of a revision that restores another.
func RestoreComment(revision int64) string { return fmt.Sprintf("restore revision %d", revision) }
