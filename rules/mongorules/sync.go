package mongorules

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// fetchDocuments reads the documents of a rule set, in the order of their bytes.
func (s *Source) fetchDocuments(ctx context.Context, id string) (all []bson.Raw, err error) {
	// Twice as much as can be put is left for what others keep beside it.
	const mostBytes = 4 * rules.MaxDocument
	err = s.call(ctx, "reading the documents of a rule set", func(ctx context.Context) error {
		cursor, err := s.docs.Find(ctx, bson.M{"ruleSetId": id}, options.Find().SetLimit(fluxgate.MaxRules+1))
		if err != nil {
			return err
		}
		defer func() { _ = cursor.Close(ctx) }()
		size := 0
		for cursor.Next(ctx) {
			if size += len(cursor.Current); size > mostBytes || len(all) > fluxgate.MaxRules {
				return fmt.Errorf("rule set %q has more than %d rules or %d bytes", id, fluxgate.MaxRules, mostBytes)
			}
			all = append(all, slices.Clone(cursor.Current))
		}
		return cursor.Err()
	})
	slices.SortFunc(all, func(a, b bson.Raw) int { return bytes.Compare(a, b) })
	return all, err
}

// digest is equal for equal documents at an equal head.
func digest(h *head, all []bson.Raw) string {
	sum := sha256.New()
	if h != nil {
		_, _ = fmt.Fprintln(sum, h.Revision, h.Synced) // never fails
	}
	for _, raw := range all {
		_, _ = sum.Write(raw)
	}
	return string(sum.Sum(nil))
}

// archive writes a revision into the history, if the head still has it.
func (s *Source) archive(ctx context.Context, h *head) error {
	if h.Document == "" && !h.Deleted {
		return nil
	}
	v := *h
	v.ID, v.Synced, v.Replaces, v.Adds, v.Problem, v.Lease = snapshotID(h.ID, h.Revision), 0, nil, nil, "", nil
	return s.call(ctx, "writing the history", func(ctx context.Context) error {
		_, err := s.history.ReplaceOne(ctx, bson.M{"_id": v.ID}, v, options.Replace().SetUpsert(true))
		return err
	})
}

// tidyHistory forgets the revisions beyond the bounds.
func (s *Source) tidyHistory(ctx context.Context, h *head) error {
	return s.call(ctx, "tidying the history", func(ctx context.Context) error {
		_, err := s.history.DeleteMany(ctx, bson.M{"ruleSetId": h.ID, "$or": bson.A{
			bson.M{"revision": bson.M{"$lte": h.Revision - int64(s.config.History)}},
			bson.M{"revision": bson.M{"$lt": h.Revision - 1}, "start": bson.M{"$lt": h.End - int64(s.config.HistoryBytes)}},
		}})
		return err
	})
}

// syncDocuments writes the history of a head's revision and makes the documents
// say what it says. Edits that the revision does not know stay for the next
// look. It can be interrupted at any call and repeated by any server. What a
// late one has inserted is obsolete, and the next look deletes it.
func (s *Source) syncDocuments(ctx context.Context, h *head, want []ruleDocument) error {
	if err := s.archive(ctx, h); err != nil {
		return err
	}
	if err := s.tidyHistory(ctx, h); err != nil {
		return err
	}
	// A further round means that an _id is in use, or that a document was changed
	// meanwhile. The last one finds nothing to write.
	const rounds = 6
	for round := range rounds {
		all, err := s.fetchDocuments(ctx, h.ID)
		if err != nil {
			return err
		}
		writes := classify(h, want, all, round > 0).writes
		if len(writes) == 0 {
			return s.update(ctx, "marking the documents as written", h, bson.M{
				"$set": bson.M{"synced": h.Revision}, "$unset": bson.M{"document": "", "replaces": "", "adds": ""},
			})
		}
		for chunk := range slices.Chunk(writes, s.config.batch) {
			if err := s.call(ctx, "writing documents", func(ctx context.Context) error { return s.write(ctx, chunk) }); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("documents of rule set %q could not be written: they change too often, or other documents have their _id", h.ID)
}

// write changes documents that are still as they were read.
func (s *Source) write(ctx context.Context, models []mongo.WriteModel) error {
	_, err := s.docs.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
	var refused mongo.BulkWriteException
	switch {
	case mongo.IsDuplicateKeyError(err):
		return nil // the next round uses another _id
	case errors.As(err, &refused) && len(refused.WriteErrors) > 0:
		// Without the server's message, which may show the document.
		return fmt.Errorf("the server refuses a document with error %d", refused.WriteErrors[0].Code)
	}
	return err
}
