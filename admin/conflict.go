package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// Conflict is a [rules.ConflictError] with the differences between the base and the
// current revision.
type Conflict struct {
	rules.ConflictError
	// Author, Comment and At are those of the current revision. They are empty
	// if the rule set does not exist.
	Author  string    `json:"author,omitempty" doc:"The author."`
	Comment string    `json:"comment,omitempty" doc:"The reason."`
	At      time.Time `json:"at,omitzero" doc:"When."`
	// Changes are the differences between the base and the current revision.
	Changes []rules.RuleDiff `json:"changes,omitempty" nullable:"false" doc:"How the current revision differs from the base, up to 64 KiB."`
}

func (c *Conflict) Error() string {
	text := c.ConflictError.Error()
	if c.Author != "" {
		text += fmt.Sprintf(" (%s, %s)", c.Author, c.At.UTC().Format(time.RFC3339))
	}
	return text
}

// Unwrap returns the conflict without the current revision.
func (c *Conflict) Unwrap() error { return &c.ConflictError }

// describe adds the current revision to a conflict. Revisions that are not kept are
// left out.
func describe(ctx context.Context, source rules.Editor, err error) error {
	var conflict *rules.ConflictError
	var described *Conflict
	if !errors.As(err, &conflict) || errors.As(err, &described) {
		return err
	}
	c := &Conflict{ConflictError: *conflict}
	set := func(revision int64) (*rules.Set, bool) {
		if revision == 0 {
			return nil, true
		}
		v, err := source.Version(ctx, conflict.RuleSetID, revision)
		if err != nil {
			return nil, false
		}
		if revision == conflict.Current {
			c.Author, c.Comment, c.At = v.Author, v.Comment, v.At
		}
		return v.RuleSet, true
	}
	base, knowsBase := set(conflict.Base)
	current, knowsCurrent := set(conflict.Current)
	if knowsBase && knowsCurrent {
		c.Changes = rules.Diff(base, current)
	}
	return c
}
