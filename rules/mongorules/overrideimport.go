package mongorules

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fluxgate/fluxgate/rules"
)

// errInvalidOverrides is wrapped by errors about documents of overrides that are not imported.
var errInvalidOverrides = errors.New("documents of overrides are not valid and not imported")

// overrideEdits are how documents differ from the log.
type overrideEdits struct {
	live     map[string]overrideEntry // in the log, by id
	missing  map[string]overrideEntry // whose documents were deleted
	seen     map[string]string        // the names of documents, by the id of the override
	changes  []overrideChange         // of documents that were edited or inserted
	obsolete []string                 // the names of documents that a late writer has inserted
	repairs  []mongo.WriteModel       // replace API keys by their digests, and delete obsolete documents
	problems []error
}

// reconcileOverrides imports edits of the documents of overrides, if this server holds the lease
// of the rule set. The others return the problem that it has noted.
func (s *Source) reconcileOverrides(ctx context.Context, ruleSet string) (imported bool, err error) {
	if mine, _ := s.leases.Load(ruleSet); mine == true {
		unlock, err := s.lockWriter(ctx, ruleSet)
		if err != nil {
			return false, err
		}
		defer unlock()
		return s.importOverrides(ctx, ruleSet)
	}
	h, err := s.fetchOverrideHead(ctx, ruleSet, withoutPending)
	if err == nil && h.Problem != "" {
		err = errors.New(h.Problem)
	}
	return false, err
}

// importOverrides imports all edits of the documents of a rule set's overrides.
func (s *Source) importOverrides(ctx context.Context, ruleSet string) (imported bool, err error) {
	const attempts = 5 // repeated if overrides were changed meanwhile
	for range attempts {
		var again bool
		again, err = s.importOverridesOnce(ctx, ruleSet)
		imported = imported || again
		var conflict *rules.OverrideConflictError
		if !errors.As(err, &conflict) && !errors.Is(err, errOverridesChanged) {
			break
		}
	}
	return imported, err
}

func (s *Source) importOverridesOnce(ctx context.Context, ruleSet string) (imported bool, err error) {
	h, err := s.fetchOverrideHead(ctx, ruleSet)
	if err == nil {
		err = s.syncOverrides(ctx, &h)
	}
	if err != nil {
		return false, err
	}
	digest, err := s.digestOverrides(ctx, &h)
	known := "overrides of " + ruleSet // no rule set has this id
	if before, _ := s.reconciled.Load(known); err != nil || before == digest {
		return false, err
	}
	edits, err := s.overrideEdits(ctx, &h)
	if err == nil && len(edits.missing) > 0 { // see confirmMissing
		first := edits.missing
		if edits, err = s.overrideEdits(ctx, &h); err == nil {
			maps.DeleteFunc(edits.missing, func(id string, _ overrideEntry) bool { return first[id].ID == "" })
		}
	}
	if err != nil {
		return false, err
	}
	if len(edits.obsolete) > 0 {
		s.config.Logger.Warn("deleting documents of deleted overrides; "+
			"to add such an override again, insert its document without the fields revision and checksum",
			"ruleSet", ruleSet, "documents", edits.obsolete[:min(len(edits.obsolete), maxProblems)])
	}
	if len(edits.repairs) > 0 {
		_, err := s.bulkWrite(ctx, "repairing documents of overrides", s.current().overrides, edits.repairs)
		return false, errors.Join(err, errOverridesChanged)
	}
	if len(edits.missing)+len(edits.changes)+len(edits.problems) == 0 {
		s.reconciled.Store(known, digest)
	}
	// Deletions first: there is a bound on how many exist.
	for part := range slices.Chunk(append(edits.deletions(), edits.changes...), rules.MaxPage) {
		revision, err := s.commitOverrides(ctx, ruleSet, part)
		if err != nil {
			return imported, err
		}
		imported = true
		s.config.Logger.Info("imported edited documents of overrides", "ruleSet", ruleSet, "revision", revision, "changes", len(part))
	}
	return imported, s.noteInvalid(ctx, &h, edits.invalid())
}

// noteInvalid records for all servers which documents are not valid, and returns the error.
func (s *Source) noteInvalid(ctx context.Context, h *overrideHead, invalid error) error {
	note := ""
	if invalid != nil {
		note = invalid.Error()
	}
	if note == h.Problem {
		return invalid
	}
	return errors.Join(invalid, s.call(ctx, "noting the problem of an edit", func(ctx context.Context) error {
		_, err := s.current().overrideLog.UpdateOne(ctx, bson.M{"_id": h.ID},
			bson.M{"$set": bson.M{"problem": note}, "$setOnInsert": bson.M{revisionField: int64(0)}}, options.UpdateOne().SetUpsert(true))
		return err
	}))
}

