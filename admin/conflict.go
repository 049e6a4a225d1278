package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// Conflict is a [rules.ConflictError], and what the other has changed.
type Conflict struct {
	rules.ConflictError
	// Author made the current revision at the time At, and says why in the
	// Comment. They are empty if the rule set does not exist.
	Author, Comment string
	At              time.Time
	// Changes are what differs between the base and what is current.
	Changes []rules.RuleDiff
}

func (c *Conflict) Error() string {
	text := c.ConflictError.Error()
	if c.Author != "" {
		text += fmt.Sprintf(" (%s, %s)", c.Author, c.At.UTC().Format(time.RFC3339))
	}
	return text
}

// Unwrap is the conflict without what is known of the other.
func (c *Conflict) Unwrap() error { return &c.ConflictError }

// describe adds to a conflict what the other has changed. What cannot be read
// any more is left out: the conflict is the news.
func describe(ctx context.Context, source rules.Editor, err error) error {
	var conflict *rules.ConflictError
	var described *Conflict
	if !errors.As(err, &conflict) || errors.As(err, &described) {
		return err
	}
	c := &Conflict{ConflictError: *conflict}
	set := func(revision int64) (*fluxgate.RuleSet, bool) {
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
