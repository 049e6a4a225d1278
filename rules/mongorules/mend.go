package mongorules

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fluxgate/fluxgate"
)

// Mend implements [rules.Mender]. It finishes what writers left, makes rule
// sets of documents that have no head, and every [Config.CheckEvery], on one
// gateway of the fleet, takes in what others have done to the documents.
func (s *Source) Mend(ctx context.Context, ids []string) error {
	s.makeIndexes(ctx)
	heads, err := s.fetchHeads(ctx, ids)
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range ids {
		if !fluxgate.ValidID(id) {
			continue
		}
		err := s.mend(ctx, id, heads[id])
		if forbidden(err) {
			// A gateway that may only read leaves this to others.
			s.config.Logger.Debug("the user may not mend rules", "ruleSet", id, "error", err)
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("documents of rule set %q: %w", id, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

func (s *Source) mend(ctx context.Context, id string, h *head) error {
	if h.never() {
		_, err := s.adopt(ctx, id, h)
		return err
	}
	if h.Projected >= h.Revision {
		mine, err := s.claim(ctx, h)
		if err != nil {
			return err
		}
		if !mine {
			// Somebody else looks. What they found is ours to report too.
			if h.Problem != "" {
				return errors.New(h.Problem)
			}
			return nil
		}
	}
	_, err := s.takeIn(ctx, id, h, true)
	return err
}

// claim reports whether it is time to look at the content, and for us to do
// it. A time in the future is somebody's wrong clock.
func (s *Source) claim(ctx context.Context, h *head) (mine bool, err error) {
	now := s.config.Now()
	if age := now.Sub(h.CheckedAt); age < s.config.CheckEvery && age > -s.config.CheckEvery {
		return false, nil
	}
	err = s.call(ctx, "claiming the look at the documents", func(ctx context.Context) error {
		filter := append(h.same(), bson.E{Key: "checkedAt", Value: h.CheckedAt})
		result, err := s.heads.UpdateOne(ctx, filter, bson.D{{Key: "$set", Value: bson.D{{Key: "checkedAt", Value: now}}}})
		mine = err == nil && result.MatchedCount > 0
		return err
	})
	return mine, err
}
