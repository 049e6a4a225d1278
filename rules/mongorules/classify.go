package mongorules

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fluxgate/fluxgate/rules"
)

// base is the state of a rule set before a change: its head, the documents that it should
// have, and how its documents differ from these.
type base struct {
	id      string
	head    *head      // nil if there is none
	current *rules.Set // of the head's revision, nil if there is none
	// snapshot is the head's revision as the history has it. salvaged is set if the history has
	// lost it, and the documents replace it.
	snapshot *head
	salvaged bool
	raw      []bson.Raw // the documents as read
	digest   string     // of head and documents
	want     []ruleDocument
	differences
}

// differences are how the documents of a rule set differ from a revision.
type differences struct {
	edited   []document   // changed or inserted with another program
	removed  []string     // rules whose documents another program has deleted
	unedited []rules.Rule // the rules that are neither edited nor removed
	ignored  []document   // of rules without bands, see document.unfinished
	obsolete []document   // of rules that the revision does not have, but not edits: they are deleted
	outdated []document   // of rules that the revision has, but written for another content: they are rewritten
	lost     bool         // all documents are missing, which is not an edit
	// replaces has the fingerprints of edited documents that the revision has imported or
	// replaces. They are rewritten.
	replaces []string
	// writes insert missing documents, rewrite stale ones and delete obsolete ones.
	writes []mongo.WriteModel
}

func (d *differences) hasEdits() bool { return len(d.edited)+len(d.removed) > 0 }

// stableIndex is the index that documents are read with. A read of MongoDB is not a snapshot:
// it misses a document if an edit moves its index entry behind the cursor, as an edit of the
// priority does in an index by priority. In this index, an entry does not move while the
// document belongs to the same rule set.
var stableIndex = bson.D{{Key: "ruleSetId", Value: 1}, {Key: "_id", Value: 1}}

// fetchDocuments returns the documents of a rule set, sorted by their bytes. It returns all of
// them or an error: a missing document would count as a removed rule.
func (s *Source) fetchDocuments(ctx context.Context, id string) (all []bson.Raw, err error) {
	all, err = s.scan(ctx, id, stableIndex)
	var reply mongo.ServerError
	if errors.As(err, &reply) && reply.HasErrorCode(2) { // BadValue: the index does not exist
		all, err = s.scan(ctx, id, stableIndex[1:]) // every collection has an index of _id
	}
	slices.SortFunc(all, func(a, b bson.Raw) int { return bytes.Compare(a, b) })
	return all, err
}

// scan reads the documents of a rule set along an index.
func (s *Source) scan(ctx context.Context, id string, index bson.D) (all []bson.Raw, err error) {
	// More than a rule set may have: documents may have unknown fields, or no bands.
	const most, mostBytes = 2 * rules.MaxRules, 4 * rules.MaxDocument
	size := 0
	err = s.call(ctx, "reading the documents of a rule set", func(ctx context.Context) error {
		cursor, err := s.current().docs.Find(ctx, bson.M{"ruleSetId": id}, options.Find().SetHint(index))
		if err != nil {
			return err
		}
		defer func() { _ = cursor.Close(ctx) }()
		for cursor.Next(ctx) {
			if size += len(cursor.Current); size > mostBytes || len(all) == most {
				return fmt.Errorf("rule set %q has more than %d documents or %d bytes", id, most, mostBytes)
			}
			all = append(all, slices.Clone(cursor.Current))
		}
		return cursor.Err()
	})
	return all, err
}

// digest returns a hash of the documents and the head.
func digest(h *head, all []bson.Raw) string {
	sum := sha256.New()
	_, _ = fmt.Fprintln(sum, h.state(), h != nil && h.settled()) // a hash never fails
	for _, raw := range all {
		_, _ = sum.Write(raw)
	}
	return string(sum.Sum(nil))
}

