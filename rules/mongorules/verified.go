package mongorules

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// verified is a rule set whose documents did not differ from its head.
type verified struct {
	digest   string // of head and documents
	snapshot *head
}

// unchanged reports whether a base is as it was when a call found no differences. If the history has
// lost the revision meanwhile, it is written again: a server that starts could not load it.
func (s *Source) unchanged(ctx context.Context, b *base) (bool, error) {
	kept, _ := s.reconciled.Load(b.id)
	v, _ := kept.(verified)
	if v.digest != b.digest {
		return false, nil
	}
	found, err := find[bson.M](ctx, s, "looking for a revision of a rule set", s.current().history,
		bson.M{"_id": snapshotID(b.id, b.head.Revision)}, options.Find().SetProjection(bson.M{"_id": 1}))
	if err != nil || len(found) > 0 {
		return err == nil, err
	}
	s.config.Logger.Warn("the history has lost the current revision of a rule set; writing it again",
		"ruleSet", b.id, "revision", b.head.Revision)
	if err = s.archive(ctx, v.snapshot); forbidden(err) { // not wrapped: this is not an edit, which others may import
		err = fmt.Errorf("revision %d: %w, and cannot be written again: %s", b.head.Revision, errNoSnapshot, err.Error())
	}
	return err == nil, err
}
