package mongorules

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// head is where a rule set stands.
type head struct {
	ID       string    `bson:"_id"`
	Revision int64     `bson:"revision"`
	Deleted  bool      `bson:"deleted"`
	Snapshot string    `bson:"snapshot"` // the id of that revision's
	Author   string    `bson:"author"`
	Comment  string    `bson:"comment"`
	At       time.Time `bson:"at"`
	// Bytes is how long the documents of all revisions were together, those
	// that are forgotten included.
	Bytes int64 `bson:"bytes"`
	// Fence is counted up to turn away writers who have read the head before:
	// see claims.
	Fence int64 `bson:"fence"`
	// Projected is the last revision that the documents were made from.
	Projected int64 `bson:"projected"`
	// CheckedAt is when somebody last began to look at their content.
	CheckedAt time.Time `bson:"checkedAt"`
	// Problem is what is wrong with an edit of them that could not be taken.
	Problem string `bson:"problem,omitempty"`
}

// snapshot is a rule set at one revision. Until it is committed it is a
// proposal that nobody sees, unless a head names it.
type snapshot struct {
	ID        string    `bson:"_id"`
	RuleSetID string    `bson:"ruleSetId"`
	Revision  int64     `bson:"revision"`
	Parent    int64     `bson:"parent"`
	Deleted   bool      `bson:"deleted"`
	Author    string    `bson:"author"`
	Comment   string    `bson:"comment"`
	At        time.Time `bson:"at"`
	Committed bool      `bson:"committed"`
	// Start is how long the documents of the revisions before it were together.
	Start int64 `bson:"start"`
	// Overrules are the fingerprints of the documents with edits that could
	// not be taken, and that this revision takes the place of.
	Overrules []string `bson:"overrules,omitempty"`
	// Document is the rule set as JSON, empty for a deletion.
	Document string `bson:"document"`
}

// never reports that there was no revision yet.
func (h *head) never() bool { return h == nil || h.Revision == 0 }

// is reports whether a change that was made on old can still be made on h.
func (h *head) is(old *head) bool {
	if h == nil || old == nil {
		return h == old
	}
	return h.Revision == old.Revision && h.Snapshot == old.Snapshot && h.Fence == old.Fence
}

func (h *head) place() rules.Head {
	if h.never() {
		return rules.Head{}
	}
	return rules.Head{Revision: h.Revision, Deleted: h.Deleted}
}

func (h *head) entry() rules.Entry {
	return rules.Entry{RuleSetID: h.ID, Head: h.place(), Author: h.Author, Comment: h.Comment, At: h.At.UTC()}
}

func (v *snapshot) entry() rules.Entry {
	return rules.Entry{
		RuleSetID: v.RuleSetID, Head: rules.Head{Revision: v.Revision, Deleted: v.Deleted},
		Author: v.Author, Comment: v.Comment, At: v.At.UTC(),
	}
}

// version reads the snapshot's rules.
func (v *snapshot) version() (*rules.Version, error) {
	out := &rules.Version{Entry: v.entry()}
	if v.Deleted {
		return out, nil
	}
	set, err := fluxgate.ParseRuleSet([]byte(v.Document))
	if err != nil {
		return nil, fmt.Errorf("rule set %q at revision %d: %w: %w", v.RuleSetID, v.Revision, errBroken, err)
	}
	if set.ID() != v.RuleSetID {
		return nil, fmt.Errorf("rule set %q at revision %d: %w: it is that of %q", v.RuleSetID, v.Revision, errBroken, set.ID())
	}
	out.RuleSet = set
	return out, nil
}

// fetchHead reads a head, nil if there is none.
func (s *Source) fetchHead(ctx context.Context, id string) (*head, error) {
	h := new(head)
	err := s.call(ctx, "reading where a rule set stands", func(ctx context.Context) error {
		err := s.heads.FindOne(ctx, bson.D{{Key: "_id", Value: id}}).Decode(h)
		if errors.Is(err, mongo.ErrNoDocuments) {
			h, err = nil, nil
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return h, nil
}

// fetchHeads reads several heads, or some of their fields.
func (s *Source) fetchHeads(ctx context.Context, ids []string, fields ...string) (map[string]*head, error) {
	found := make(map[string]*head, len(ids))
	var asked []string
	for _, id := range ids {
		if fluxgate.ValidID(id) {
			asked = append(asked, id)
		}
	}
	if len(asked) == 0 {
		return found, nil
	}
	opts := options.Find()
	if len(fields) > 0 {
		only := bson.D{}
		for _, f := range fields {
			only = append(only, bson.E{Key: f, Value: 1})
		}
		opts.SetProjection(only)
	}
	err := s.call(ctx, "reading where rule sets stand", func(ctx context.Context) error {
		all, err := findAll[*head](ctx, s.heads, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: asked}}}}, opts)
		for _, h := range all {
			found[h.ID] = h
		}
		return err
	})
	return found, err
}

var (
	// errNoSnapshot says that the history has lost the current revision.
	errNoSnapshot = errors.New("its snapshot is missing")
	// errBroken says that somebody has put something else in its place.
	errBroken = errors.New("its snapshot cannot be used")
)

// fetchSnapshot reads the snapshot that a head names.
func (s *Source) fetchSnapshot(ctx context.Context, h *head) (*snapshot, error) {
	v := new(snapshot)
	err := s.call(ctx, "reading a rule set", func(ctx context.Context) error {
		return s.versions.FindOne(ctx, bson.D{{Key: "_id", Value: h.Snapshot}}).Decode(v)
	})
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, fmt.Errorf("rule set %q at revision %d: %w", h.ID, h.Revision, errNoSnapshot)
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}
