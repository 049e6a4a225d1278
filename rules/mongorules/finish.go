package mongorules

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/fluxgate/fluxgate"
)

// content is what a revision says: the rules, nil for a deletion, how they look
// as documents, and the edits that it overrules.
type content struct {
	set       *fluxgate.RuleSet
	want      []projected
	overrules []string
}

// fetchContent reads what a head stands for.
func (s *Source) fetchContent(ctx context.Context, h *head) (content, error) {
	v, err := s.fetchSnapshot(ctx, h)
	if err != nil {
		return content{}, err
	}
	version, err := v.version()
	if err != nil {
		return content{}, err
	}
	want, err := project(version.RuleSet)
	if err != nil {
		return content{}, fmt.Errorf("rule set %q at revision %d: %w: %w", h.ID, h.Revision, errBroken, err)
	}
	return content{version.RuleSet, want, v.Overrules}, nil
}

// finish brings everything behind a head to where the head stands. It can be
// interrupted anywhere and done again by anybody, even by several at a time
// and by somebody who is late.
func (s *Source) finish(ctx context.Context, h *head, c content) error {
	const rounds = 5 // each further one means that somebody else has changed the rule set meanwhile
	for range rounds {
		// First of all, since the next change takes uncommitted snapshots of
		// revisions up to its own for those of writers who lost.
		if err := s.markCommitted(ctx, h); err != nil {
			return err
		}
		done, rolled := s.roll(ctx, h, c)
		if rolled != nil && !errors.Is(rolled, errRefused) && !errors.As(rolled, new(*takenError)) {
			return rolled
		}
		if err := s.tidyHistory(ctx, h); err != nil {
			return err
		}
		if rolled != nil {
			return rolled
		}
		current, err := s.markProjected(ctx, h, done.removed)
		if err != nil || current {
			return err
		}
		// We are late: whoever made the next change brings the documents to
		// where it stands. Only one that we have inserted may have come after
		// it was taken away there.
		if done.inserted == 0 {
			return nil
		}
		if h, err = s.fetchHead(ctx, h.ID); err != nil || h.never() {
			return err
		}
		if c, err = s.fetchContent(ctx, h); err != nil {
			return err
		}
	}
	return nil
}

func (s *Source) markCommitted(ctx context.Context, h *head) error {
	return s.call(ctx, "marking a snapshot as committed", func(ctx context.Context) error {
		_, err := s.versions.UpdateOne(ctx, bson.D{{Key: "_id", Value: h.Snapshot}},
			bson.D{{Key: "$set", Value: bson.D{{Key: "committed", Value: true}}}})
		return err
	})
}

// rolled is what has become of the documents.
type rolled struct {
	inserted int64
	removed  []string // ids of rules that are no more
}

// roll makes the documents say what the head's revision says. Edits by others
// that the revision has not seen stay for the next look.
func (s *Source) roll(ctx context.Context, h *head, c content) (done rolled, err error) {
	const rounds = 5 // each further one means that somebody else has written a document meanwhile
	for range rounds {
		docs, err := s.fetchDocuments(ctx, h.ID)
		if err != nil {
			return done, err
		}
		docs, _ = leaveAlone(docs, c.want)
		found := look(h, c.want, docs, c.overrules)
		complete, n, err := s.write(ctx, found.changes(h))
		done.inserted += n
		for _, d := range found.left {
			done.removed = append(done.removed, d.id)
		}
		if err != nil || complete {
			return done, err
		}
		if len(found.missing) > 0 {
			ids := make([]string, len(found.missing))
			for i, w := range found.missing {
				ids[i] = w.id
			}
			owners, err := s.owners(ctx, h.ID, ids)
			if err != nil {
				return done, err
			}
			if len(owners) > 0 {
				return done, &takenError{h.ID, owners}
			}
		}
	}
	return done, fmt.Errorf("the documents of rule set %q change faster than they can be written", h.ID)
}

// changes are what brings the documents to where the head stands.
func (f *survey) changes(h *head) []mongo.WriteModel {
	var models []mongo.WriteModel
	for _, b := range f.behind {
		models = append(models, mongo.NewUpdateOneModel().SetFilter(b.unchanged()).SetUpdate(rewrite(b.document, b.want, h.Revision)))
	}
	for _, w := range f.missing {
		models = append(models, mongo.NewInsertOneModel().SetDocument(insertion(w, h.Revision)))
	}
	for _, d := range f.left {
		models = append(models, mongo.NewDeleteOneModel().SetFilter(d.unchanged()))
	}
	return models
}

// tidyHistory forgets the revisions beyond the bounds, and the proposals of
// writers who lost or died.
func (s *Source) tidyHistory(ctx context.Context, h *head) error {
	filter := bson.D{{Key: "ruleSetId", Value: h.ID}, {Key: "$or", Value: bson.A{
		bson.D{{Key: "revision", Value: bson.D{{Key: "$lte", Value: h.Revision - int64(s.config.History)}}}},
		bson.D{
			{Key: "revision", Value: bson.D{{Key: "$lt", Value: h.Revision - 1}}},
			{Key: "start", Value: bson.D{{Key: "$lt", Value: h.Bytes - int64(s.config.HistoryBytes)}}},
		},
		bson.D{
			{Key: "revision", Value: bson.D{{Key: "$lte", Value: h.Revision}}},
			{Key: "committed", Value: false},
			{Key: "_id", Value: bson.D{{Key: "$ne", Value: h.Snapshot}}},
		},
	}}}
	return s.call(ctx, "tidying the history", func(ctx context.Context) error {
		_, err := s.versions.DeleteMany(ctx, filter)
		return err
	})
}

// markProjected notes that the documents stand where the head does, and frees
// the ids of the rules that are no more. It reports whether it still is the
// head.
func (s *Source) markProjected(ctx context.Context, h *head, removed []string) (current bool, err error) {
	update := bson.D{{Key: "$set", Value: bson.D{{Key: "projected", Value: h.Revision}}}}
	freed, err := s.fetchClaims(ctx, h.ID, removed)
	if err != nil {
		return false, err
	}
	if len(freed) > 0 {
		// Whoever has read this head and counts on the claims must not commit.
		update = append(update, bson.E{Key: "$inc", Value: bson.D{{Key: "fence", Value: 1}}})
	}
	err = s.call(ctx, "marking the documents as written", func(ctx context.Context) error {
		result, err := s.heads.UpdateOne(ctx, h.same(), update)
		current = err == nil && result.MatchedCount > 0
		return err
	})
	if err != nil || !current || len(freed) == 0 {
		return current, err
	}
	return current, s.dropClaims(ctx, freed)
}

// same finds the head as long as it stands where it was read.
func (h *head) same() bson.D {
	return bson.D{{Key: "_id", Value: h.ID}, {Key: "revision", Value: h.Revision}, {Key: "snapshot", Value: h.Snapshot}}
}
