package mongorules

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// survey is how the documents of a rule set stand to its current revision.
type survey struct {
	behind  []behind   // ours, and to be written anew
	left    []document // ours, of rules that are no more
	missing []projected
	edited  []document // changed or made by somebody else
	kept    int        // those that are as they should be
}

// behind is a document and what it should say.
type behind struct {
	document
	want projected
}

// look sorts the documents of a rule set at the revision of a head. Edits that
// the revision overrules count as ours.
func look(h *head, want []projected, docs []document, overrules []string) survey {
	var s survey
	byID := make(map[string]int, len(docs))
	for i, d := range docs {
		if d.id != "" {
			byID[d.id] = i
		}
	}
	wanted := make(map[string]bool, len(want))
	for _, w := range want {
		wanted[w.id] = true
		i, ok := byID[w.id]
		if !ok {
			s.missing = append(s.missing, w)
			continue
		}
		switch d := docs[i]; {
		case d.sum == w.sum && d.checksum == w.sum && !d.exposed:
			s.kept++
		case d.sum == w.sum || ours(h, &d, overrules):
			s.behind = append(s.behind, behind{d, w})
		default:
			s.edited = append(s.edited, d)
		}
	}
	for _, d := range docs {
		switch {
		case wanted[d.id]:
		case ours(h, &d, overrules):
			s.left = append(s.left, d)
		default:
			s.edited = append(s.edited, d)
		}
	}
	return s
}

// ours reports whether a document is what some revision up to the head's has
// written, or what it may write over.
func ours(h *head, d *document, overrules []string) bool {
	if d.revision <= h.Revision && (d.untouched() || h.Deleted && d.checksum != "") {
		return true // an edit of what is being deleted came too late
	}
	return len(overrules) > 0 && slices.Contains(overrules, d.fingerprint())
}

// seen are the fingerprints of documents that were edited and say by now what
// the current revision says. Whoever bases a change on it has seen them.
func (f *survey) seen() []string {
	var all []string
	for _, b := range f.behind {
		if !b.untouched() {
			all = append(all, b.fingerprint())
		}
	}
	return all
}

// fetchDocuments reads the documents of a rule set.
func (s *Source) fetchDocuments(ctx context.Context, id string) ([]document, error) {
	// Twice as much as can be put is left for what others keep beside it.
	const mostBytes = 4 * rules.MaxDocument
	var docs []document
	err := s.call(ctx, "reading the documents of a rule set", func(ctx context.Context) error {
		cursor, err := s.docs.Find(ctx, bson.D{{Key: "ruleSetId", Value: id}}, options.Find().SetLimit(fluxgate.MaxRules+1))
		if err != nil {
			return err
		}
		defer func() { _ = cursor.Close(ctx) }()
		size := 0
		for cursor.Next(ctx) {
			if size += len(cursor.Current); size > mostBytes || len(docs) > fluxgate.MaxRules {
				return fmt.Errorf("rule set %q has more than %d rules or %d bytes", id, fluxgate.MaxRules, mostBytes)
			}
			docs = append(docs, readDocument(slices.Clone(cursor.Current)))
		}
		return cursor.Err()
	})
	return docs, err
}

// takenError says that rules stand in another rule set.
type takenError struct {
	id     string
	owners map[string]string // rule id → rule set
}

func (e *takenError) Error() string {
	text := fmt.Sprintf("rule set %q has rules whose ids stand in another rule set too", e.id)
	for rule, owner := range e.owners {
		return fmt.Sprintf("%s, such as %q in %.70q", text, rule, owner)
	}
	return text
}

// owners are the other rule sets that have documents with these ids.
func (s *Source) owners(ctx context.Context, id string, ruleIDs []string) (map[string]string, error) {
	owners := map[string]string{}
	for chunk := range slices.Chunk(ruleIDs, s.config.batch) {
		filter := bson.D{
			{Key: "_id", Value: bson.D{{Key: "$in", Value: chunk}}},
			{Key: "ruleSetId", Value: bson.D{{Key: "$ne", Value: id}}},
		}
		err := s.call(ctx, "looking whose the rule ids are", func(ctx context.Context) error {
			found, err := findAll[bson.Raw](ctx, s.docs, filter, options.Find().SetProjection(bson.D{{Key: "ruleSetId", Value: 1}}))
			for _, raw := range found {
				owner, _ := raw.Lookup("ruleSetId").StringValueOK()
				owners[raw.Lookup("_id").StringValue()] = owner
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return owners, nil
}

// errRefused says that the server does not take a document, whoever writes it:
// the collection may have a schema of its own.
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
				// Not what the server says of it: that may show the document.
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
