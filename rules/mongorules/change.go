package mongorules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fluxgate/fluxgate/rules"
)

// draft is a revision before it is committed: the rules, nil for a deletion, as
// documents and as JSON.
type draft struct {
	change rules.Change
	want   []ruleDocument
	json   []byte
}

// newDraft returns the draft of a rule set.
func newDraft(set *rules.Set, change rules.Change) (draft, error) {
	own, text, err := rules.Encode(set)
	if err != nil {
		return draft{}, err
	}
	want, err := encodeRules(own)
	return draft{change, want, text}, err
}

// Put implements [rules.Editor].
func (s *Source) Put(ctx context.Context, set *rules.Set, change rules.Change) (int64, error) {
	d, err := newDraft(set, change)
	if err != nil {
		return 0, err
	}
	return s.change(ctx, set.ID(), d)
}

// Delete implements [rules.Editor].
func (s *Source) Delete(ctx context.Context, id string, change rules.Change) (int64, error) {
	return s.change(ctx, id, draft{change: change})
}

// change commits a draft and writes the documents. It first imports pending edits
// of the documents, so that it overwrites nothing its author has not seen: a valid
// edit causes a conflict, an invalid one is replaced.
func (s *Source) change(ctx context.Context, id string, d draft) (int64, error) {
	if err := d.change.Check(); err != nil {
		return 0, err
	}
	// One writer of this process at a time: the others would only get a
	// conflict at the end.
	if err := s.writing.Acquire(ctx, 1); err != nil {
		return 0, err
	}
	defer s.writing.Release(1)
	h, err := s.fetchHead(ctx, id)
	if err != nil {
		return 0, err
	}
	if err := d.change.CheckHead(id, h.state()); err != nil {
		return 0, err
	}
	if d.json == nil && d.change.Base == 0 {
		return 0, notFound(id)
	}
	b, err := s.inspect(ctx, id, h)
	switch {
	case errors.Is(err, errNoSnapshot), errors.Is(err, errBroken):
		s.config.Logger.Warn("the current revision of a rule set cannot be read; this change replaces it",
			"ruleSet", id, "author", d.change.Author, "error", err)
	case err != nil:
		return 0, err
	case b.hasEdits():
		imported, err := s.importEdits(ctx, b)
		if err == nil {
			return 0, &rules.ConflictError{RuleSetID: id, Base: d.change.Base, Current: imported.Revision}
		}
		if !errors.As(err, new(*rules.ValidationError)) {
			return 0, err
		}
		s.config.Logger.Warn("a change replaces an invalid edit of the documents",
			"ruleSet", id, "author", d.change.Author, "documents", names(b.edited), "error", err)
		for _, d := range b.edited {
			b.replaces = append(b.replaces, d.fingerprint())
		}
	}
	h, err = s.commit(ctx, b, d)
	return h.state().Revision, err
}

