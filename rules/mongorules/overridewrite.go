package mongorules

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fluxgate/fluxgate/internal/background"
	"github.com/fluxgate/fluxgate/rules"
)

// errOverridesChanged is returned for a change whose base was changed meanwhile.
var errOverridesChanged = errors.New("the overrides change too often")

// PutOverrides implements [rules.OverrideEditor]. Changes are visible when it returns.
func (s *Source) PutOverrides(ctx context.Context, ruleSet string, changes []rules.Override) (revision int64, err error) {
	if !rules.ValidID(ruleSet) {
		return 0, errors.New("the id of the rule set is not valid")
	}
	own, err := rules.CheckOverrides(ruleSet, changes)
	if err != nil {
		return 0, err
	}
	if err := s.writing.Acquire(ctx, 1); err != nil {
		return 0, err
	}
	defer s.writing.Release(1)
	for {
		if revision, err = s.tryOverrides(ctx, ruleSet, own); !errors.Is(err, errOverridesChanged) {
			return revision, err
		}
		pause := rand.N(20 * time.Millisecond) //nolint:gosec // writers only have to differ
		if err := background.Sleep(ctx, pause); err != nil {
			return 0, err
		}
	}
}

func (s *Source) tryOverrides(ctx context.Context, ruleSet string, changes []rules.Override) (revision int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, keepDeleted/2)
	defer cancel()
	h, err := s.completeOverrides(ctx, ruleSet)
	if err == nil { // afterwards: see clearOverrides
		err = s.checkExists(ctx, ruleSet)
	}
	if err != nil {
		return 0, err
	}
	ids := make([]string, len(changes))
	for i := range changes {
		ids[i] = entryID(ruleSet, changes[i].ID())
	}
	entries, err := find[overrideEntry](ctx, s, "reading overrides", s.current().overrides, bson.M{"_id": bson.M{"$in": ids}},
		options.Find().SetProjection(bson.M{"document": 0}))
	if err != nil {
		return 0, err
	}
	next, err := h.with(changes, entries, s.config.Now())
	if err != nil || len(next.Pending) == 0 {
		return h.Revision, err
	}
	if err := s.replaceOverrides(ctx, &h, &next); err != nil {
		return 0, err
	}
	revision = next.Revision
	if err := s.syncOverrides(ctx, &next); err != nil {
		s.config.Logger.Warn("a change of overrides is committed, but not in effect yet: a reconciler will write it",
			"ruleSet", ruleSet, "revision", revision, "error", err)
	}
	return revision, nil
}

// replaceOverrides replaces a head that has not changed, or returns errOverridesChanged.
func (s *Source) replaceOverrides(ctx context.Context, h, next *overrideHead) error {
	return s.call(ctx, "replacing the state of the overrides", func(ctx context.Context) error {
		result, err := s.current().overrides.ReplaceOne(ctx, bson.M{"_id": h.ID, "revision": h.Revision}, next,
			options.Replace().SetUpsert(h.Revision == 0))
		if mongo.IsDuplicateKeyError(err) || err == nil && result.MatchedCount+result.UpsertedCount == 0 {
			err = errOverridesChanged
		}
		return err
	})
}

// with returns the head after changes of entries.
func (h *overrideHead) with(changes []rules.Override, entries []overrideEntry, at time.Time) (overrideHead, error) {
	live := map[string]int64{} // revisions
	for _, e := range entries {
		if e.Position != "" {
			live[e.ID] = e.Revision
		}
	}
	next, removed := *h, 0
	if h.Revision == 0 {
		// Revisions begin with the time: a reader of data that was lost reads all of the new.
		next.Revision = at.UnixMicro() / 10
		next.Forgotten, next.Mark = next.Revision, next.Revision
	}
	for _, o := range changes {
		e := overrideEntry{ID: entryID(h.ID, o.ID()), RuleSetID: h.ID}
		current := live[e.ID]
		e.Replaces = current > 0 && !o.Deleted
		if err := o.CheckBase(current); err != nil {
			return next, err
		}
		switch {
		case o.Deleted && current == 0:
			continue
		case o.Deleted:
			next.Count, removed = next.Count-1, removed+1
		case current == 0:
			next.Count++
		}
		if !o.Deleted {
			e.Position = o.Position()
		}
		next.Revision++
		o.Revision, o.At, e.Revision = next.Revision, at.UTC(), next.Revision
		text, err := json.Marshal(o)
		if err != nil {
			return next, err
		}
		e.Document = string(text)
		next.Pending = append(next.Pending, e)
	}
	if next.Count > max(h.Count, rules.MaxOverrides) {
		return next, rules.ErrTooManyOverrides
	}
	if next.Deleted += removed; next.Deleted > next.Count+maxDeleted && at.Sub(h.MarkedAt) > keepDeleted {
		next.Forgotten, next.Deleted = h.Mark, removed
		next.Mark, next.MarkedAt = h.Revision, at
	}
	return next, nil
}

// completeOverrides reads the head, and writes the changes of a writer that was interrupted.
func (s *Source) completeOverrides(ctx context.Context, ruleSet string) (overrideHead, error) {
	h, err := s.fetchOverrideHead(ctx, ruleSet)
	if err == nil {
		err = s.syncOverrides(ctx, &h)
	}
	return h, err
}

// syncOverrides writes pending changes. It can be interrupted at any call and repeated by any
// server: it deletes and replaces only what is at an earlier revision.
func (s *Source) syncOverrides(ctx context.Context, h *overrideHead) error {
	if len(h.Pending) == 0 {
		return nil
	}
	c := s.current().overrides
	var deletes []mongo.WriteModel
	if h.Forgotten > 0 {
		deletes = append(deletes, mongo.NewDeleteManyModel().SetFilter(
			bson.M{"ruleSetId": h.ID, "position": bson.M{"$exists": false}, "revision": bson.M{"$lte": h.Forgotten}}))
	}
	for chunk := range slices.Chunk(h.Pending, s.config.batch) {
		var deleted bson.A // before
		var writes []mongo.WriteModel
		for i := range chunk {
			e := &chunk[i]
			if e.Replaces {
				writes = append(writes, mongo.NewReplaceOneModel().SetFilter(h.former(e.ID)).SetReplacement(e))
			} else {
				deleted, writes = append(deleted, e.ID), append(writes, mongo.NewInsertOneModel().SetDocument(e))
			}
		}
		if len(deleted) > 0 {
			deletes = append(deletes, mongo.NewDeleteManyModel().SetFilter(h.former(bson.M{"$in": deleted})))
		}
		if _, err := s.bulkWrite(ctx, "deleting overrides", c, deletes); err != nil {
			return err
		}
		// One that exists was written before.
		if _, err := s.bulkWrite(ctx, "writing overrides", c, writes); err != nil {
			return err
		}
		deletes = nil
	}
	h.Synced, h.Pending = h.Revision, nil
	return s.call(ctx, "marking overrides as written", func(ctx context.Context) error {
		_, err := c.UpdateOne(ctx, bson.M{"_id": h.ID, "revision": h.Revision},
			bson.M{"$set": bson.M{"synced": h.Revision}, "$unset": bson.M{"pending": ""}})
		return err
	})
}

// former returns a filter for what is at a revision before the pending ones.
func (h *overrideHead) former(id any) bson.M {
	return bson.M{"_id": id, "revision": bson.M{"$lte": h.Synced}}
}
