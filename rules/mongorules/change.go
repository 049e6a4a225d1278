package mongorules

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// draft is a revision before it is committed.
type draft struct {
	content
	json     []byte
	change   rules.Change
	replaces []string // see head
}

// newDraft makes the draft of a rule set.
func newDraft(set *fluxgate.RuleSet, change rules.Change) (draft, error) {
	text, err := set.MarshalJSON()
	if err != nil {
		return draft{}, fmt.Errorf("writing rule set %q as JSON: %w", set.ID(), err)
	}
	if err := rules.CheckSize(text); err != nil {
		return draft{}, err
	}
	// Read it back: the caller may still change free attributes.
	own, err := fluxgate.ParseRuleSet(text)
	if err != nil {
		return draft{}, err
	}
	want, err := encodeRules(own)
	return draft{content: content{own, want}, json: text, change: change}, err
}

// Put implements [rules.Editor].
func (s *Source) Put(ctx context.Context, set *fluxgate.RuleSet, change rules.Change) (int64, error) {
	if err := change.Check(); err != nil {
		return 0, err
	}
	d, err := newDraft(set, change)
	if err != nil {
		return 0, err
	}
	return s.change(ctx, set.ID(), d)
}

// Delete implements [rules.Editor].
func (s *Source) Delete(ctx context.Context, id string, change rules.Change) (int64, error) {
	if err := change.Check(); err != nil {
		return 0, err
	}
	if !fluxgate.ValidID(id) {
		return 0, notFound(id)
	}
	return s.change(ctx, id, draft{change: change})
}

// change commits a draft and writes the documents. It first imports pending
// edits of the documents, so that it never overwrites what its author has not
// seen: a valid edit makes it a conflict, an invalid one is replaced.
func (s *Source) change(ctx context.Context, id string, d draft) (int64, error) {
	unlock, err := s.writers.lock(ctx, id)
	if err != nil {
		return 0, err
	}
	defer unlock()
	h, err := s.fetchHead(ctx, id)
	if err != nil {
		return 0, err
	}
	if err := d.change.CheckHead(id, h.place()); err != nil {
		return 0, err
	}
	b, err := s.inspect(ctx, id, h)
	switch {
	case errors.Is(err, errNoSnapshot), errors.Is(err, errBroken):
		s.config.Logger.Warn("the current revision of a rule set cannot be read; this change replaces it",
			"ruleSet", id, "author", d.change.Author, "error", err)
	case err != nil:
		return 0, err
	case b.hasEdits():
		var invalid *fluxgate.ValidationError
		imported, err := s.importEdits(ctx, b)
		switch {
		case err == nil:
			return 0, &rules.ConflictError{RuleSetID: id, Base: d.change.Base, Current: imported.current()}
		case !errors.As(err, &invalid):
			return 0, err
		}
		s.config.Logger.Warn("a change replaces an invalid edit of the documents",
			"ruleSet", id, "author", d.change.Author, "documents", names(b.edited), "error", invalid)
		d.replaces = append(d.replaces, fingerprints(b.edited)...)
	}
	if d.set == nil && (h == nil || h.Deleted) {
		return 0, notFound(id)
	}
	d.replaces = append(d.replaces, fingerprints(b.takesOver(d.set))...)
	if h, err = s.commit(ctx, b, d); err != nil {
		return 0, err
	}
	if err := s.finish(ctx, h, d.content); err != nil {
		s.config.Logger.Warn("a change is committed, but its documents are not written yet: a reconciler will write them",
			"ruleSet", id, "revision", h.Revision, "error", err)
	}
	return h.Revision, nil
}

// commit makes a draft the next revision, by replacing the head if it has not
// changed since the base was read.
func (s *Source) commit(ctx context.Context, b *base, d draft) (*head, error) {
	now := s.config.Now().UTC().Truncate(time.Millisecond)
	h := &head{
		ID: b.id, RuleSetID: b.id, Deleted: d.set == nil, Author: d.change.Author, Comment: d.change.Comment, At: now,
		Document: string(d.json), Replaces: append(b.replaces(), d.replaces...), Adds: b.adds(d.want),
	}
	if b.head == nil {
		last, err := s.lastSnapshot(ctx, b.id)
		if err != nil {
			return nil, err
		}
		h.Revision, h.Start = last.Revision+1, last.End
	} else {
		if err := s.archive(ctx, b.head); err != nil {
			return nil, err
		}
		h.Revision, h.Start, h.Synced, h.Lease = b.head.Revision+1, b.head.End, b.head.Synced, b.head.Lease
	}
	h.End = h.Start + int64(len(d.json))
	won := false
	err := s.call(ctx, "replacing the head of a rule set", func(ctx context.Context) error {
		if b.head == nil {
			_, err := s.heads.InsertOne(ctx, h)
			won = err == nil
			if mongo.IsDuplicateKeyError(err) {
				err = nil
			}
			return err
		}
		result, err := s.heads.ReplaceOne(ctx, b.head.unchanged(), h)
		won = err == nil && result.MatchedCount > 0
		return err
	})
	if err != nil || won {
		return h, err
	}
	current, err := s.fetchHead(ctx, b.id)
	if err != nil {
		return nil, err
	}
	return nil, &rules.ConflictError{RuleSetID: b.id, Base: d.change.Base, Current: current.current()}
}
