package mongorules

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fluxgate/fluxgate/rules"
)

// clearOverrides deletes the overrides of a rule set that is deleted. It was perhaps deleted by an
// interrupted writer or an older version, and a change of its overrides was perhaps late. It can be
// interrupted at any call and repeated by any server. It runs after a deletion, and must run before the
// rule set is put again.
//
// The head of the rule set is read after that of its overrides. So if it is put again meanwhile, its
// overrides have later revisions than those that are deleted here.
func (s *Source) clearOverrides(ctx context.Context, ruleSet string) error {
	ctx, cancel := context.WithTimeout(ctx, keepDeleted/2)
	defer cancel()
	for {
		o, err := s.completeOverrides(ctx, ruleSet)
		if err != nil || o.Revision == 0 {
			return err
		}
		if err := s.checkExists(ctx, ruleSet); !errors.Is(err, rules.ErrNotFound) {
			return err
		}
		if err := s.emptyOverrides(ctx, &o); err != nil {
			return err
		}
		next := o
		next.Revision++
		next.Synced, next.Forgotten, next.Mark, next.Count = next.Revision, next.Revision, next.Revision, 0
		next.MarkedAt = s.config.Now()
		if err = s.replaceOverrides(ctx, &o, &next); !errors.Is(err, errOverridesChanged) {
			return err
		}
	}
}

// checkExists returns ErrNotFound for a rule set that was deleted, but not for an unknown one.
func (s *Source) checkExists(ctx context.Context, ruleSet string) error {
	heads, err := s.Revisions(ctx, []string{ruleSet})
	if err == nil && heads[ruleSet].Deleted {
		err = fmt.Errorf("rule set %q was deleted: %w", ruleSet, rules.ErrNotFound)
	}
	return err
}

// emptyOverrides deletes the overrides of a head. Their entries stay for a minute, without content and
// with an empty position: a late writer cannot insert them again.
func (s *Source) emptyOverrides(ctx context.Context, o *overrideHead) error {
	now, c := s.config.Now(), s.current().overrides
	err := s.call(ctx, "removing entries of deleted overrides", func(ctx context.Context) error {
		_, err := c.DeleteMany(ctx, bson.M{"ruleSetId": o.ID, "position": "", "emptied": bson.M{"$lt": now.Add(-keepDeleted)}})
		return err
	})
	if err != nil {
		return err
	}
	return s.call(ctx, "deleting the overrides of a deleted rule set", func(ctx context.Context) error {
		_, err := c.UpdateMany(ctx, bson.M{"ruleSetId": o.ID, "position": bson.M{"$gt": ""}, "revision": bson.M{"$lte": o.Revision}},
			bson.M{"$set": bson.M{"position": "", "document": "", "emptied": now}})
		return err
	})
}

// orphaned reports whether a deleted rule set has overrides.
func (s *Source) orphaned(ctx context.Context, h *head) (bool, error) {
	if !h.Deleted {
		return false, nil
	}
	o, err := s.fetchOverrideHead(ctx, h.ID, options.Find().SetProjection(bson.M{"revision": 1, "forgotten": 1}))
	return o.Revision > o.Forgotten, err
}
