package mongorules

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fluxgate/fluxgate/rules"
)

// draft is a revision that is about to be made.
type draft struct {
	content
	document []byte
	change   rules.Change
}

// errFenced says that a change must begin again, though the revision it is
// based on is still the current one.
var errFenced = errors.New("other rule sets want the same rule ids: try again")

// commit makes a draft the revision after that of the ground. It happens at
// one moment: when the head is set.
func (s *Source) commit(ctx context.Context, before *ground, d draft) (*head, error) {
	var parent, start, projected, fence int64
	if before.head != nil {
		parent, start, projected, fence = before.head.Revision, before.head.Bytes, before.head.Projected, before.head.Fence
	}
	if before.head.never() {
		var err error
		if parent, start, err = s.lastRevision(ctx, before.id); err != nil {
			return nil, err
		}
	}
	// Whoever is too late need not write anything.
	if current, err := s.fetchHead(ctx, before.id); err != nil || !current.is(before.head) {
		if err == nil {
			err = beaten(before.id, current, before.head, d.change)
		}
		return nil, err
	}
	claimed, err := s.claimRuleIDs(ctx, before, d.set)
	if err != nil {
		return nil, err
	}
	now := s.config.Now().UTC().Truncate(time.Millisecond)
	v := &snapshot{
		ID: rand.Text(), RuleSetID: before.id, Revision: parent + 1, Parent: parent, Deleted: d.set == nil,
		Author: d.change.Author, Comment: d.change.Comment, At: now, Start: start, Overrules: d.overrules, Document: string(d.document),
	}
	h := &head{
		ID: v.RuleSetID, Revision: v.Revision, Deleted: v.Deleted, Snapshot: v.ID, Author: v.Author, Comment: v.Comment, At: now,
		Bytes: start + int64(len(d.document)), Projected: projected, Fence: fence, CheckedAt: now,
	}
	err = s.call(ctx, "inserting a snapshot", func(ctx context.Context) error {
		_, err := s.versions.InsertOne(ctx, v)
		return err
	})
	if err != nil {
		return nil, err
	}
	won, err := s.setHead(ctx, before.head, h)
	if err != nil {
		return nil, err // the snapshot stays: it may be the head's by now
	}
	if won {
		return h, nil
	}
	made, err := s.lost(ctx, before.head, h, d.change)
	if made == nil {
		if err := s.dropClaims(ctx, claimed); err != nil {
			s.config.Logger.Debug("claims are left for the next writer to take", "ruleSet", h.ID, "error", err)
		}
	}
	return made, err
}

// lastRevision is the last one of a rule set that has lost its head, or 0, and
// how long the documents were together up to there.
func (s *Source) lastRevision(ctx context.Context, id string) (revision, bytes int64, err error) {
	v := new(snapshot)
	err = s.call(ctx, "looking for former revisions", func(ctx context.Context) error {
		err := s.versions.FindOne(ctx, bson.D{{Key: "ruleSetId", Value: id}, {Key: "committed", Value: true}},
			options.FindOne().SetSort(bson.D{{Key: "revision", Value: -1}}).SetProjection(bson.D{{Key: "revision", Value: 1}, {Key: "start", Value: 1}, {Key: "document", Value: 1}})).Decode(v)
		if errors.Is(err, mongo.ErrNoDocuments) {
			return nil
		}
		return err
	})
	return v.Revision, v.Start + int64(len(v.Document)), err
}

// setHead is the compare-and-set.
func (s *Source) setHead(ctx context.Context, old, h *head) (won bool, err error) {
	err = s.call(ctx, "setting where a rule set stands", func(ctx context.Context) error {
		if old == nil {
			_, err := s.heads.InsertOne(ctx, h)
			won = err == nil
			if mongo.IsDuplicateKeyError(err) {
				err = nil
			}
			return err
		}
		filter := append(old.same(), bson.E{Key: "fence", Value: old.Fence})
		result, err := s.heads.UpdateOne(ctx, filter, bson.D{
			{Key: "$set", Value: bson.D{
				{Key: "revision", Value: h.Revision}, {Key: "deleted", Value: h.Deleted}, {Key: "snapshot", Value: h.Snapshot},
				{Key: "author", Value: h.Author}, {Key: "comment", Value: h.Comment}, {Key: "at", Value: h.At}, {Key: "bytes", Value: h.Bytes},
				{Key: "checkedAt", Value: h.CheckedAt},
			}},
			{Key: "$unset", Value: bson.D{{Key: "problem", Value: ""}}},
		})
		won = err == nil && result.MatchedCount > 0
		return err
	})
	return won, err
}

// lost finds out who has made another change first. It may have been us: an
// answer can be lost and the driver ask again.
func (s *Source) lost(ctx context.Context, old, h *head, change rules.Change) (*head, error) {
	current, err := s.fetchHead(ctx, h.ID)
	if err != nil {
		return nil, err
	}
	if current != nil && current.Snapshot == h.Snapshot {
		return h, nil
	}
	var deleted bool
	err = s.call(ctx, "taking a snapshot back", func(ctx context.Context) error {
		result, err := s.versions.DeleteOne(ctx, bson.D{{Key: "_id", Value: h.Snapshot}, {Key: "committed", Value: false}})
		deleted = err == nil && result.DeletedCount > 0
		return err
	})
	if err != nil {
		s.config.Logger.Debug("a snapshot is left for the next writer to tidy up", "ruleSet", h.ID, "error", err)
	}
	if !deleted {
		// Whoever changes what we have made marks it as committed first.
		v, err := s.fetchSnapshot(ctx, h)
		if err == nil && v.Committed {
			return h, nil
		}
	}
	return nil, beaten(h.ID, current, old, change)
}

// beaten says what has become of the head that a change was made on.
func beaten(id string, current, old *head, change rules.Change) error {
	if current.place() == old.place() {
		return errFenced
	}
	conflict := &rules.ConflictError{RuleSetID: id, Base: change.Base}
	if !current.never() && !current.Deleted {
		conflict.Current = current.Revision
	}
	return conflict
}
