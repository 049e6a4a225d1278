package mongorules

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fluxgate/fluxgate/rules"
)

var _ rules.OverrideEditor = (*Source)(nil)

const (
	// maxDeleted is how many deleted overrides of a rule set are kept beside as many as there
	// are, at least, and those of the last keepDeleted.
	maxDeleted = 1_000
	// A writer that resumes later than this writes nothing: what it would insert may have been
	// deleted and forgotten.
	keepDeleted = time.Minute
)

// overrideHead is the state of the overrides of a rule set, beside them in one collection. Replacing
// it commits a change.
type overrideHead struct {
	ID       string `bson:"_id"` // the rule set
	Revision int64  `bson:"revision"`
	// Synced is the last revision that is in the collection. Readers use it.
	Synced int64 `bson:"synced"`
	// Forgotten is the last revision of a deletion that is not in the collection any more.
	Forgotten int64 `bson:"forgotten"`
	Count     int   `bson:"count"` // of overrides that exist
	// Mark is a revision that was current at MarkedAt: the next to be Forgotten. Deleted counts
	// the deletions since.
	Mark     int64     `bson:"mark"`
	MarkedAt time.Time `bson:"markedAt"`
	Deleted  int       `bson:"deleted"`
	// Pending are the changes that may not be in the collection yet.
	Pending []overrideEntry `bson:"pending,omitempty"`
}

// overrideEntry is an override in the collection.
type overrideEntry struct {
	ID        string `bson:"_id"` // see entryID
	RuleSetID string `bson:"ruleSetId"`
	Revision  int64  `bson:"revision"`
	Position  string `bson:"position,omitempty"` // absent if it was deleted, empty if its rule set was
	Document  string `bson:"document"`           // as JSON
	// Replaces says that it existed before, and is replaced.
	Replaces bool `bson:"replaces,omitempty"`
}

func entryID(ruleSet, id string) string { return ruleSet + "/" + id }

// OverrideRevisions implements [rules.Overrides].
func (s *Source) OverrideRevisions(ctx context.Context, ruleSets []string) (map[string]int64, error) {
	revisions := make(map[string]int64, len(ruleSets))
	ids := rules.ValidIDs(ruleSets)
	if len(ids) == 0 {
		return revisions, ctx.Err()
	}
	heads, err := find[overrideHead](ctx, s, "reading the revisions of overrides", s.current().overrides,
		bson.M{"_id": bson.M{"$in": ids}, "synced": bson.M{"$gt": 0}}, options.Find().SetProjection(bson.M{"synced": 1}))
	for i := range heads {
		revisions[heads[i].ID] = heads[i].Synced
	}
	return revisions, err
}

var withoutPending = options.Find().SetProjection(bson.M{"pending": 0})

// fetchOverrideHead reads the head of the overrides of a rule set.
func (s *Source) fetchOverrideHead(ctx context.Context, ruleSet string, opts ...options.Lister[options.FindOptions]) (overrideHead, error) {
	if !rules.ValidID(ruleSet) {
		return overrideHead{}, ctx.Err()
	}
	heads, err := find[overrideHead](ctx, s, "reading the state of the overrides", s.current().overrides, bson.M{"_id": ruleSet}, opts...)
	if err != nil || len(heads) == 0 {
		return overrideHead{ID: ruleSet}, err
	}
	return heads[0], nil
}

// OverrideChanges implements [rules.Overrides].
func (s *Source) OverrideChanges(ctx context.Context, ruleSet string, after int64, limit int) (page rules.OverridePage, err error) {
	before, err := s.fetchOverrideHead(ctx, ruleSet, withoutPending)
	if err != nil {
		return page, err
	}
	if after > before.Synced {
		return page, rules.ErrOverridesLost
	}
	// Later entries may be there before earlier ones. Those without content are of a deleted rule set.
	entries, err := find[overrideEntry](ctx, s, "reading changes of overrides", s.current().overrides,
		bson.M{"ruleSetId": ruleSet, "revision": bson.M{"$gt": after, "$lte": before.Synced}, "document": bson.M{"$ne": ""}},
		options.Find().SetSort(bson.M{"revision": 1}).SetLimit(int64(rules.PageSize(limit))))
	if err != nil {
		return page, err
	}
	// Deletions may have been forgotten meanwhile.
	if now, err := s.fetchOverrideHead(ctx, ruleSet, withoutPending); err != nil || after > 0 && after < now.Forgotten {
		return page, cmp.Or(err, rules.ErrOverridesLost)
	}
	page = overridePage(entries)
	if page.Revision = before.Synced; len(entries) == rules.PageSize(limit) {
		page.Revision = entries[len(entries)-1].Revision
	}
	return page, nil
}

// overridePage decodes entries.
func overridePage(entries []overrideEntry) (page rules.OverridePage) {
	for i := range entries {
		o, err := entries[i].decode()
		page.Add(strings.TrimPrefix(entries[i].ID, entryID(entries[i].RuleSetID, "")), o, err)
	}
	return page
}

// decode reads an override. Its error has nothing of the entry, which may be an API key that
// another program wrote.
func (e *overrideEntry) decode() (o rules.Override, err error) {
	err = json.Unmarshal([]byte(e.Document), &o)
	if err != nil || entryID(e.RuleSetID, o.ID()) != e.ID || o.RuleSetID != e.RuleSetID || o.Deleted != (e.Position == "") {
		return o, fmt.Errorf("override %.100q cannot be read: write or delete it again", e.ID)
	}
	o.Revision = e.Revision
	return o, nil
}

// Override implements [rules.Overrides].
func (s *Source) Override(ctx context.Context, ruleSet, id string) (rules.Override, error) {
	entries, err := find[overrideEntry](ctx, s, "reading an override", s.current().overrides,
		bson.M{"_id": entryID(ruleSet, id), "position": bson.M{"$gt": ""}})
	switch {
	case err != nil:
		return rules.Override{}, err
	case len(entries) == 0:
		return rules.Override{}, fmt.Errorf("override %.100q of rule set %.70q: %w", id, ruleSet, rules.ErrNotFound)
	}
	return entries[0].decode()
}

// ListOverrides implements [rules.Overrides].
func (s *Source) ListOverrides(ctx context.Context, ruleSet, after string, limit int) (rules.OverridePage, error) {
	entries, err := find[overrideEntry](ctx, s, "listing overrides", s.current().overrides,
		bson.M{"ruleSetId": ruleSet, "position": bson.M{"$gt": after}},
		options.Find().SetSort(bson.M{"position": 1}).SetLimit(int64(rules.PageSize(limit))))
	page := overridePage(entries)
	if err == nil && len(entries) == rules.PageSize(limit) {
		page.Next = entries[len(entries)-1].Position
	}
	return page, err
}
