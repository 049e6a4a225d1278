package filerules

import (
	"fmt"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/yamltree"
)

// merge looks at all files together: is any of them wrong, and is an id taken
// twice? The error is nil or an *Error.
func merge(documents []*document) error {
	var found Error
	twice := newTwice(documents)
	for _, d := range documents {
		again := twice.in(d)
		found.add(append(again.problems, d.problems...), append(again.causes, d.causes...))
	}
	if len(found.Problems) == 0 {
		return nil
	}
	return &found
}

// home is where an id stands first.
type home struct {
	file string
	at   yamltree.Position
}

func (h home) String() string { return fmt.Sprintf("%s:%d:%d", h.file, h.at.Line, h.at.Column) }

// twice finds ids of rule sets and of rules that stand in two places. Within
// one rule set the rules have been looked at already.
type twice struct{ sets, rules map[string]home }

func newTwice(documents []*document) *twice {
	rules := 0
	for _, d := range documents {
		for _, s := range d.sets {
			rules += len(s.ruleIDs)
		}
	}
	return &twice{sets: map[string]home{}, rules: make(map[string]home, rules)}
}

// in is a document with the problems alone that a file has with those before.
func (t *twice) in(d *document) *document {
	found := &document{file: d.file}
	for _, s := range d.sets {
		invalid := &fluxgate.ValidationError{RuleSetID: s.id}
		note := func(at yamltree.Position, place, format string, args ...any) {
			if len(invalid.Problems) < maxProblems {
				p := fluxgate.Problem{Place: place, Message: fmt.Sprintf(format, args...)}
				invalid.Problems = append(invalid.Problems, p)
				found.refuseAt(at, s.place, p)
			}
		}
		if first, taken := t.sets[s.id]; taken && s.id != "" {
			// Then its rules stand twice too, which is not worth saying.
			note(s.at, "id", "rule set %s is in %s already", yamltree.Quote(s.id), first)
		} else {
			t.sets[s.id] = home{d.file.Name, s.at}
			t.look(d, s, note)
		}
		if len(invalid.Problems) > 0 {
			found.causes = append(found.causes, invalid)
		}
	}
	return found
}

// look notes the rules of a rule set that stand in another one. What stands
// twice inside of it was said when it was read.
func (t *twice) look(d *document, s ruleSet, note func(at yamltree.Position, place, format string, args ...any)) {
	own := make(map[string]bool, len(s.ruleIDs))
	for _, r := range s.ruleIDs {
		first, taken := t.rules[r.id]
		switch {
		case own[r.id]:
		case taken:
			note(r.at, r.place, "%s is the id of a rule in %s already", yamltree.Quote(r.id), first)
		default:
			t.rules[r.id] = home{d.file.Name, r.at}
			own[r.id] = true
		}
	}
}
