package mongorules

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fluxgate/fluxgate"
)

// claim says which rule set a rule id belongs to. Before a rule set gets a
// rule that it does not have, its writer claims the id with a token of its
// own. Nobody else then gets it, unless the claim is void: the rule set does
// not have the rule, and its writer has had the time to commit.
//
// Whoever takes over or drops a void claim first counts up the fence of that
// rule set's head. A writer who counts on the claim has read the head before,
// so its commit fails however late it comes, and when it begins again it needs
// a new token.
type claim struct {
	ID        string    `bson:"_id"`
	RuleSetID string    `bson:"ruleSetId"`
	Token     string    `bson:"token"`
	At        time.Time `bson:"at"`
}

// same finds the claim as long as nobody has taken it over.
func (c *claim) same() bson.D {
	return bson.D{{Key: "_id", Value: c.ID}, {Key: "ruleSetId", Value: c.RuleSetID}, {Key: "token", Value: c.Token}}
}

// claimRuleIDs claims the ids of the rules that the rule set gets. It returns
// the claims that the rule set did not have, to be dropped if nothing comes of
// it. Those it had stay: another of its writers may have committed meanwhile.
func (s *Source) claimRuleIDs(ctx context.Context, before *ground, set *fluxgate.RuleSet) (fresh []claim, err error) {
	has := map[string]bool{}
	if before.set != nil {
		for r := range before.set.Rules() {
			has[r.ID] = true
		}
	}
	wanted := map[string]claim{}
	if set != nil {
		token, now := rand.Text(), s.config.Now()
		for r := range set.Rules() {
			if !has[r.ID] {
				wanted[r.ID] = claim{ID: r.ID, RuleSetID: set.ID(), Token: token, At: now}
			}
		}
	}
	const pause = 20 * time.Millisecond
	patience := time.Now().Add(3 * s.config.Timeout) // all that a living writer may need
	for len(wanted) > 0 {
		got, err := s.insertClaims(ctx, wanted)
		fresh = append(fresh, got...)
		var owners map[string]string
		if err == nil {
			got, owners, err = s.contest(ctx, wanted, time.Now().After(patience))
			fresh = append(fresh, got...)
		}
		if err == nil && len(owners) > 0 {
			err = takenIDs(set, owners)
		}
		if err != nil {
			return nil, errors.Join(err, s.dropClaims(ctx, fresh))
		}
		if len(wanted) == 0 {
			break
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), s.dropClaims(context.WithoutCancel(ctx), fresh))
		}
	}
	return fresh, nil
}

// insertClaims claims the ids that nobody has, and takes them off the list.
func (s *Source) insertClaims(ctx context.Context, wanted map[string]claim) (got []claim, err error) {
	all := make([]claim, 0, len(wanted))
	for _, c := range wanted {
		all = append(all, c)
	}
	for chunk := range slices.Chunk(all, s.config.batch) {
		models := make([]mongo.WriteModel, len(chunk))
		for i, c := range chunk {
			models[i] = mongo.NewInsertOneModel().SetDocument(c)
		}
		inserted := make(map[string]bool, len(chunk))
		err := s.call(ctx, "claiming rule ids", func(ctx context.Context) error {
			_, err := s.claims.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
			for _, c := range chunk {
				inserted[c.ID] = err == nil
			}
			if mongo.IsDuplicateKeyError(err) {
				err = nil // who has them is the next question
			}
			return err
		})
		if err != nil {
			return got, err
		}
		for _, c := range chunk {
			if inserted[c.ID] {
				got = append(got, c)
				delete(wanted, c.ID)
			}
		}
	}
	return got, nil
}

