package mongorules

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// rawDocument is a rule document as it was read.
type rawDocument = bson.Raw

// fetchDocuments reads the documents of a rule set, in the order of their bytes.
func (s *Source) fetchDocuments(ctx context.Context, id string) ([]rawDocument, error) {
	// Twice as much as can be put is left for what others keep beside it.
	const mostBytes = 4 * rules.MaxDocument
	var all []rawDocument
	err := s.call(ctx, "reading the documents of a rule set", func(ctx context.Context) error {
		cursor, err := s.docs.Find(ctx, bson.D{{Key: "ruleSetId", Value: id}}, options.Find().SetLimit(fluxgate.MaxRules+1))
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
	slices.SortFunc(all, func(a, b rawDocument) int { return bytes.Compare(a, b) })
	return all, err
}

// digest is equal for equal documents at an equal revision.
func digest(h *head, raw []rawDocument) string {
	sum := sha256.New()
	_, _ = fmt.Fprintln(sum, h.place().Revision) // never fails
	for _, r := range raw {
		_, _ = sum.Write(r)
	}
	return string(sum.Sum(nil))
}

// finish writes the history and the documents of a head's revision. It can be
// interrupted at any call and repeated by any server, also a late one.
func (s *Source) finish(ctx context.Context, h *head, c content) error {
	const rounds = 5 // each further one means that the rule set was changed meanwhile
	for range rounds {
		if err := s.archive(ctx, h); err != nil {
			return err
		}
		if err := s.tidyHistory(ctx, h); err != nil {
			return err
		}
		inserted, err := s.syncDocuments(ctx, h, c)
		if err != nil {
			return err
		}
		current, err := s.markSynced(ctx, h)
		// Whoever made a later revision writes its documents. But one that we
		// have inserted may be of a rule that is gone there.
		if err != nil || current || inserted == 0 {
			return err
		}
		if h, err = s.fetchHead(ctx, h.ID); err != nil || h == nil {
			return err
		}
		v, err := s.fetchCurrent(ctx, h)
		if err != nil {
			return err
		}
		want, err := encodeRules(v.RuleSet)
		if err != nil {
			return err
		}
		c = content{v.RuleSet, want}
	}
	return nil
}

// archive writes a version into the history, if the head still has it.
func (s *Source) archive(ctx context.Context, h *head) error {
	if h.Document == "" && !h.Deleted {
		return nil
	}
	v := *h
	v.ID, v.Synced, v.Replaces, v.Adds, v.Problem, v.Lease = snapshotID(h.ID, h.Revision), 0, nil, nil, "", nil
	return s.call(ctx, "writing the history", func(ctx context.Context) error {
		_, err := s.history.ReplaceOne(ctx, bson.D{{Key: "_id", Value: v.ID}}, v, options.Replace().SetUpsert(true))
		return err
	})
}

// tidyHistory forgets the revisions beyond the bounds.
func (s *Source) tidyHistory(ctx context.Context, h *head) error {
	filter := bson.D{{Key: "ruleSetId", Value: h.ID}, {Key: "$or", Value: bson.A{
		bson.D{{Key: "revision", Value: bson.D{{Key: "$lte", Value: h.Revision - int64(s.config.History)}}}},
		bson.D{
			{Key: "revision", Value: bson.D{{Key: "$lt", Value: h.Revision - 1}}},
			{Key: "start", Value: bson.D{{Key: "$lt", Value: h.End - int64(s.config.HistoryBytes)}}},
		},
	}}}
	return s.call(ctx, "tidying the history", func(ctx context.Context) error {
		_, err := s.history.DeleteMany(ctx, filter)
		return err
	})
}

// syncDocuments makes the documents say what the head's revision says. Edits
// that the revision does not know stay for the next look.
func (s *Source) syncDocuments(ctx context.Context, h *head, c content) (inserted int64, err error) {
	const rounds = 5 // each further one means that a document was changed meanwhile
	for range rounds {
		raw, err := s.fetchDocuments(ctx, h.ID)
		if err != nil {
			return inserted, err
		}
		documents, _ := split(raw, c.want)
		found := classify(h, c.want, documents)
		models, err := s.insertions(ctx, h, found.missing)
		if err != nil {
			return inserted, err
		}
		for _, d := range found.stale {
			models = append(models, mongo.NewUpdateOneModel().SetFilter(d.unchanged()).SetUpdate(rewrite(d.document, d.want, h.Revision)))
		}
		for _, d := range found.obsolete {
			models = append(models, mongo.NewDeleteOneModel().SetFilter(d.unchanged()))
		}
		complete, n, err := s.write(ctx, models)
		inserted += n
		if err != nil || complete {
			return inserted, err
		}
	}
	return inserted, fmt.Errorf("documents of rule set %q could not be written: they change too often, or other documents have their _id", h.ID)
}

// longKey is the _id of a rule's document where the rule id is in use.
func longKey(ruleSetID, ruleID string) string { return ruleSetID + "/" + ruleID }

// insertions are the documents of rules that have none.
func (s *Source) insertions(ctx context.Context, h *head, missing []ruleDocument) ([]mongo.WriteModel, error) {
	used := map[string]bool{}
	for chunk := range slices.Chunk(missing, s.config.batch) {
		ids := make([]string, len(chunk))
		for i, w := range chunk {
			ids[i] = w.id
		}
		err := s.call(ctx, "looking which _ids are in use", func(ctx context.Context) error {
			found, err := findAll[bson.Raw](ctx, s.docs, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}},
				options.Find().SetProjection(bson.D{{Key: "_id", Value: 1}}))
			for _, raw := range found {
				used[raw.Lookup("_id").StringValue()] = true
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	models := make([]mongo.WriteModel, len(missing))
	for i, w := range missing {
		key := w.id
		if used[key] {
			key = longKey(h.ID, w.id)
		}
		models[i] = mongo.NewInsertOneModel().SetDocument(insertion(key, w, h.Revision))
	}
	return models, nil
}

// errRefused means that the server does not accept a document, whoever writes
// it: the collection may have a schema of its own.
var errRefused = errors.New("the server refuses a document")

// write changes documents in batches. It reports whether every change found
// what it expected, and how many documents are new.
func (s *Source) write(ctx context.Context, models []mongo.WriteModel) (complete bool, inserted int64, err error) {
	complete = true
	for chunk := range slices.Chunk(models, s.config.batch) {
		err := s.call(ctx, "writing documents", func(ctx context.Context) error {
			result, err := s.docs.BulkWrite(ctx, chunk, options.BulkWrite().SetOrdered(false))
			if result != nil {
				inserted += result.InsertedCount
				complete = complete && result.InsertedCount+result.MatchedCount+result.DeletedCount == int64(len(chunk))
			}
			var refused mongo.BulkWriteException
			switch {
			case mongo.IsDuplicateKeyError(err):
				complete, err = false, nil
			case errors.As(err, &refused) && len(refused.WriteErrors) > 0:
				// Without the server's message, which may show the document.
				err = fmt.Errorf("%w with error %d", errRefused, refused.WriteErrors[0].Code)
			}
			return err
		})
		if err != nil {
			return false, inserted, err
		}
	}
	return complete, inserted, nil
}

// markSynced notes that the history and the documents are written. It reports
// whether the head is still at that revision.
func (s *Source) markSynced(ctx context.Context, h *head) (current bool, err error) {
	return s.update(ctx, "marking the documents as written", h.unchanged(), bson.D{
		{Key: "$set", Value: bson.D{{Key: "synced", Value: h.Revision}}},
		{Key: "$unset", Value: bson.D{{Key: "document", Value: ""}, {Key: "replaces", Value: ""}, {Key: "adds", Value: ""}}},
	})
}

// reopen notes that all documents of a revision are to be inserted again.
// Otherwise those that are still missing after a crash would be removed rules.
func (s *Source) reopen(ctx context.Context, h *head, want []ruleDocument) error {
	h.Synced, h.Adds = h.Revision-1, nil
	for _, w := range want {
		h.Adds = append(h.Adds, w.id)
	}
	_, err := s.update(ctx, "marking the documents as missing", h.unchanged(),
		bson.D{{Key: "$set", Value: bson.D{{Key: "synced", Value: h.Synced}, {Key: "adds", Value: h.Adds}}}})
	return err
}

// memo remembers a text for each of at most maxMemo rule sets.
type memo struct {
	mu    sync.Mutex
	texts map[string]string
}

const maxMemo = 1_000

func (m *memo) get(id string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.texts[id]
}

func (m *memo) set(id, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.texts == nil || len(m.texts) >= maxMemo {
		m.texts = map[string]string{}
	}
	m.texts[id] = text
}