// invalid returns the error about documents that are not valid, if there are any.
func (f *overrideEdits) invalid() error {
	const most = 3
	if len(f.problems) == 0 {
		return nil
	}
	return fmt.Errorf("%d %w: %w", len(f.problems), errInvalidOverrides, errors.Join(f.problems[:min(most, len(f.problems))]...))
}

// deletions returns the changes that delete overrides whose documents are missing. An entry
// that cannot be read stays, and is named by readers of the log.
func (f *overrideEdits) deletions() (changes []overrideChange) {
	for _, e := range f.missing {
		if o, err := e.decode(); err == nil {
			changes = append(changes, overrideChange{Override: rules.Override{
				RuleSetID: o.RuleSetID, RuleID: o.RuleID, Identity: o.Identity, Author: external, Revision: o.Revision, Deleted: true,
			}})
		}
	}
	return changes
}

// scanOverrides calls each with the documents of a rule set's overrides.
func (s *Source) scanOverrides(ctx context.Context, ruleSet string, each func(overrideDocument)) error {
	// More than a rule set may have: documents may be invalid.
	const most = 2 * rules.MaxOverrides
	n := 0
	return s.scan(ctx, "reading the documents of overrides", s.current().overrides, ruleSet, func(raw bson.Raw) error {
		if n++; n > most {
			return fmt.Errorf("rule set %q has more than %d documents of overrides", ruleSet, most)
		}
		each(identifyOverride(raw))
		return nil
	})
}

// digestOverrides returns a hash of the head and the documents. Documents are read in the order
// of an index.
func (s *Source) digestOverrides(ctx context.Context, h *overrideHead) (string, error) {
	sum := sha256.New()
	_, _ = fmt.Fprintln(sum, h.Revision) // a hash never fails
	err := s.scanOverrides(ctx, h.ID, func(d overrideDocument) {
		_, _ = fmt.Fprintln(sum, d.key(), d.revision, d.sum, d.checksum)
	})
	return string(sum.Sum(nil)), err
}

// overrideEdits compares the documents with the log.
func (s *Source) overrideEdits(ctx context.Context, h *overrideHead) (*overrideEdits, error) {
	live, err := byID(find[overrideEntry](ctx, s, "reading the log of overrides", s.current().overrideLog,
		bson.M{"ruleSetId": h.ID, "position": bson.M{"$gt": ""}}))
	if err != nil {
		return nil, err
	}
	found := &overrideEdits{live: live, missing: maps.Clone(live), seen: map[string]string{}}
	var others []overrideDocument
	err = s.scanOverrides(ctx, h.ID, func(d overrideDocument) {
		if e := found.live[entryID(h.ID, d.id)]; d.untouched() && e.Revision == d.revision && e.Key.Equal(d.key()) {
			delete(found.missing, e.ID)
			found.seen[d.id] = d.name()
			return
		}
		d.raw = slices.Clone(d.raw)
		others = append(others, d)
	})
	for i := range others {
		found.classify(h, &others[i])
	}
	return found, err
}

// classify adds a document that is not the one of an entry in the log.
func (f *overrideEdits) classify(h *overrideHead, d *overrideDocument) {
	was := entryID(h.ID, d.id)
	_, exists := f.live[was]
	switch override, err := d.decodeOverride(); {
	case d.plainKey():
		f.repairs = append(f.repairs, d.digested())
	case d.untouched() && !exists && d.revision <= h.Revision:
		f.obsolete = append(f.obsolete, d.name())
		f.repairs = append(f.repairs, mongo.NewDeleteOneModel().SetFilter(bson.M{
			"_id": d.key(), revisionField: d.raw.Lookup(revisionField), checksumField: d.checksum}))
	case err != nil:
		delete(f.missing, was) // it stays as it is
		f.problems = append(f.problems, fmt.Errorf("document %s: %w", d.name(), err))
	case f.seen[override.ID()] != "":
		f.problems = append(f.problems, fmt.Errorf("document %s is a second document of the override in document %s: delete one of them",
			d.name(), f.seen[override.ID()]))
	default:
		id := entryID(h.ID, override.ID())
		f.seen[override.ID()] = d.name()
		delete(f.missing, id)
		if override.Revision = f.live[id].Revision; override.Revision == 0 {
			override.Revision = -1
		}
		f.changes = append(f.changes, overrideChange{override, d})
	}
}
