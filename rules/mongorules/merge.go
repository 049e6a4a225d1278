package mongorules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/rules"
)

// merge returns the current revision with the edits applied, or a
// [*rules.ValidationError] that names the documents. Documents have no cost
// tables: those of the current revision stay.
func (b *base) merge() (draft, error) {
	edited := make(map[string]*document, len(b.edited))
	all := slices.Clone(b.unedited)
	var problems []rules.Problem
	for i := range b.edited {
		d := &b.edited[i]
		for _, p := range d.problems {
			problems = append(problems, d.inDocument(p))
		}
		if other := edited[d.id]; other != nil && d.id != "" {
			message := fmt.Sprintf("is a second document of rule %q, which is also in document %s: "+
				"delete one of them, or change its id", d.id, other.name())
			problems = append(problems, d.inDocument(rules.Problem{Code: rules.CodeDuplicate, Message: message}))
		}
		edited[d.id] = d
		all = append(all, d.refined())
	}
	if len(problems) == 0 {
		set, err := rules.WithRules(b.current, b.id, all...)
		if err == nil {
			return newDraft(set, rules.Change{Base: b.head.state().Current(), Author: external, Comment: b.comment()})
		}
		for _, p := range problemsOf(err) {
			problems = append(problems, inDocuments(all, edited, p))
		}
	}
	return draft{}, &rules.ValidationError{RuleSetID: b.id, Problems: problems[:min(len(problems), maxProblems)]}
}

// comment lists the edited or inserted documents, and the rules whose documents
// were removed.
func (b *base) comment() string {
	var parts []string
	if len(b.edited) > 0 {
		parts = append(parts, "edited "+strings.Join(names(b.edited), ", "))
	}
	if len(b.removed) > 0 {
		parts = append(parts, "removed "+strings.Join(b.removed, ", "))
	}
	text := "documents " + strings.Join(parts, "; ")
	if b.salvaged {
		text = fmt.Sprintf("the history has lost revision %d; %s", b.head.Revision, text)
	}
	return printable.Line(text, 1_000)
}