// inspect compares the documents of a rule set with its head. If the current revision cannot be
// read (errNoSnapshot, errBroken), it returns a base beside the error, for a change that
// replaces the revision.
func (s *Source) inspect(ctx context.Context, id string, h *head) (*base, error) {
	raw, err := s.fetchDocuments(ctx, id)
	if err != nil {
		return nil, err
	}
	b := &base{id: id, head: h, raw: raw, digest: digest(h, raw)}
	if same, err := s.unchanged(ctx, b); err != nil || same {
		return b, err // unchanged since a call that found no differences
	}
	compared := h
	if h != nil {
		var v *rules.Version
		if b.snapshot, err = s.fetchSnapshot(ctx, h, h.Revision); err == nil {
			v, err = b.snapshot.decode()
		}
		if err == nil {
			b.current = v.RuleSet
			b.want, err = encodeRules(b.current)
		}
		if errors.Is(err, errNoSnapshot) && len(raw) > 0 {
			compared, b.salvaged, err = nil, true, nil // the documents are all that is left, and count as edits
		}
	}
	if err != nil {
		b.differences = classify(compared, b.want, raw, false, nil)
	} else if b.differences, err = s.compare(ctx, compared, b.want, raw, false); err == nil {
		err = s.confirmMissing(ctx, b, compared)
	}
	b.replaces = append(b.replaces, cmp.Or(h, &head{}).Replaces...)
	ignored := strings.Join(names(b.ignored), ", ")
	if ignored == "" {
		s.warned.Delete(id)
	} else if before, _ := s.warned.Swap(id, ignored); before != ignored {
		s.config.Logger.Warn("ignoring documents of rules without bands; add bands to put the rules into effect",
			"ruleSet", id, "documents", ignored, "count", len(b.ignored))
	}
	return b, err
}

// confirmMissing reads the documents again until two reads in a row miss the same documents. An
// editor may replace a document by deleting and inserting it, and a read in between must not
// remove the rule.
func (s *Source) confirmMissing(ctx context.Context, b *base, compared *head) (err error) {
	missing := func() string { return fmt.Sprint(b.lost, b.removed) }
	for range 5 {
		before := missing()
		if !b.lost && len(b.removed) == 0 {
			return nil
		}
		if b.raw, err = s.fetchDocuments(ctx, b.id); err != nil {
			return err
		}
		if b.differences, err = s.compare(ctx, compared, b.want, b.raw, false); err != nil {
			return err
		}
		if b.digest = digest(b.head, b.raw); missing() == before {
			return nil
		}
	}
	return fmt.Errorf("the documents of rule set %q change too often", b.id)
}

// compare is classify, which needs the former rules of a rule set that is being deleted.
func (s *Source) compare(ctx context.Context, h *head, want []ruleDocument, raw []bson.Raw, long bool) (differences, error) {
	var former map[string]bool
	if h != nil && h.Deleted && !h.settled() {
		v, err := s.fetchVersion(ctx, h, h.Synced)
		if err != nil && !errors.Is(err, errNoSnapshot) && !errors.Is(err, errBroken) {
			return differences{}, err
		}
		if err == nil && v.RuleSet != nil {
			former = map[string]bool{}
			for r := range v.RuleSet.Rules() {
				former[r.ID] = true
			}
		}
	}
	return classify(h, want, raw, long, former), nil
}

// classifier compares the documents of a rule set with a revision.
type classifier struct {
	head     *head
	replaced map[string]bool // the fingerprints in head.Replaces
	added    map[string]bool // the rule ids in head.Adds
	long     bool            // insert documents under long keys
	// former has the ids of the rules of a rule set that is being deleted.
	former map[string]bool
	differences
}

// classify compares the documents raw with want, the documents that the revision of a head
// should have. Missing documents are inserted under their rule id, or under long keys if long
// is set.
func classify(h *head, want []ruleDocument, raw []bson.Raw, long bool, former map[string]bool) differences {
	h = cmp.Or(h, &head{})
	c := classifier{head: h, replaced: setOf(h.Replaces), added: setOf(h.Adds), long: long, former: former}
	wanted := make(map[string]*ruleDocument, len(want))
	for i := range want {
		wanted[want[i].id] = &want[i]
	}
	byRule := make(map[string][]document, len(raw))
	for _, r := range raw {
		d := readDocument(r)
		if d.want = wanted[d.id]; d.want != nil {
			byRule[d.id] = append(byRule[d.id], d)
		} else {
			c.classifyUnwanted(d)
		}
	}
	c.lost = len(want) > 0 && len(byRule)+len(c.edited) == 0
	for i := range want {
		if w := &want[i]; c.classifyRule(w, byRule[w.id]) {
			c.unedited = append(c.unedited, w.from)
		}
	}
	return c.differences
}

