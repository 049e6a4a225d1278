package mongorules

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// Revisions implements [rules.Source] with one find of two fields.
func (s *Source) Revisions(ctx context.Context, ids []string) (map[string]rules.Head, error) {
	places := make(map[string]rules.Head, len(ids))
	var valid []string
	for _, id := range ids {
		if fluxgate.ValidID(id) {
			valid = append(valid, id)
		}
	}
	if len(valid) == 0 {
		return places, nil
	}
	two := options.Find().SetProjection(bson.D{{Key: "revision", Value: 1}, {Key: "deleted", Value: 1}})
	err := s.call(ctx, "reading the revisions of rule sets", func(ctx context.Context) error {
		heads, err := findAll[*head](ctx, s.heads, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: valid}}}}, two)
		for _, h := range heads {
			places[h.ID] = h.place()
		}
		return err
	})
	return places, err
}

// Load implements [rules.Source]. Documents of a rule set that has no revision
// become revision 1.
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
		if h == nil {
			if h, err = s.importFirst(ctx, id); err != nil {
				return nil, err
			}
		}
		if h == nil || h.Deleted {
			return nil, notFound(id)
		}
		var v *rules.Version
		if v, err = s.fetchCurrent(ctx, h); !errors.Is(err, errNoSnapshot) {
			return v, err
		}
		// The history may have forgotten it since the head was read, if the
		// rule set changes faster than it is read. Then the head has changed.
	}
	return nil, err
}

// importFirst makes the first revision of a rule set that has documents only.
func (s *Source) importFirst(ctx context.Context, id string) (*head, error) {
	b, err := s.inspect(ctx, id, nil)
	if err != nil || !b.hasEdits() {
		return nil, err
	}
	h, err := s.importEdits(ctx, b)
	if errors.As(err, new(*rules.ConflictError)) {
		return s.fetchHead(ctx, id)
	}
	return h, err
}

func notFound(id string) error { return fmt.Errorf("rule set %.70q: %w", id, rules.ErrNotFound) }

// List implements [rules.Editor].
func (s *Source) List(ctx context.Context, after string, limit int) ([]rules.Entry, error) {
	filter := bson.D{
		{Key: "_id", Value: bson.D{{Key: "$gt", Value: after}}},
		{Key: "deleted", Value: bson.D{{Key: "$ne", Value: true}}},
	}
	opts := options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}).SetLimit(int64(rules.PageSize(limit))).
		SetProjection(bson.D{{Key: "document", Value: 0}, {Key: "replaces", Value: 0}, {Key: "adds", Value: 0}})
	var list []rules.Entry
	err := s.call(ctx, "listing the rule sets", func(ctx context.Context) error {
		heads, err := findAll[*head](ctx, s.heads, filter, opts)
		for _, h := range heads {
			list = append(list, h.entry())
		}
		return err
	})
	return list, err
}

// History implements [rules.Editor]. The current revision is in the head, and
// may not be in the history yet.
func (s *Source) History(ctx context.Context, id string, before int64, limit int) ([]rules.Entry, error) {
	h, err := s.fetchHead(ctx, id)
	if err != nil || h == nil {
		return nil, err
	}
	var list []rules.Entry
	limit = rules.PageSize(limit)
	if before <= 0 || before > h.Revision {
		before = h.Revision
		list = append(list, h.entry())
	}
	if len(list) == limit {
		return list, nil
	}
	filter := bson.D{{Key: "ruleSetId", Value: id}, {Key: "revision", Value: bson.D{
		{Key: "$lt", Value: before}, {Key: "$gt", Value: h.Revision - int64(s.config.History)},
	}}}
	opts := options.Find().SetSort(bson.D{{Key: "revision", Value: -1}}).SetLimit(int64(limit - len(list))).
		SetProjection(bson.D{{Key: "document", Value: 0}})
	err = s.call(ctx, "reading the history of a rule set", func(ctx context.Context) error {
		found, err := findAll[*head](ctx, s.history, filter, opts)
		for _, v := range found {
			list = append(list, v.entry())
		}
		return err
	})
	return list, err
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
	if h == nil || revision > h.Revision || revision <= h.Revision-int64(s.config.History) {
		return nil, missing
	}
	if revision == h.Revision && h.Document != "" {
		return h.parse()
	}
	v, err := s.fetchSnapshot(ctx, id, revision)
	switch {
	case err != nil:
		return nil, err
	case v != nil:
		return v.parse()
	case revision == h.Revision:
		return s.fetchCurrent(ctx, h)
	}
	return nil, missing
}
