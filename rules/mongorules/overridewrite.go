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
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/fluxgate/fluxgate/internal/background"
	"github.com/fluxgate/fluxgate/rules"
)

// PutOverrides implements [rules.OverrideEditor].
func (s *Source) PutOverrides(ctx context.Context, ruleSet string, changes []rules.Override) (int64, error) {
	if !rules.ValidID(ruleSet) {
		return 0, errors.New("the id of the rule set is not valid")
	}
	own, err := rules.CheckOverrides(ruleSet, changes)
	if err != nil {
		return 0, err
	}
	unlock, err := s.lockWriter(ctx, ruleSet)
	if err != nil {
		return 0, err
	}
	defer unlock()
	list := make([]overrideChange, len(own))
	for i := range own {
		list[i].Override = own[i]
	}
	if err := s.importEdited(ctx, ruleSet, list); err != nil {
		return 0, err
	}
	return s.commitOverrides(ctx, ruleSet, list)
}

// importEdited imports all edits of documents if one of those that change was edited, so that a
// change overwrites nothing its author has not seen. It replaces a document that is not valid.
func (s *Source) importEdited(ctx context.Context, ruleSet string, changes []overrideChange) error {
	entries, err := s.entriesOf(ctx, ruleSet, changes)
	if err != nil || len(entries) == 0 {
		return err
	}
	keys := make(bson.A, 0, len(entries))
	for _, e := range entries {
		if e.Position != "" {
			keys = append(keys, e.Key)
		}
	}
	documents, err := find[bson.Raw](ctx, s, "reading documents of overrides", s.current().overrides, bson.M{"_id": bson.M{"$in": keys}})
	edited := func(raw bson.Raw) bool { d := identifyOverride(raw); return !d.untouched() }
	if err == nil && (len(documents) < len(keys) || slices.ContainsFunc(documents, edited)) {
		if _, err = s.importOverrides(ctx, ruleSet); errors.Is(err, errInvalidOverrides) {
			err = nil
		}
	}
	return err
}

// entriesOf returns the entries of the overrides that change, by their ids, without their
// documents.
func (s *Source) entriesOf(ctx context.Context, ruleSet string, changes []overrideChange) (map[string]overrideEntry, error) {
	ids := make([]string, len(changes))
	for i := range changes {
		ids[i] = entryID(ruleSet, changes[i].ID())
	}
	return byID(find[overrideEntry](ctx, s, "reading overrides", s.current().overrideLog, bson.M{"_id": bson.M{"$in": ids}},
		options.Find().SetProjection(bson.M{"document": 0})))
}

func byID(entries []overrideEntry, err error) (map[string]overrideEntry, error) {
	all := make(map[string]overrideEntry, len(entries))
	for _, e := range entries {
		all[e.ID] = e
	}
	return all, err
}

// errOverridesChanged is returned for a change whose base was changed meanwhile.
var errOverridesChanged = errors.New("the overrides change too often")

// commitOverrides makes changes. They are visible when this returns.
func (s *Source) commitOverrides(ctx context.Context, ruleSet string, changes []overrideChange) (revision int64, err error) {
	for {
		if revision, err = s.tryOverrides(ctx, ruleSet, changes); !errors.Is(err, errOverridesChanged) {
			return revision, err
		}
		pause := rand.N(20 * time.Millisecond) //nolint:gosec // writers only have to differ
		if err := background.Sleep(ctx, pause); err != nil {
			return 0, err
		}
	}
}

