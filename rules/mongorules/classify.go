package mongorules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// content is the rules of a revision, nil for a deletion, and their documents.
type content struct {
	set  *fluxgate.RuleSet
	want []ruleDocument
}

// base is a rule set as a change finds it: its head, what that says, and how
// the documents differ from it.
type base struct {
	id   string
	head *head // nil if there is none
	content
	documents []document
	ignored   []document // rules without bands, see unfinished
	differences
}

// differences are how documents differ from a revision.
type differences struct {
	stale    []staleDocument // written by FluxGate, or replaced by the revision
	obsolete []document      // the same, of rules that are gone
	missing  []ruleDocument  // not inserted yet
	edited   []document      // changed or inserted by somebody else
	removed  []ruleDocument  // deleted by somebody else
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
func (s *Source) inspect(ctx context.Context, id string, h *head) (*base, error) {
	raw, err := s.fetchDocuments(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.compare(ctx, id, h, raw)
}

func (s *Source) compare(ctx context.Context, id string, h *head, raw []rawDocument) (*base, error) {
	b := &base{id: id, head: h}
	var err error
	compared := h
	if h != nil {
		var v *rules.Version
		if v, err = s.fetchCurrent(ctx, h); err == nil {
			b.set = v.RuleSet
			b.want, err = encodeRules(v.RuleSet)
		}
		if errors.Is(err, errNoSnapshot) && len(raw) > 0 {
			compared, err = nil, nil // the documents are all that is left
		}
	}
	b.documents, b.ignored = split(raw, b.want)
	s.warnUnfinished(id, b.ignored)
	b.differences = classify(compared, b.want, b.documents)
	return b, err
}

// split separates the documents of unfinished rules that a revision does not
// have. For a rule that it has, such a document is an edit.
func split(raw []rawDocument, want []ruleDocument) (rest, ignored []document) {
	has := make(map[string]bool, len(want))
	for _, w := range want {
		has[w.id] = true
	}
	for _, r := range raw {
		if d := readDocument(r); d.unfinished() && !has[d.id] {
			ignored = append(ignored, d)
		} else {
			rest = append(rest, d)
		}
	}
	return rest, ignored
}

// classify compares documents with the revision of a head.
func classify(h *head, want []ruleDocument, documents []document) differences {
	found := differences{lost: len(documents) == 0 && len(want) > 0}
	replaced, added := map[string]bool{}, map[string]bool{}
	if h != nil {
		replaced, added = setOf(h.Replaces), setOf(h.Adds)
	}
	replaces := func(d *document) bool { return len(replaced) > 0 && replaced[d.fingerprint()] }
	ours := func(d *document) bool { return h.wrote(d) || replaces(d) }
	byRule := make(map[string][]document, len(documents))
	for _, d := range documents {
		byRule[d.id] = append(byRule[d.id], d)
	}
	wanted := make(map[string]bool, len(want))
	for _, w := range want {
		wanted[w.id] = true
		same := byRule[w.id]
		if len(same) == 0 {
			if found.lost || added[w.id] {
				found.missing = append(found.missing, w)
			} else {
				found.removed = append(found.removed, w)
			}
			continue
		}
		// Two writers may have inserted the document of a rule under both of
		// the ids that it can have. Any other second document is an edit.
		slices.SortFunc(same, func(a, b document) int { return cmp.Compare(len(a.key), len(b.key)) })
		others := same[1:]
		if slices.ContainsFunc(others, func(d document) bool {
			return !replaces(&d) && !(h.wrote(&d) && d.key == longKey(h.ID, d.id))
		}) {
			found.edited = append(found.edited, same...)
			continue
		}
		found.obsolete = append(found.obsolete, others...)
		switch d := same[0]; {
		case d.sum == w.sum && d.checksum == w.sum && !d.exposed:
			found.kept++
		case d.sum == w.sum || ours(&d):
			found.stale = append(found.stale, staleDocument{d, w})
		default:
			found.edited = append(found.edited, d)
		}
	}
	for _, d := range documents {
		switch {
		case wanted[d.id]:
		case ours(&d):
			found.obsolete = append(found.obsolete, d)
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

// replaces are the fingerprints that a change of the base replaces: edited
// documents that the current revision has imported or replaces, and that were
// not written again yet.
func (b *base) replaces() []string {
	var all []string
	if b.head != nil {
		all = slices.Clone(b.head.Replaces)
	}
	for _, d := range b.stale {
		if !d.untouched() {
			all = append(all, d.fingerprint())
		}
	}
	return all
}

// adds are the ids of rules that have no document yet.
func (b *base) adds(want []ruleDocument) []string {
	has := map[string]bool{}
	for _, d := range slices.Concat(b.documents, b.ignored) {
		has[d.id] = true
	}
	var ids []string
	for _, w := range want {
		if !has[w.id] {
			ids = append(ids, w.id)
		}
	}
	return ids
}

// takesOver are the ignored documents of rules that a rule set has.
func (b *base) takesOver(set *fluxgate.RuleSet) []document {
	var all []document
	for _, d := range b.ignored {
		if set == nil {
			break
		}
		if _, has := set.Rule(d.id); has {
			all = append(all, d)
		}
	}
	return all
}

// merge is the revision that the edits make of the current one, or a
// [*fluxgate.ValidationError] that names the documents.
func (b *base) merge() (draft, error) {
	edited := make(map[string]*document, len(b.edited))
	removed := make(map[string]bool, len(b.removed))
	var all []fluxgate.Rule
	var found []fluxgate.Problem
	for i := range b.edited {
		d := &b.edited[i]
		found = append(found, d.problems...)
		if other := edited[d.id]; other != nil && d.id != "" {
			found = append(found, d.inDocument(fluxgate.Problem{
				Message: fmt.Sprintf("is a second document of rule %q, which is also in document %s: delete one of them, or change its id", d.id, other.name()),
			}))
		}
		edited[d.id] = d
	}
	for _, w := range b.removed {
		removed[w.id] = true
	}
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

// comment says which rules an edit has changed.
func (b *base) comment() string {
	was := map[string]bool{}
	for _, w := range b.want {
		was[w.id] = true
	}
	ids := map[string][]string{}
	for _, d := range b.edited {
		what := "added"
		if was[d.id] {
			what = "edited"
		}
		ids[what] = append(ids[what], d.id)
	}
	for _, w := range b.removed {
		ids["removed"] = append(ids["removed"], w.id)
	}
	var parts []string
	for _, what := range []string{"edited", "added", "removed"} {
		if len(ids[what]) > 0 {
			parts = append(parts, what+" "+strings.Join(ids[what], ", "))
		}
	}
	const most = 1_000 // bytes; ids are ASCII
	text := "documents " + strings.Join(parts, "; ")
	if len(text) > most {
		text = text[:most] + "…"
	}
	return text
}
