package mongorules

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// Revisions implements [rules.Source] with one find of two fields.
func (s *Source) Revisions(ctx context.Context, ids []string) (map[string]rules.Head, error) {
	heads, err := s.fetchHeads(ctx, ids, "revision", "deleted")
	if err != nil {
		return nil, err
	}
	places := make(map[string]rules.Head, len(heads))
	for id, h := range heads {
		if !h.never() {
			places[id] = h.place()
		}
	}
	return places, nil
}

// Load implements [rules.Source]. A rule set of which there are documents and
// nothing else becomes revision 1.
func (s *Source) Load(ctx context.Context, id string) (*rules.Version, error) {
	if !fluxgate.ValidID(id) {
		return nil, notFound(id)
	}
	const attempts = 5
	var err error
	for range attempts {
		var h *head
		if h, err = s.fetchHead(ctx, id); err != nil {
			return nil, err
		}
		if h.never() {
			if h, err = s.adopt(ctx, id, h); err != nil {
				return nil, err
			}
		}
		if h.never() || h.Deleted {
			return nil, notFound(id)
		}
		var v *snapshot
		if v, err = s.fetchSnapshot(ctx, h); err == nil {
			return v.version()
		}
		// The history may have forgotten it since the head was read, if the
		// rule set changes faster than we read. The head then says so.
		if !errors.Is(err, errNoSnapshot) {
			return nil, err
		}
	}
	return nil, err
}

func notFound(id string) error { return fmt.Errorf("rule set %.70q: %w", id, rules.ErrNotFound) }

// List implements [rules.Editor].
func (s *Source) List(ctx context.Context, after string, limit int) ([]rules.Entry, error) {
	filter := bson.D{
		{Key: "_id", Value: bson.D{{Key: "$gt", Value: after}}},
		{Key: "deleted", Value: bson.D{{Key: "$ne", Value: true}}},
	}
	opts := options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}).SetLimit(int64(rules.PageSize(limit)))
	var list []rules.Entry
	err := s.call(ctx, "listing the rule sets", func(ctx context.Context) error {
		all, err := findAll[*head](ctx, s.heads, filter, opts)
		for _, h := range all {
			list = append(list, h.entry())
		}
		return err
	})
	return list, err
}

// History implements [rules.Editor].
func (s *Source) History(ctx context.Context, id string, before int64, limit int) ([]rules.Entry, error) {
	h, err := s.fetchHead(ctx, id)
	if err != nil || h.never() {
		return nil, err
	}
	revisions := bson.D{{Key: "$lte", Value: h.Revision}, {Key: "$gt", Value: h.Revision - int64(s.config.History)}}
	if before > 0 {
		revisions = append(revisions, bson.E{Key: "$lt", Value: before})
	}
	opts := options.Find().SetSort(bson.D{{Key: "revision", Value: -1}}).SetLimit(int64(rules.PageSize(limit))).
		SetProjection(bson.D{{Key: "document", Value: 0}, {Key: "overrules", Value: 0}})
	var list []rules.Entry
	err = s.call(ctx, "reading the history of a rule set", func(ctx context.Context) error {
		all, err := findAll[*snapshot](ctx, s.versions, visible(h, revisions), opts)
		for _, v := range all {
			list = append(list, v.entry())
		}
		return err
	})
	return list, err
}

// visible finds the snapshots of a rule set that are more than proposals.
func visible(h *head, revisions any) bson.D {
	return bson.D{
		{Key: "ruleSetId", Value: h.ID},
		{Key: "revision", Value: revisions},
		{Key: "$or", Value: bson.A{
			bson.D{{Key: "committed", Value: true}},
			bson.D{{Key: "_id", Value: h.Snapshot}},
		}},
	}
}

// Version implements [rules.Editor].
func (s *Source) Version(ctx context.Context, id string, revision int64) (*rules.Version, error) {
	missing := fmt.Errorf("revision %d of rule set %.70q: %w", revision, id, rules.ErrNotFound)
	if !fluxgate.ValidID(id) {
		return nil, missing
	}
	h, err := s.fetchHead(ctx, id)
	if err != nil {
		return nil, err
	}
	if h.never() || revision > h.Revision || revision <= h.Revision-int64(s.config.History) {
		return nil, missing
	}
	v := new(snapshot)
	err = s.call(ctx, "reading a former rule set", func(ctx context.Context) error {
		return s.versions.FindOne(ctx, visible(h, revision)).Decode(v)
	})
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, missing
	}
	if err != nil {
		return nil, err
	}
	return v.version()
}