func (s *Source) tryOverrides(ctx context.Context, ruleSet string, changes []overrideChange) (revision int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, keepDeleted/2)
	defer cancel()
	h, err := s.fetchOverrideHead(ctx, ruleSet)
	if err == nil {
		err = s.syncOverrides(ctx, &h) // of a writer that was interrupted
	}
	if err != nil {
		return 0, err
	}
	entries, err := s.entriesOf(ctx, ruleSet, changes)
	if err != nil {
		return 0, err
	}
	next, err := h.with(changes, entries, s.config.Now())
	if err != nil || len(next.Pending) == 0 {
		return h.Revision, err
	}
	err = s.call(ctx, "replacing the state of the overrides", func(ctx context.Context) error {
		result, err := s.current().overrideLog.ReplaceOne(ctx, bson.M{"_id": ruleSet, "revision": h.Revision}, next,
			options.Replace().SetUpsert(h.Revision == 0))
		if mongo.IsDuplicateKeyError(err) || err == nil && result.MatchedCount+result.UpsertedCount == 0 {
			err = errOverridesChanged
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	revision = next.Revision
	if err := s.syncOverrides(ctx, &next); err != nil {
		s.config.Logger.Warn("a change of overrides is committed, but not in effect yet: a reconciler will write it",
			"ruleSet", ruleSet, "revision", revision, "error", err)
	}
	return revision, nil
}

// with returns the head after changes, whose entries in the log are given.
func (h *overrideHead) with(changes []overrideChange, entries map[string]overrideEntry, at time.Time) (overrideHead, error) {
	next, removed := *h, 0
	for i := range changes {
		o := changes[i].Override
		was := entries[entryID(h.ID, o.ID())]
		current := was.Revision
		if was.Position == "" {
			current = 0
		}
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
		next.Revision++
		o.Revision, o.At = next.Revision, at.UTC()
		e, err := newOverrideEntry(&o, changes[i].from, was.Key)
		if err != nil {
			return next, err
		}
		e.Replaces = current > 0 && !o.Deleted
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

// newOverrideEntry returns the entry of an override. It has a document with a key, imported from
// it or not, or none.
func newOverrideEntry(o *rules.Override, from *overrideDocument, key bson.RawValue) (overrideEntry, error) {
	e := overrideEntry{ID: entryID(o.RuleSetID, o.ID()), RuleSetID: o.RuleSetID, Revision: o.Revision, Key: key}
	if !o.Deleted {
		e.Position = o.Position()
	}
	if from != nil {
		e.Key, e.Checksum, e.Was = from.key(), overrideSum(from.raw, o.ID()), from.raw.Lookup(revisionField)
	} else if key.IsZero() {
		e.Key = bson.RawValue{Type: bson.TypeString, Value: bsoncore.AppendString(nil, e.ID)}
	}
	text, err := json.Marshal(o)
	e.Document = string(text)
	return e, err
}

// syncOverrides writes pending changes into the log and the documents. It can be interrupted at
// any call and repeated by any server: it deletes and replaces only what is at an earlier
// revision. A document that a late writer inserts is obsolete, and the next reconciler deletes it.
func (s *Source) syncOverrides(ctx context.Context, h *overrideHead) error {
	if len(h.Pending) == 0 {
		return nil
	}
	db := s.current()
	for chunk := range slices.Chunk(h.Pending, s.config.batch) {
		var ids, keys bson.A
		var entries, documents []mongo.WriteModel
		for i := range chunk {
			e := &chunk[i]
			if e.Replaces {
				entries = append(entries, mongo.NewReplaceOneModel().SetFilter(h.former(e.ID)).SetReplacement(e))
			} else {
				ids, entries = append(ids, e.ID), append(entries, mongo.NewInsertOneModel().SetDocument(e))
			}
			if e.Position == "" {
				keys = append(keys, e.Key)
				continue
			}
			write, err := e.write(h)
			if err != nil {
				return err
			}
			documents = append(documents, write)
		}
		for _, step := range []struct {
			doing  string
			in     *mongo.Collection
			writes []mongo.WriteModel
		}{
			{"deleting entries of the log of overrides", db.overrideLog, append(h.deletion(ids), h.forgetting()...)},
			{"writing the log of overrides", db.overrideLog, entries},
			{"deleting documents of overrides", db.overrides, h.deletion(keys)},
			{"writing documents of overrides", db.overrides, documents},
		} {
			// A document that exists was written before.
			if _, err := s.bulkWrite(ctx, step.doing, step.in, step.writes); err != nil {
				return err
			}
		}
	}
	h.Synced, h.Pending = h.Revision, nil
	return s.call(ctx, "marking overrides as written", func(ctx context.Context) error {
		_, err := db.overrideLog.UpdateOne(ctx, bson.M{"_id": h.ID, revisionField: h.Revision},
			bson.M{"$set": bson.M{"synced": h.Revision}, "$unset": bson.M{"pending": ""}})
		return err
	})
}

// former returns a filter for what is at a revision before the pending ones.
func (h *overrideHead) former(id any) bson.M {
	return bson.M{"_id": id, revisionField: bson.M{"$lte": h.Synced}}
}

// deletion returns the write that deletes what is at a former revision.
func (h *overrideHead) deletion(ids bson.A) []mongo.WriteModel {
	if len(ids) == 0 {
		return nil
	}
	return []mongo.WriteModel{mongo.NewDeleteManyModel().SetFilter(h.former(bson.M{"$in": ids}))}
}

// forgetting returns the write that removes deletions from the log.
func (h *overrideHead) forgetting() []mongo.WriteModel {
	if h.Forgotten == 0 {
		return nil
	}
	return []mongo.WriteModel{mongo.NewDeleteManyModel().SetFilter(
		bson.M{"ruleSetId": h.ID, "position": bson.M{"$exists": false}, revisionField: bson.M{"$lte": h.Forgotten}})}
}