// commit makes a draft the next revision: it replaces the head if it has not
// changed since the base was read. Then it writes history and documents; if that
// fails, a reconciler does it.
func (s *Source) commit(ctx context.Context, b *base, d draft) (*head, error) {
	h := &head{
		ID: b.id, RuleSetID: b.id, Deleted: d.json == nil, Author: d.change.Author, Comment: d.change.Comment,
		At: s.config.Now().UTC().Truncate(time.Millisecond), Document: string(d.json), Replaces: b.replaces, Adds: b.adds(d.want),
	}
	last := b.head
	var err error
	if last != nil {
		h.Synced, h.Lease = last.Synced, last.Lease
		err = s.archive(ctx, last)
	} else { // the head may be lost
		last, err = first(find[*head](ctx, s, "reading former revisions", s.current().history, bson.M{"ruleSetId": b.id},
			options.Find().SetSort(bson.M{"revision": -1}).SetLimit(1).SetProjection(bson.M{"document": 0})))
	}
	if err != nil {
		return nil, err
	}
	if b.head.state().Deleted && !h.Deleted {
		if err := s.clearOverrides(ctx, b.id); err != nil {
			return nil, err
		}
	}
	last = cmp.Or(last, &head{})
	h.Revision, h.Start = last.Revision+1, last.End
	h.End = h.Start + int64(len(d.json))
	conflict := false
	err = s.call(ctx, "replacing the head of a rule set", func(ctx context.Context) error {
		filter := bson.M{"_id": h.ID, "revision": b.head.state().Revision}
		result, err := s.current().heads.ReplaceOne(ctx, filter, h, options.Replace().SetUpsert(b.head == nil))
		if conflict = mongo.IsDuplicateKeyError(err) || err == nil && result.MatchedCount+result.UpsertedCount == 0; conflict {
			h, err = s.fetchHead(ctx, b.id)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if conflict {
		return nil, &rules.ConflictError{RuleSetID: b.id, Base: d.change.Base, Current: h.state().Current()}
	}
	if h.Deleted {
		if err := s.clearOverrides(ctx, h.ID); err != nil {
			s.config.Logger.Warn("a rule set is deleted, but not its overrides yet: a reconciler deletes them, or the next change",
				"ruleSet", h.ID, "revision", h.Revision, "error", err)
		}
	}
	if err := s.syncDocuments(ctx, h, d.want); err != nil {
		s.config.Logger.Warn("a change is committed, but its documents are not written yet: a reconciler will write them",
			"ruleSet", h.ID, "revision", h.Revision, "error", err)
	}
	return h, nil
}

// archive writes a revision to the history, if it is still in the head.
func (s *Source) archive(ctx context.Context, h *head) error {
	if h.Document == "" && !h.Deleted {
		return nil
	}
	v := *h
	v.ID, v.Synced, v.Replaces, v.Adds, v.Problem, v.Lease = snapshotID(h.RuleSetID, h.Revision), 0, nil, nil, "", nil
	return s.call(ctx, "writing the history", func(ctx context.Context) error {
		_, err := s.current().history.ReplaceOne(ctx, bson.M{"_id": v.ID}, v, options.Replace().SetUpsert(true))
		return err
	})
}

// syncDocuments writes the history of a head's revision and updates the documents to
// it. Edits that are not in the revision stay for the next import. It can be
// interrupted at any call and repeated by any server. Documents inserted by a late
// writer are obsolete, and the next reconciler deletes them.
func (s *Source) syncDocuments(ctx context.Context, h *head, want []ruleDocument) error {
	if err := s.archive(ctx, h); err != nil {
		return err
	}
	err := s.call(ctx, "deleting old revisions", func(ctx context.Context) error {
		_, err := s.current().history.DeleteMany(ctx, bson.M{"ruleSetId": h.ID, "$or": bson.A{
			bson.M{"revision": bson.M{"$lte": h.Revision - int64(s.config.History)}},
			bson.M{"revision": bson.M{"$lt": h.Revision - 1}, "start": bson.M{"$lt": h.End - int64(s.config.HistoryBytes)}},
		}})
		return err
	})
	if err != nil {
		return err
	}
	for round := range 5 { // repeated if an _id is in use or a document was changed meanwhile
		all, err := s.fetchDocuments(ctx, h.ID)
		if err != nil {
			return err
		}
		complete := true
		found, err := s.compare(ctx, h, want, all, round > 0)
		if err != nil {
			return err
		}
		replaced := setOf(h.Replaces)
		edited := slices.DeleteFunc(found.obsolete, func(d document) bool { return d.untouched() || replaced[d.fingerprint()] })
		if len(edited) > 0 {
			s.config.Logger.Warn("documents were edited while their rule set was deleted; they are deleted too",
				"ruleSet", h.ID, "revision", h.Revision, "author", h.Author, "documents", names(edited))
		}
		for chunk := range slices.Chunk(found.writes, s.config.batch) {
			done, err := s.bulkWrite(ctx, "writing documents", s.current().docs, chunk)
			if err != nil {
				return err
			}
			complete = complete && done
		}
		if complete {
			return s.update(ctx, "marking the documents as written", h, bson.M{
				"$set": bson.M{"synced": h.Revision}, "$unset": bson.M{"document": "", "replaces": "", "adds": ""},
			})
		}
	}
	return fmt.Errorf("cannot write the documents of rule set %q: they change too often, or other documents have their _id", h.ID)
}

const duplicateKey = 11000

// bulkWrite makes writes. It reports whether each of them found its document as its filter says,
// and inserted none whose _id exists.
func (s *Source) bulkWrite(
	ctx context.Context, doing string, c *mongo.Collection, writes []mongo.WriteModel,
) (complete bool, err error) {
	if len(writes) == 0 {
		return true, ctx.Err()
	}
	err = s.call(ctx, doing, func(ctx context.Context) error {
		result, err := c.BulkWrite(ctx, writes, options.BulkWrite().SetOrdered(false))
		var refused mongo.BulkWriteException
		if !errors.As(err, &refused) || refused.WriteConcernError != nil {
			complete = err == nil && result.InsertedCount+result.MatchedCount+result.DeletedCount == int64(len(writes))
			return err
		}
		for _, e := range refused.WriteErrors {
			if !e.HasErrorCode(duplicateKey) {
				// Without the server's message, which may show the document.
				return fmt.Errorf("MongoDB rejected a document with error %d", e.Code)
			}
		}
		return nil
	})
	return complete, err
}
