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

// head is the current revision of a rule set. Replacing it is what commits a
// change. The history has former heads, without what follows Document.
type head struct {
	ID        string    `bson:"_id"`
	RuleSetID string    `bson:"ruleSetId"`
	Revision  int64     `bson:"revision"`
	Deleted   bool      `bson:"deleted"`
	Author    string    `bson:"author"`
	Comment   string    `bson:"comment"`
	At        time.Time `bson:"at"`
	// Start and End count the bytes of all revisions before this one, and
	// with this one, forgotten ones included.
	Start int64 `bson:"start"`
	End   int64 `bson:"end"`
	// Document is the rule set as JSON, empty for a deletion. In a head it,
	// Replaces and Adds are there until history and documents are written.
	Document string `bson:"document,omitempty"`

	// Synced is the last revision that the documents were written for.
	Synced int64 `bson:"synced,omitempty"`
	// Replaces has the fingerprints of documents that were not written by
	// FluxGate and that this revision replaces.
	Replaces []string `bson:"replaces,omitempty"`
	// Adds has the ids of the rules that had no document before this revision.
	// A rule without a document that is not listed was removed by an editor.
	Adds []string `bson:"adds,omitempty"`
	// Problem is why the latest edit of the documents was not imported.
	Problem string `bson:"problem,omitempty"`
	// Lease says which server reconciles the documents.
	Lease *lease `bson:"lease,omitempty"`
}

type lease struct {
	Holder string `bson:"holder"`
	Until  int64  `bson:"until"` // in milliseconds since 1970
}

func snapshotID(id string, revision int64) string { return fmt.Sprintf("%s/%d", id, revision) }

func (h *head) place() rules.Head {
	if h == nil {
		return rules.Head{}
	}
	return rules.Head{Revision: h.Revision, Deleted: h.Deleted}
}

// current is the revision that a change must be based on.
func (h *head) current() int64 {
	if h == nil || h.Deleted {
		return 0
	}
	return h.Revision
}

// unchanged is a filter that finds the head while it is at this revision.
func (h *head) unchanged() bson.D {
	return bson.D{{Key: "_id", Value: h.ID}, {Key: "revision", Value: h.Revision}}
}

func (v *head) entry() rules.Entry {
	return rules.Entry{
		RuleSetID: v.RuleSetID, Head: rules.Head{Revision: v.Revision, Deleted: v.Deleted},
		Author: v.Author, Comment: v.Comment, At: v.At.UTC(),
	}
}

var (
	// errNoSnapshot means that the history has lost the current revision.
	errNoSnapshot = errors.New("its snapshot is missing from the history")
	// errBroken means that the current revision is not a valid rule set.
	errBroken = errors.New("its snapshot cannot be read")
)

// parse reads the rules of a version.
func (v *head) parse() (*rules.Version, error) {
	out := &rules.Version{Entry: v.entry()}
	if v.Deleted {
		return out, nil
	}
	set, err := fluxgate.ParseRuleSet([]byte(v.Document))
	if err == nil && set.ID() != v.RuleSetID {
		err = fmt.Errorf("it is of rule set %q", set.ID())
	}
	if err != nil {
		return nil, fmt.Errorf("rule set %q at revision %d: %w: %w", v.RuleSetID, v.Revision, errBroken, err)
	}
	out.RuleSet = set
	return out, nil
}

// fetchHead reads a head, nil if there is none.
func (s *Source) fetchHead(ctx context.Context, id string) (*head, error) {
	h := new(head)
	err := s.call(ctx, "reading the head of a rule set", func(ctx context.Context) error {
		return s.heads.FindOne(ctx, bson.D{{Key: "_id", Value: id}}).Decode(h)
	})
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return h, nil
}

// fetchCurrent reads what a head stands for: from the head itself, or from the
// history once it is there.
func (s *Source) fetchCurrent(ctx context.Context, h *head) (*rules.Version, error) {
	if h.Document != "" || h.Deleted {
		return h.parse()
	}
	v, err := s.fetchSnapshot(ctx, h.ID, h.Revision)
	if v == nil && err == nil {
		err = fmt.Errorf("rule set %q at revision %d: %w", h.ID, h.Revision, errNoSnapshot)
	}
	if err != nil {
		return nil, err
	}
	return v.parse()
}

// fetchSnapshot reads a revision from the history, nil if it is not there.
func (s *Source) fetchSnapshot(ctx context.Context, id string, revision int64) (*head, error) {
	v := new(head)
	err := s.call(ctx, "reading a revision of a rule set", func(ctx context.Context) error {
		return s.history.FindOne(ctx, bson.D{{Key: "_id", Value: snapshotID(id, revision)}}).Decode(v)
	})
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

// lastSnapshot is the newest revision in the history of a rule set that has
// lost its head, or a zero one.
func (s *Source) lastSnapshot(ctx context.Context, id string) (*head, error) {
	v := new(head)
	newest := options.FindOne().SetSort(bson.D{{Key: "revision", Value: -1}}).SetProjection(bson.D{{Key: "document", Value: 0}})
	err := s.call(ctx, "looking for former revisions", func(ctx context.Context) error {
		return s.history.FindOne(ctx, bson.D{{Key: "ruleSetId", Value: id}}, newest).Decode(v)
	})
	if errors.Is(err, mongo.ErrNoDocuments) {
		err = nil
	}
	return v, err
}

// update changes a head that a filter matches, and reports whether one did.
func (s *Source) update(ctx context.Context, doing string, filter, change bson.D) (matched bool, err error) {
	err = s.call(ctx, doing, func(ctx context.Context) error {
		result, err := s.heads.UpdateOne(ctx, filter, change)
		matched = err == nil && result.MatchedCount > 0
		return err
	})
	return matched, err
}

func set(name string, value any) bson.D {
	return bson.D{{Key: "$set", Value: bson.D{{Key: name, Value: value}}}}
}
