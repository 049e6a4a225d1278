package mongorules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// base is a rule set as a change finds it: its head, what documents that should
// have, and how they differ.
type base struct {
	id        string
	head      *head // nil if there is none
	want      []ruleDocument
	documents []document
	differences
	// replaces are the fingerprints of edited documents that the head's
	// revision has imported or replaces and that were not written again yet.
	replaces []string
}

// differences are how documents differ from a revision.
type differences struct {
	stale    []staleDocument // written by FluxGate, or replaced by the revision
	obsolete []document      // the same, of rules that are gone
	missing  []ruleDocument  // not inserted yet
	edited   []document      // changed or inserted by somebody else
	removed  []ruleDocument  // deleted by somebody else
	ignored  []document      // of rules without bands, see unfinished
	lost     bool            // all documents are gone, which is not an edit
	kept     int             // how many are as they should be
}

// staleDocument is a document and what it should say.
type staleDocument struct {
	document
	want ruleDocument
}

func (d *differences) hasEdits() bool { return len(d.edited)+len(d.removed) > 0 }

func (d *differences) complete() bool { return len(d.stale)+len(d.obsolete)+len(d.missing) == 0 }

// inspect reads what a head stands for and compares the documents with it. The
// base can be used for a change even if the revision cannot be read.
func (s *Source) inspect(ctx context.Context, id string, h *head, all []bson.Raw) (*base, error) {
	b := &base{id: id, head: h, documents: readDocuments(all)}
	compared := h
	var err error
	if h != nil {
		var v *rules.Version
		if v, err = s.fetchCurrent(ctx, h); err == nil {
			b.want, err = encodeRules(v.RuleSet)
		}
		if errors.Is(err, errNoSnapshot) && len(all) > 0 {
			compared, err = nil, nil // the documents are all that is left
		}
		b.replaces = slices.Clone(h.Replaces)
	}
	b.differences = classify(compared, b.want, b.documents)
	for _, d := range b.stale {
		if !d.untouched() {
			b.replaces = append(b.replaces, d.fingerprint())
		}
	}
	ignored := strings.Join(names(b.ignored), ", ")
	if s.warned.swap(id, ignored) != ignored && ignored != "" {
		s.config.Logger.Warn("ignoring documents of rules without bands: add bands to put the rules into effect",
			"ruleSet", id, "documents", ignored, "count", len(b.ignored))
	}
	return b, err
}

// classify compares documents with the revision of a head.
func classify(h *head, want []ruleDocument, documents []document) (found differences) {
	var replaced, added map[string]bool
	if h != nil {
		replaced, added = setOf(h.Replaces), setOf(h.Adds)
	}
	wanted := setOf(idsOf(want))
	replaces := func(d document) bool { return len(replaced) > 0 && replaced[d.fingerprint()] }
	byRule := make(map[string][]document, len(documents))
	for _, d := range documents {
		switch {
		case wanted[d.id]:
			byRule[d.id] = append(byRule[d.id], d)
		case d.unfinished():
			found.ignored = append(found.ignored, d)
		case h.wrote(&d) || replaces(d):
			found.obsolete = append(found.obsolete, d)
		default:
			found.edited = append(found.edited, d)
		}
	}
	found.lost = len(want) > 0 && len(byRule)+len(found.edited) == 0
	for _, w := range want {
		same := byRule[w.id]
		// Two writers may have inserted the document of a rule under both of
		// the _ids that it can have. Any other second document is an edit.
		slices.SortFunc(same, func(a, b document) int { return cmp.Compare(len(a.key), len(b.key)) })
		second := func(d document) bool { return !replaces(d) && (!h.wrote(&d) || d.key != longKey(h.ID, d.id)) }
		switch {
		case len(same) == 0 && (found.lost || added[w.id]):
			found.missing = append(found.missing, w)
			continue
		case len(same) == 0:
			found.removed = append(found.removed, w)
			continue
		case slices.ContainsFunc(same[1:], second):
			found.edited = append(found.edited, same...)
			continue
		}
		found.obsolete = append(found.obsolete, same[1:]...)
		switch d := same[0]; {
		case d.sum == w.sum && d.untouched() && !d.exposed:
			found.kept++
		case d.sum == w.sum, h.wrote(&d), replaces(d), added[w.id] && d.unfinished():
			found.stale = append(found.stale, staleDocument{d, w})
		default:
			found.edited = append(found.edited, d)
		}
	}
	return found
}

// wrote reports whether a document is as some revision up to this one has
// written it. In a deleted rule set an edit of such a document is too late.
func (h *head) wrote(d *document) bool {
	return h != nil && d.revision <= h.Revision && (d.untouched() || h.Deleted && d.checksum != "")
}

func setOf(list []string) map[string]bool {
	set := make(map[string]bool, len(list))
	for _, s := range list {
		set[s] = true
	}
	return set
}

func idsOf(documents []ruleDocument) (ids []string) {
	for _, w := range documents {
		ids = append(ids, w.id)
	}
	return ids
}

// adds are the ids of rules that have no document yet, or an unfinished one.
func (b *base) adds(want []ruleDocument) []string {
	has := map[string]bool{}
	for _, d := range b.documents {
		has[d.id] = has[d.id] || !d.unfinished()
	}
	return slices.DeleteFunc(idsOf(want), func(id string) bool { return has[id] })
}

// merge is the revision that the edits make of the current one, or a
// [*fluxgate.ValidationError] that names the documents.
func (b *base) merge() (draft, error) {
	edited := make(map[string]*document, len(b.edited))
	var found []fluxgate.Problem
	for i := range b.edited {
		d := &b.edited[i]
		for _, p := range d.problems {
			found = append(found, d.inDocument(p))
		}
		if other := edited[d.id]; other != nil && d.id != "" {
			found = append(found, d.inDocument(fluxgate.Problem{
				Code:    fluxgate.CodeDuplicate,
				Message: fmt.Sprintf("is a second document of rule %q, which is also in document %s: delete one of them, or change its id", d.id, other.name()),
			}))
		}
		edited[d.id] = d
	}
	removed := setOf(idsOf(b.removed))
	var all []fluxgate.Rule
	for _, w := range b.want {
		if d := edited[w.id]; d != nil {
			d.refine(w)
		} else if !removed[w.id] {
			all = append(all, w.from)
		}
	}
	for _, d := range b.edited {
		all = append(all, d.rule)
	}
	if len(found) == 0 {
		set, err := fluxgate.NewRuleSet(b.id, all...)
		if err == nil {
			return newDraft(set, rules.Change{Base: b.head.current(), Author: external, Comment: b.comment()})
		}
		for _, p := range problemsOf(err) {
			found = append(found, inDocuments(all, edited, p))
		}
	}
	return draft{}, &fluxgate.ValidationError{RuleSetID: b.id, Problems: found[:min(len(found), maxProblems)]}
}

// comment says which documents were edited or inserted, and of which rules they
// were removed.
func (b *base) comment() string {
	var parts []string
	if len(b.edited) > 0 {
		parts = append(parts, "edited "+strings.Join(names(b.edited), ", "))
	}
	if len(b.removed) > 0 {
		parts = append(parts, "removed "+strings.Join(idsOf(b.removed), ", "))
	}
	return shorten("documents "+strings.Join(parts, "; "), 1_000)
}
