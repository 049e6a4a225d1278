package mongorules

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fluxgate/fluxgate/rules"
)

// external is the author of revisions imported from edited documents.
const external = "external"

// Reconcile implements [rules.Reconciler]. The server that holds the lease of the
// rule set compares the documents with the head, imports edits and writes documents
// that are missing or stale. The others return the error it has recorded. If no
// server has the permission to import an edit, that is an error too.
func (s *Source) Reconcile(ctx context.Context, id string) (imported bool, err error) {
	s.makeIndexes(ctx)
	const attempts = 5 // repeated if the rule set was changed meanwhile
	for range attempts {
		if imported, err = s.reconcile(ctx, id); !errors.As(err, new(*rules.ConflictError)) {
			break
		}
	}
	_, failed := s.completeOverrides(ctx, id)
	if forbidden(err) { // other servers may have the permission
		err = nil
	}
	if !forbidden(failed) {
		err = errors.Join(err, failed)
	}
	if err != nil {
		err = fmt.Errorf("documents of rule set %q: %w", id, err)
	}
	return imported, err
}

func (s *Source) reconcile(ctx context.Context, id string) (imported bool, err error) {
	h, err := s.fetchHead(ctx, id)
	if err != nil || !rules.ValidID(id) {
		return false, err
	}
	if h != nil {
		mine, err := s.takeLease(ctx, h)
		switch {
		case err != nil && !forbidden(err):
			return false, err
		case !mine && h.Problem != "":
			return false, errors.New(h.Problem)
		case !mine && err == nil:
			return false, nil
		} // if it is forbidden, no server has the lease: look for an edit that is not imported
	}
	b, err := s.inspect(ctx, id, h)
	switch {
	case err != nil:
		return false, err
	case b.hasEdits():
		_, err := s.importEdits(ctx, b)
		if forbidden(err) {
			err = errors.New("an edit is not imported: no server has the permission; grant the role readWrite to the MongoDB user of one")
		}
		return err == nil, err
	case h == nil:
		return false, nil
	case len(b.writes) == 0 && h.Synced == h.Revision:
		s.reconciled.Store(id, b.digest)
		return false, s.noteProblem(ctx, h, "")
	case b.lost:
		// Otherwise documents that are still missing after a crash would count
		// as removed rules.
		s.config.Logger.Warn("all documents of a rule set are missing; writing them again", "ruleSet", id, "revision", h.Revision)
		h.Adds = b.adds(b.want)
		missing := bson.M{"$set": bson.M{"synced": h.Revision - 1, "adds": h.Adds}}
		if err := s.update(ctx, "marking the documents as missing", h, missing); err != nil {
			return false, err
		}
	}
	if len(b.obsolete) > 0 && h.Synced == h.Revision {
		s.config.Logger.Warn("deleting documents of removed rules; "+
			"to add such a rule again, insert its document without the fields revision and checksum",
			"ruleSet", id, "revision", h.Revision, "documents", names(b.obsolete))
	}
	return false, errors.Join(s.syncDocuments(ctx, h, b.want), s.noteProblem(ctx, h, ""))
}

// holderPrefix begins the names of servers that know all fields of rules that this one knows. A
// server without it would import documents without their until.
const holderPrefix = "2:"

// takeLease reports whether this server reconciles the documents of a rule set now.
// It takes a free lease and renews its own. A lease that ends too far in the future
// is from a server with a wrong clock, and counts as free, as does that of an older version.
func (s *Source) takeLease(ctx context.Context, h *head) (mine bool, err error) {
	now := s.config.Now()
	if h.Lease != nil {
		mine = h.Lease.Holder == s.name
		left := time.UnixMilli(h.Lease.Until).Sub(now)
		knows := strings.HasPrefix(h.Lease.Holder, holderPrefix)
		if knows && left > 0 && left <= 2*s.config.Lease && (!mine || left > s.config.Lease/2) {
			return mine, nil
		}
	}
	next := &lease{s.name, now.Add(s.config.Lease).UnixMilli()}
	err = s.call(ctx, "taking the lease of a rule set", func(ctx context.Context) error {
		result, err := s.current().heads.UpdateOne(ctx, bson.M{"_id": h.ID, "lease": h.Lease}, bson.M{"$set": bson.M{"lease": next}})
		mine = err == nil && result.MatchedCount > 0
		return err
	})
	if mine {
		h.Lease = next
		s.leased.Store(true)
	}
	return mine, err
}

// importEdits commits the edits of a base as a revision. An invalid edit is a
// [*rules.ValidationError], recorded in the head. If the rule set was changed
// meanwhile the error is a [*rules.ConflictError].
func (s *Source) importEdits(ctx context.Context, b *base) (*head, error) {
	d, err := b.merge()
	if errors.As(err, new(*rules.ValidationError)) && b.head != nil {
		err = errors.Join(err, s.noteProblem(ctx, b.head, err.Error()))
	}
	if err != nil {
		return nil, err
	}
	h, err := s.commit(ctx, b, d)
	if err == nil {
		s.config.Logger.Info("imported edited documents as a revision", "ruleSet", b.id, "revision", h.Revision, "comment", h.Comment)
	}
	return h, err
}

// noteProblem records in the head why an edit was not imported, for all servers.
func (s *Source) noteProblem(ctx context.Context, h *head, problem string) error {
	if problem = strings.ToValidUTF8(problem[:min(len(problem), 4_000)], ""); problem == h.Problem {
		return nil
	}
	return s.update(ctx, "noting the problem of an edit", h, bson.M{"$set": bson.M{"problem": problem}})
}

// Examine returns why an edit of the documents of a rule set cannot be imported, or nil.
// Unlike [Source.Reconcile] it changes nothing.
func (s *Source) Examine(ctx context.Context, id string) error {
	h, err := s.fetchHead(ctx, id)
	if err != nil {
		return err
	}
	b, err := s.inspect(ctx, id, h)
	if err == nil && b.hasEdits() {
		_, err = b.merge()
	}
	return err
}
