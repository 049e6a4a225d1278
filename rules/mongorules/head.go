package mongorules

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fluxgate/fluxgate/rules"
)

// head is the current revision of a rule set. Replacing it commits a change. The
// history has former heads, without the fields after Document.
type head struct {
	ID        string    `bson:"_id"`
	RuleSetID string    `bson:"ruleSetId"`
	Revision  int64     `bson:"revision"`
	Deleted   bool      `bson:"deleted"`
	Author    string    `bson:"author"`
	Comment   string    `bson:"comment"`
	At        time.Time `bson:"at"`
	// Start and End count the bytes of all revisions before this one, and
	// with this one, including deleted revisions.
	Start int64 `bson:"start"`
	End   int64 `bson:"end"`
	// Document is the rule set as JSON, empty for a deletion. A head has it,
	// Replaces and Adds until history and documents are written.
	Document string `bson:"document,omitempty"`

	// Synced is the last revision that was written to the documents.
	Synced int64 `bson:"synced,omitempty"`
	// Replaces has the fingerprints of documents that FluxGate did not write
	// and that this revision replaces.
	Replaces []string `bson:"replaces,omitempty"`
	// Adds has the ids of rules that had no document before this revision. A
	// rule without a document that is not listed was removed by an editor.
	Adds []string `bson:"adds,omitempty"`
	// Problem is why the latest edit of the documents was not imported.
	Problem string `bson:"problem,omitempty"`
	// Lease is held by the server that reconciles the documents.
	Lease *lease `bson:"lease,omitempty"`
}

type lease struct {
	Holder string `bson:"holder"`
	Until  int64  `bson:"until"` // in milliseconds since 1970
}

func snapshotID(id string, revision int64) string { return fmt.Sprintf("%s/%d", id, revision) }

// state returns the zero Head if there is no head.
func (h *head) state() rules.Head {
	if h == nil {
		return rules.Head{}
	}
	return rules.Head{Revision: h.Revision, Deleted: h.Deleted, Commit: fmt.Sprintf("%d-%d", h.At.UnixMilli(), h.End)}
}

// settled reports whether the revision is written to the documents.
func (h *head) settled() bool { return h.Synced == h.Revision }

func (h *head) entry() rules.Entry {
	return rules.Entry{RuleSetID: h.RuleSetID, Head: h.state(), Author: h.Author, Comment: h.Comment, At: h.At.UTC()}
}

var (
	// errNoSnapshot means that the history has lost the current revision.
	errNoSnapshot = errors.New("its snapshot is missing from the history")
	// errBroken means that the current revision is not a valid rule set.
	errBroken = errors.New("its snapshot cannot be read")
)

// fetchHead reads a head, or nil if there is none.
func (s *Source) fetchHead(ctx context.Context, id string) (*head, error) {
	if !rules.ValidID(id) {
		return nil, nil
	}
	return first(find[*head](ctx, s, "reading the head of a rule set", s.current().heads, bson.M{"_id": id}))
}

// fetchSnapshot reads a revision: the current one from the head until it is in the
// history.
func (s *Source) fetchSnapshot(ctx context.Context, h *head, revision int64) (*head, error) {
	if h.Revision == revision && (h.Document != "" || h.Deleted) {
		return h, nil
	}
	found, err := first(find[*head](ctx, s, "reading a revision of a rule set", s.current().history,
		bson.M{"_id": snapshotID(h.ID, revision)}))
	if err == nil && found == nil {
		err = fmt.Errorf("rule set %q at revision %d: %w", h.ID, revision, errNoSnapshot)
	}
	return found, err
}

// decode reads the rule set of a snapshot.
func (h *head) decode() (*rules.Version, error) {
	v, err := rules.Decode(h.entry(), []byte(h.Document))
	if err != nil {
		err = fmt.Errorf("rule set %q at revision %d: %w: %w", h.RuleSetID, h.Revision, errBroken, err)
	}
	return v, err
}

// fetchVersion is fetchSnapshot, decoded.
func (s *Source) fetchVersion(ctx context.Context, h *head, revision int64) (*rules.Version, error) {
	found, err := s.fetchSnapshot(ctx, h, revision)
	if err != nil {
		return nil, err
	}
	return found.decode()
}