// classifyUnwanted classifies a document of a rule that the revision does not have.
func (c *classifier) classifyUnwanted(d document) {
	switch {
	case d.unfinished():
		c.ignored = append(c.ignored, d)
	case c.wrote(&d) || c.replacesEdit(&d):
		c.obsolete = append(c.obsolete, d)
		c.delete(&d)
	default:
		c.edited = append(c.edited, d)
	}
}

// classifyRule classifies the documents of a rule of the revision. It reports whether the rule
// is neither edited nor removed.
func (c *classifier) classifyRule(w *ruleDocument, documents []document) (unedited bool) {
	if len(documents) == 0 {
		if !c.lost && !c.added[w.id] {
			c.removed = append(c.removed, w.id)
			return false
		}
		c.writes = append(c.writes, mongo.NewInsertOneModel().SetDocument(w.insertion(c.head, c.long)))
		return true
	}
	slices.SortFunc(documents, func(a, b document) int { return cmp.Compare(len(a.key), len(b.key)) })
	d, others := &documents[0], documents[1:]
	for i := range others {
		if !c.isDuplicate(d, &others[i]) {
			c.edited = append(c.edited, documents...)
			return false
		}
	}
	for i := range others {
		c.delete(&others[i])
	}
	if d.sum != w.sum && (!c.wrote(d) || c.putBack(d)) && !c.replacesEdit(d) && (!c.added[w.id] || !d.unfinished()) {
		c.edited = append(c.edited, *d)
		return false
	}
	if d.sum != w.sum {
		c.outdated = append(c.outdated, *d)
	}
	if d.sum != w.sum || !d.untouched() || d.showsKey() {
		update := rewrite(*d, c.head.Revision)
		c.writes = append(c.writes, mongo.NewUpdateOneModel().SetFilter(d.unchanged()).SetUpdate(update))
	}
	if !d.untouched() {
		c.replaces = append(c.replaces, d.fingerprint())
	}
	return true
}

// wrote reports whether FluxGate wrote a document as it is, for this or an earlier revision. While a
// rule set is being deleted, edits of its documents are ignored. A document that was moved here from
// another rule set has the checksum of another document.
func (c *classifier) wrote(d *document) bool {
	h := c.head
	return h.Revision > 0 && d.revision <= h.Revision && (d.untouched() || c.former[d.id] && d.checksum != "")
}

// putBack reports whether another program has put back the document of an earlier revision, such
// as a restore from a backup does. FluxGate itself leaves none when it has written the documents.
func (c *classifier) putBack(d *document) bool {
	return c.head.settled() && d.revision < c.head.Revision
}

// replacesEdit reports whether the revision has imported or replaces an edited document.
func (c *classifier) replacesEdit(d *document) bool {
	return len(c.replaced) > 0 && c.replaced[d.fingerprint()]
}

// isDuplicate reports whether other is a superfluous second document of a rule. Two writers may
// have inserted the document under both of its possible _ids. Any other second document is an
// edit.
func (c *classifier) isDuplicate(first, other *document) bool {
	return c.replacesEdit(other) ||
		c.wrote(other) && other.key == longKey(c.head.ID, other.id) && first.key == other.id
}

// delete adds a write that deletes a document, unless it has changed since it was read.
func (c *classifier) delete(d *document) {
	c.writes = append(c.writes, mongo.NewDeleteOneModel().SetFilter(d.unchanged()))
}

func setOf(list []string) map[string]bool {
	set := make(map[string]bool, len(list))
	for _, s := range list {
		set[s] = true
	}
	return set
}

// adds returns the ids of the rules in want that have no document yet, or an unfinished one.
func (b *base) adds(want []ruleDocument) (ids []string) {
	has := map[string]bool{}
	for _, raw := range b.raw {
		d := identify(raw)
		has[d.id] = has[d.id] || !d.unfinished()
	}
	for _, w := range want {
		if !has[w.id] {
			ids = append(ids, w.id)
		}
	}
	return ids
}
