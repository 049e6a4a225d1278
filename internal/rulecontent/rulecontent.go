// Package rulecontent answers for rule sources that read all of their rule sets at once.
package rulecontent

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/fluxgate/fluxgate/rules"
)

// MaxGone is how many deleted rule sets are remembered.
const MaxGone = 10_000

// Content is the rule sets of a source at one time.
type Content struct {
	Versions map[string]rules.Version
	// Heads has the heads of the versions and of deleted rule sets.
	Heads map[string]rules.Head
}

// New returns a content without rule sets.
func New() Content {
	return Content{Versions: map[string]rules.Version{}, Heads: map[string]rules.Head{}}
}

// Add adds a version.
func (c *Content) Add(v rules.Version) {
	c.Versions[v.RuleSetID], c.Heads[v.RuleSetID] = v, v.Head
}

// Remember keeps the heads of rule sets that are gone, up to MaxGone.
func (c *Content) Remember(before *Content) {
	gone := 0
	for id, head := range before.Heads {
		if _, exists := c.Heads[id]; !exists && gone < MaxGone {
			c.Heads[id] = rules.Head{Revision: head.Revision, Deleted: true}
			gone++
		}
	}
}

// Reader is a [rules.Source].
type Reader struct {
	// Name is the place of the rules, for errors.
	Name string
	// Read returns the current content, or why it is unknown.
	Read func(ctx context.Context) (*Content, error)
}

// Revisions implements [rules.Source].
func (r *Reader) Revisions(ctx context.Context, ids []string) (map[string]rules.Head, error) {
	now, err := r.Read(ctx)
	if err != nil {
		return nil, err
	}
	heads := make(map[string]rules.Head, len(ids))
	for _, id := range ids {
		if head, known := now.Heads[id]; known {
			heads[id] = head
		}
	}
	return heads, nil
}

// Load implements [rules.Source].
func (r *Reader) Load(ctx context.Context, id string) (*rules.Version, error) {
	now, err := r.Read(ctx)
	if err != nil {
		return nil, err
	}
	version, ok := now.Versions[id]
	if !ok {
		return nil, fmt.Errorf("rule set %q %s: %w", id, r.Name, rules.ErrNotFound)
	}
	return &version, nil
}

// IDs returns the ids of the rule sets, sorted. The error is that of [Reader.Load].
func (r *Reader) IDs(ctx context.Context) ([]string, error) {
	now, err := r.Read(ctx)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(now.Versions)), nil
}