// first returns the first of all, or nil.
func first(all []*head, err error) (*head, error) {
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return all[0], nil
}

// update updates a head if it is still at this revision.
func (s *Source) update(ctx context.Context, doing string, h *head, change bson.M) error {
	return s.call(ctx, doing, func(ctx context.Context) error {
		_, err := s.current().heads.UpdateOne(ctx, bson.M{"_id": h.ID, "revision": h.Revision}, change)
		return err
	})
}

// Revisions implements [rules.Source] with one find of four fields.
func (s *Source) Revisions(ctx context.Context, ids []string) (map[string]rules.Head, error) {
	states := make(map[string]rules.Head, len(ids))
	if ids = rules.ValidIDs(ids); len(ids) == 0 {
		return states, nil
	}
	heads, err := find[*head](ctx, s, "reading the revisions of rule sets", s.current().heads, bson.M{"_id": bson.M{"$in": ids}},
		options.Find().SetProjection(bson.M{"revision": 1, "deleted": 1, "at": 1, "end": 1}))
	for _, h := range heads {
		states[h.ID] = h.state()
	}
	return states, err
}

// Load implements [rules.Source]. Documents of a rule set that has no revision
// become revision 1.
func (s *Source) Load(ctx context.Context, id string) (*rules.Version, error) {
	for range 5 { // a revision may be deleted after its head was read
		h, err := s.fetchHead(ctx, id)
		if h == nil && err == nil {
			var imported bool
			if imported, err = s.reconcile(ctx, id); imported || errors.As(err, new(*rules.ConflictError)) {
				continue
			}
		}
		if err == nil && h.state().Current() == 0 {
			err = notFound(id)
		}
		if err != nil {
			return nil, err
		}
		if v, err := s.fetchVersion(ctx, h, h.Revision); !errors.Is(err, errNoSnapshot) {
			return v, err
		}
	}
	return nil, fmt.Errorf("rule set %q: %w", id, errNoSnapshot)
}

func notFound(id string) error { return fmt.Errorf("rule set %.70q: %w", id, rules.ErrNotFound) }

// List implements [rules.Editor].
func (s *Source) List(ctx context.Context, after string, limit int) ([]rules.Entry, error) {
	return entries(find[*head](ctx, s, "listing the rule sets", s.current().heads, bson.M{"_id": bson.M{"$gt": after}, "deleted": false},
		options.Find().SetSort(bson.M{"_id": 1}).SetLimit(int64(rules.PageSize(limit))).
			SetProjection(bson.M{"document": 0, "replaces": 0, "adds": 0})))
}

func entries(heads []*head, err error) (list []rules.Entry, _ error) {
	for _, h := range heads {
		list = append(list, h.entry())
	}
	return list, err
}

// History implements [rules.Editor]. The current revision is in the head, and
// may not be in the history yet.
func (s *Source) History(ctx context.Context, id string, before int64, limit int) (list []rules.Entry, err error) {
	h, err := s.fetchHead(ctx, id)
	if err != nil || h == nil {
		return nil, err
	}
	limit = rules.PageSize(limit)
	if before <= 0 || before > h.Revision {
		before = h.Revision
		list = append(list, h.entry())
	}
	former, err := entries(find[*head](ctx, s, "reading the history of a rule set", s.current().history,
		bson.M{"ruleSetId": id, "revision": bson.M{"$lt": before, "$gt": h.Revision - int64(s.config.History)}},
		options.Find().SetSort(bson.M{"revision": -1}).SetLimit(int64(limit)).SetProjection(bson.M{"document": 0})))
	list = append(list, former...)
	return list[:min(len(list), limit)], err
}

// Version implements [rules.Editor].
func (s *Source) Version(ctx context.Context, id string, revision int64) (*rules.Version, error) {
	h, err := s.fetchHead(ctx, id)
	if err != nil {
		return nil, err
	}
	if h != nil && revision > h.Revision-int64(s.config.History) {
		if v, err := s.fetchVersion(ctx, h, revision); !errors.Is(err, errNoSnapshot) {
			return v, err
		}
	}
	return nil, fmt.Errorf("revision %d of rule set %.70q: %w", revision, id, rules.ErrNotFound)
}
