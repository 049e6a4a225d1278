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

// Unimported implements [rules.Reconciler].
func (s *Source) Unimported(ctx context.Context, ids []string) (found []string, err error) {
	ids = rules.ValidIDs(ids)
	if len(ids) == 0 {
		return nil, ctx.Err()
	}
	var groups []struct {
		ID string `bson:"_id"`
	}
	err = s.call(ctx, "looking for documents that are not imported", func(ctx context.Context) error {
		cursor, err := s.current().docs.Aggregate(ctx, bson.A{
			bson.M{"$match": bson.M{"ruleSetId": bson.M{"$in": ids}}}, bson.M{"$group": bson.M{"_id": "$ruleSetId"}},
		})
		if err == nil {
			err = cursor.All(ctx, &groups)
		}
		return err
	})
	if forbidden(err) { // other servers may have the permission
		return nil, nil
	}
	for _, g := range groups {
		found = append(found, g.ID)
	}
	return found, err
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
		if orphaned, err := s.orphaned(ctx, h); err != nil {
			return false, err
		} else if orphaned {
			if err := s.clearOverrides(ctx, id); err != nil {
				return false, err
			}
		}
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
	case len(b.writes) == 0 && h.settled():
		if b.snapshot != nil { // otherwise it is unchanged
			s.reconciled.Store(id, verified{b.digest, b.snapshot})
		}
		return false, s.noteProblem(ctx, h, "")
	case b.lost:
		// Otherwise documents that are still missing after a crash would count
		// as removed rules.
		h.Adds = b.adds(b.want)
		missing := bson.M{"$set": bson.M{"synced": h.Revision - 1, "adds": h.Adds}}
		if err := s.update(ctx, "marking the documents as missing", h, missing); err != nil {
			return false, err
		}
	}
	undone := b.undone()
	if err := s.syncDocuments(ctx, h, b.want); forbidden(err) {
		return false, err
	} else if undone == nil {
		return false, errors.Join(err, s.noteProblem(ctx, h, ""))
	} else { // until the next call
		s.config.Logger.Warn("documents that another program has changed are written over", "ruleSet", id, "error", undone)
		return false, errors.Join(undone, err, s.noteProblem(ctx, h, undone.Error()))
	}
}

// undone names documents that are written over although another program may have put them there. It
// is nil while the documents are not written for the revision: they are FluxGate's own.
func (b *base) undone() error {
	if !b.head.settled() {
		return nil
	}
	var all []error
	if b.lost {
		all = append(all, errors.New("all documents were missing and are written again, since this deletes no rule set: "+
			"use fluxgate rules delete"))
	}
	for _, d := range []struct {
		documents []document
		text      string
	}{
		{b.obsolete, "documents of removed rules were inserted again, and are deleted: %s; " +
			"to add such a rule, insert its document without the fields revision and checksum"},
		{b.outdated, "documents have the checksum of another content that FluxGate wrote, and are written again: %s; " +
			"to change such a rule, remove the field checksum"},
	} {
		if len(d.documents) > 0 {
			all = append(all, fmt.Errorf(d.text, strings.Join(names(d.documents), ", ")))
		}
	}
	return errors.Join(all...)
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
