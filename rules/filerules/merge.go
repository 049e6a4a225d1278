package filerules

import (
	"fmt"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/yamltree"
)

// merge collects the problems of all files, and of rule sets that are in two
// places. The error is nil or an *Error.
func merge(documents []*document) error {
	var found Error
	first := map[string]string{} // by id, where a rule set is
	for _, d := range documents {
		again := duplicates(d, first)
		found.add(append(again.problems, d.problems...), append(again.causes, d.causes...))
	}
	if len(found.Problems) == 0 {
		return nil
	}
	return &found
}

// duplicates is a document that has only the problems of rule sets that are in
// the files before too.
func duplicates(d *document, first map[string]string) *document {
	found := &document{file: d.file}
	for _, s := range d.sets {
		other, taken := first[s.id]
		if !taken || s.id == "" {
			first[s.id] = fmt.Sprintf("%s:%d:%d", d.file.Name, s.at.Line, s.at.Column)
			continue
		}
		p := fluxgate.Problem{Place: "id", Message: fmt.Sprintf("rule set %s is in %s already", yamltree.Quote(s.id), other)}
		found.refuseAt(s.at, s.place, p)
		found.causes = append(found.causes, &fluxgate.ValidationError{RuleSetID: s.id, Problems: []fluxgate.Problem{p}})
	}
	return found
}