// contest looks at who has the ids that are still wanted. It takes what is
// ours or void off the list and leaves what is to be seen. It returns the
// claims that we got after all, and the rule sets that really have the rest.
func (s *Source) contest(ctx context.Context, wanted map[string]claim, impatient bool) (got []claim, owners map[string]string, err error) {
	ids := make([]string, 0, len(wanted))
	for id := range wanted {
		ids = append(ids, id)
	}
	held, err := s.fetchClaims(ctx, "", ids)
	if err != nil {
		return nil, nil, err
	}
	owners = map[string]string{}
	standing := map[string]*standing{}
	for _, c := range held {
		mine := wanted[c.ID]
		if c.Token == mine.Token { // one of several that were inserted at once
			got = append(got, mine)
			delete(wanted, c.ID)
			continue
		}
		if c.RuleSetID != mine.RuleSetID {
			other := standing[c.RuleSetID]
			if other == nil {
				if other, err = s.fetchStanding(ctx, c.RuleSetID); err != nil {
					return got, nil, err
				}
				standing[c.RuleSetID] = other
			}
			if other.unknown || other.has[c.ID] {
				owners[c.ID] = c.RuleSetID
				continue
			}
			if age := s.config.Now().Sub(c.At); age < 3*s.config.Timeout && !impatient {
				continue // its writer may be at it
			}
			if err := s.fence(ctx, other); err != nil {
				return got, nil, err
			}
		}
		taken, err := s.takeClaim(ctx, c, mine)
		if err != nil {
			return got, nil, err
		}
		if taken {
			delete(wanted, c.ID)
			if c.RuleSetID != mine.RuleSetID {
				got = append(got, mine)
			}
		}
	}
	return got, owners, nil
}

// standing is what rules another rule set has.
type standing struct {
	id      string
	head    *head
	has     map[string]bool
	unknown bool // it cannot be read: better safe than sorry
	fenced  bool
}

func (s *Source) fetchStanding(ctx context.Context, id string) (*standing, error) {
	h, err := s.fetchHead(ctx, id)
	if err != nil {
		return nil, err
	}
	other := &standing{id: id, head: h, has: map[string]bool{}}
	if h.never() {
		return other, nil
	}
	c, err := s.fetchContent(ctx, h)
	switch {
	case errors.Is(err, errNoSnapshot), errors.Is(err, errBroken):
		other.unknown = true
	case err != nil:
		return nil, err
	case c.set != nil:
		for r := range c.set.Rules() {
			other.has[r.ID] = true
		}
	}
	return other, nil
}

// fence turns away every writer who has read a head. One that is not there yet
// is made, as that of a rule set that never had a revision.
func (s *Source) fence(ctx context.Context, other *standing) error {
	if other.fenced {
		return nil
	}
	return s.call(ctx, "turning away the writers of another rule set", func(ctx context.Context) error {
		if other.head == nil {
			_, err := s.heads.InsertOne(ctx, &head{ID: other.id, Deleted: true, Fence: 1})
			other.fenced = err == nil
			if mongo.IsDuplicateKeyError(err) {
				err = errFenced
			}
			return err
		}
		filter := append(other.head.same(), bson.E{Key: "fence", Value: other.head.Fence})
		result, err := s.heads.UpdateOne(ctx, filter, bson.D{{Key: "$inc", Value: bson.D{{Key: "fence", Value: 1}}}})
		other.fenced = err == nil && result.MatchedCount > 0
		if err == nil && !other.fenced {
			err = errFenced // it has just changed: look again
		}
		return err
	})
}

func (s *Source) takeClaim(ctx context.Context, from, to claim) (taken bool, err error) {
	err = s.call(ctx, "taking over a claim", func(ctx context.Context) error {
		result, err := s.claims.UpdateOne(ctx, from.same(), bson.D{{Key: "$set", Value: bson.D{
			{Key: "ruleSetId", Value: to.RuleSetID}, {Key: "token", Value: to.Token}, {Key: "at", Value: to.At},
		}}})
		taken = err == nil && result.MatchedCount > 0
		return err
	})
	return taken, err
}

// fetchClaims reads the claims of ids, of one rule set or of any.
func (s *Source) fetchClaims(ctx context.Context, ruleSetID string, ids []string) ([]claim, error) {
	var all []claim
	for chunk := range slices.Chunk(ids, s.config.batch) {
		filter := bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: chunk}}}}
		if ruleSetID != "" {
			filter = append(filter, bson.E{Key: "ruleSetId", Value: ruleSetID})
		}
		err := s.call(ctx, "reading claims", func(ctx context.Context) error {
			found, err := findAll[claim](ctx, s.claims, filter)
			all = append(all, found...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// dropClaims drops claims that nobody has taken over.
func (s *Source) dropClaims(ctx context.Context, claims []claim) error {
	for chunk := range slices.Chunk(claims, s.config.batch) {
		models := make([]mongo.WriteModel, len(chunk))
		for i, c := range chunk {
			models[i] = mongo.NewDeleteOneModel().SetFilter(c.same())
		}
		err := s.call(ctx, "dropping claims", func(ctx context.Context) error {
			_, err := s.claims.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
