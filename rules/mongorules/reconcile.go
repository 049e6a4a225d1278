package mongorules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// external is the author of revisions that were made from edited documents.
const external = "external"

// Reconcile implements [rules.Reconciler]. The server that holds the lease of
// the rule set compares the documents with the head, imports edits and writes
// documents that are missing or stale. The others report what it has found.
func (s *Source) Reconcile(ctx context.Context, id string) (imported bool, err error) {
	s.makeIndexes(ctx)
	if !fluxgate.ValidID(id) {
		return false, nil
	}
	unlock, err := s.writers.lock(ctx, id)
	if err != nil {
		return false, err
	}
	defer unlock()
	const attempts = 5 // each further one means that somebody else has changed the rule set
	for range attempts {
		imported, err = s.reconcile(ctx, id)
		if !errors.As(err, new(*rules.ConflictError)) {
			break
		}
	}
	if forbidden(err) {
		s.config.Logger.Debug("the MongoDB user cannot write; other servers reconcile the documents", "ruleSet", id, "error", err)
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("documents of rule set %q: %w", id, err)
	}
	return imported, nil
}

func (s *Source) reconcile(ctx context.Context, id string) (imported bool, err error) {
	h, err := s.fetchHead(ctx, id)
	if err != nil {
		return false, err
	}
	if h != nil {
		if mine, err := s.takeLease(ctx, h); err != nil && !forbidden(err) {
			return false, err
		} else if !mine {
			return false, h.problem()
		}
	}
	raw, err := s.fetchDocuments(ctx, id)
	if err != nil {
		return false, err
	}
	state := digest(h, raw)
	if h != nil && h.Synced == h.Revision && h.Problem == "" && s.reconciled.get(id) == state {
		return false, nil
	}
	b, err := s.compare(ctx, id, h, raw)
	switch {
	case err != nil:
		return false, err
	case b.hasEdits():
		_, err := s.importEdits(ctx, b)
		return err == nil, err
	case h == nil:
		return false, nil
	case b.complete() && h.Synced == h.Revision:
		s.reconciled.set(id, state)
		return false, s.noteProblem(ctx, h, "")
	case b.lost:
		s.config.Logger.Warn("all documents of a rule set are gone; writing them again", "ruleSet", id, "revision", h.Revision)
		if err := s.reopen(ctx, h, b.want); err != nil {
			return false, err
		}
	}
	return false, errors.Join(s.finish(ctx, h, b.content), s.noteProblem(ctx, h, ""))
}

func (h *head) problem() error {
	if h.Problem == "" {
		return nil
	}
	return errors.New(h.Problem)
}

// takeLease reports whether this server reconciles the documents of a rule set
// now. It takes the lease if nobody has it and prolongs its own. A lease that
// ends later than a lease can is of a server with a wrong clock.
func (s *Source) takeLease(ctx context.Context, h *head) (mine bool, err error) {
	now := s.config.Now()
	if h.Lease != nil {
		mine = h.Lease.Holder == s.name
		left := time.UnixMilli(h.Lease.Until).Sub(now)
		if left > 0 && left <= 2*s.config.Lease && (!mine || left > s.config.Lease/2) {
			return mine, nil
		}
	}
	next := &lease{s.name, now.Add(s.config.Lease).UnixMilli()}
	mine, err = s.update(ctx, "taking the lease of a rule set", bson.D{{Key: "_id", Value: h.ID}, {Key: "lease", Value: h.Lease}}, set("lease", next))
	if mine {
		h.Lease = next
		s.leased.Store(true)
	}
	return mine, err
}

// releaseLeases lets other servers take over at once.
func (s *Source) releaseLeases(ctx context.Context) {
	if !s.leased.Load() {
		return
	}
	err := s.call(ctx, "releasing leases", func(ctx context.Context) error {
		_, err := s.heads.UpdateMany(ctx, bson.D{{Key: "lease.holder", Value: s.name}}, set("lease.until", int64(0)))
		return err
	})
	if err != nil {
		s.config.Logger.Debug("leases were not released; they end by themselves", "error", err)
	}
}

// importEdits commits the edits of a base as a revision. An invalid edit is a
// [*fluxgate.ValidationError], noted in the head. If somebody else has changed
// the rule set meanwhile it is a [*rules.ConflictError].
func (s *Source) importEdits(ctx context.Context, b *base) (*head, error) {
	d, err := b.merge()
	if errors.As(err, new(*fluxgate.ValidationError)) && b.head != nil {
		return nil, errors.Join(err, s.noteProblem(ctx, b.head, err.Error()))
	}
	if err != nil {
		return nil, err
	}
	h, err := s.commit(ctx, b, d)
	if err != nil {
		return nil, err
	}
	s.config.Logger.Info("imported edited documents as a revision", "ruleSet", b.id, "revision", h.Revision, "comment", h.Comment)
	if err := s.finish(ctx, h, d.content); err != nil {
		s.config.Logger.Warn("edited documents are imported, but not rewritten yet", "ruleSet", b.id, "revision", h.Revision, "error", err)
	}
	return h, nil
}

// noteProblem keeps in the head why an edit was not imported, for all servers.
func (s *Source) noteProblem(ctx context.Context, h *head, problem string) error {
	const most = 4_000
	if len(problem) > most {
		problem = strings.ToValidUTF8(problem[:most], "") + "…"
	}
	if problem == h.Problem {
		return nil
	}
	_, err := s.update(ctx, "noting the problem of an edit", h.unchanged(), set("problem", problem))
	return err
}

// Examine returns why an edit of the documents of a rule set cannot be
// imported, or nil. Unlike [Source.Reconcile] it changes nothing.
func (s *Source) Examine(ctx context.Context, id string) error {
	h, err := s.fetchHead(ctx, id)
	if err != nil {
		return err
	}
	b, err := s.inspect(ctx, id, h)
	if err != nil || !b.hasEdits() {
		return err
	}
	_, err = b.merge()
	return err
}

// unfinished reports whether a document is of a rule without bands and was
// never part of a revision.
func (d *document) unfinished() bool {
	if d.checksum != "" || d.revision != 0 {
		return false
	}
	if action, ok := d.raw.Lookup("action").StringValueOK(); ok && action != string(fluxgate.ActionLimit) {
		return false // needs no bands
	}
	switch bands := d.raw.Lookup("bands"); bands.Type {
	case 0, bson.TypeNull:
		return true
	case bson.TypeArray:
		values, err := bands.Array().Values()
		return err == nil && len(values) == 0
	}
	return false
}

// warnUnfinished logs which documents are ignored, once.
func (s *Source) warnUnfinished(id string, ignored []document) {
	all := names(ignored)
	slices.Sort(all)
	text := strings.Join(all, ", ")
	if s.warned.get(id) != text {
		s.warned.set(id, text)
		if text != "" {
			s.config.Logger.Warn("ignoring documents of rules without bands: add bands to put the rules into effect",
				"ruleSet", id, "documents", text, "count", len(ignored))
		}
	}
}
