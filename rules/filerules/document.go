package filerules

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/yamltree"
)

// Parse reads the rule sets of one file, which is JSON if its name ends in
// .json and YAML otherwise. If anything is wrong the error is an [*Error] that
// has all of it.
func Parse(name string, data []byte) ([]*fluxgate.RuleSet, error) {
	d := parse(name, data)
	if err := merge([]*document{d}); err != nil {
		return nil, err
	}
	sets := make([]*fluxgate.RuleSet, len(d.sets))
	for i, s := range d.sets {
		sets[i] = s.rules
	}
	return sets, nil
}

// document is what was read from one file.
type document struct {
	file     *yamltree.File
	sets     []ruleSet
	problems []Problem
	causes   []error
}

// ruleSet is one of a file, and where it stands.
type ruleSet struct {
	id       string
	rules    *fluxgate.RuleSet // nil if something is wrong with it
	revision int64
	at       yamltree.Position // of its id
	place    string            // before the places inside of it
}

// parse reads a file. What is wrong stands in the document.
func parse(name string, data []byte) *document {
	file, flaws := yamltree.Read(name, data, nil)
	d := &document{file: file}
	if len(flaws) > 0 {
		d.refuse(flaws...)
		return d
	}
	if len(file.Documents) == 0 {
		d.refuse(yamltree.Flaw{Message: "holds no rule set: it must have an id and rules"})
	}
	for _, root := range file.Documents {
		d.read(root)
	}
	file.Documents = nil // they are large, and needed no more
	return d
}

// read takes the rule sets of one document.
func (d *document) read(root *yamltree.Node) {
	several := root.Get("ruleSets")
	if several == nil {
		d.add(root, "")
		return
	}
	for _, f := range root.Fields {
		if f.Name != "ruleSets" {
			d.refuse(yamltree.Flaw{At: f.At, Message: yamltree.Quote(f.Name) + " cannot stand beside ruleSets"})
		}
	}
	if several.Kind != yamltree.List {
		d.refuse(yamltree.Flaw{At: several.At, Message: "ruleSets must be a list of rule sets"})
		return
	}
	for i, item := range several.Items {
		d.add(item, fmt.Sprintf("ruleSets[%d].", i))
	}
}

// add takes one rule set.
func (d *document) add(n *yamltree.Node, place string) {
	if n.Kind != yamltree.Object {
		d.refuse(yamltree.Flaw{At: n.At, Message: "must be an object with an id and rules"})
		return
	}
	set := d.decode(n, place)
	found := ruleSet{rules: set, at: n.Locate("id", otherNames).At, place: place}
	found.id, _ = textOf(n.Get("id"))
	if set != nil {
		var err error
		if found.revision, err = revisionOf(set); err != nil {
			d.refuse(yamltree.Flaw{At: n.At, Message: err.Error()})
		}
	}
	d.sets = append(d.sets, found)
}

// decode makes the rule set, or says why there is none.
func (d *document) decode(n *yamltree.Node, place string) *fluxgate.RuleSet {
	set, err := fluxgate.DecodeRuleSet(n.Map())
	var invalid *fluxgate.ValidationError
	switch rules := n.Get("rules"); {
	case errors.As(err, &invalid):
		hideKeys(invalid)
	case err != nil:
		d.refuse(yamltree.Flaw{At: n.At, Message: err.Error()})
		return nil
	case rules == nil || rules.Kind != yamltree.List:
		// A file that ends after the id would otherwise take every rule away.
		invalid = &fluxgate.ValidationError{RuleSetID: set.ID(), Problems: []fluxgate.Problem{
			{Place: "rules", Message: "must be there: write [] for a rule set without rules"},
		}}
	default:
		return set
	}
	for _, p := range invalid.Problems {
		d.refuseAt(locate(n, p), place, p)
	}
	d.causes = append(d.causes, invalid)
	return nil
}

func textOf(n *yamltree.Node) (string, bool) {
	if n == nil {
		return "", false
	}
	s, ok := n.Value.(string)
	return s, ok && s != ""
}

// revisionOf is made from what the rule set says, in 48 bits, never 0.
func revisionOf(set *fluxgate.RuleSet) (int64, error) {
	canonical, err := json.Marshal(set)
	if err != nil {
		return 0, fmt.Errorf("writing rule set %q as JSON: %w", set.ID(), err)
	}
	sum := sha256.Sum256(canonical)
	return max(int64(binary.BigEndian.Uint64(sum[:8])>>16), 1), nil
}

// refuse notes what is wrong with the text of the file.
func (d *document) refuse(flaws ...yamltree.Flaw) {
	cause := &fluxgate.ValidationError{}
	for _, f := range flaws {
		d.refuseAt(f.At, "", fluxgate.Problem{Message: f.Message})
		cause.Problems = append(cause.Problems, fluxgate.Problem{Message: d.file.Name + ": " + f.Message})
	}
	d.causes = append(d.causes, cause)
}

// refuseAt notes one problem. The place is that of the rule set in the file.
func (d *document) refuseAt(at yamltree.Position, place string, p fluxgate.Problem) {
	if p.Place != "" {
		p.Place = place + p.Place
	}
	d.problems = append(d.problems, d.file.Problem(at, p.Place, p.Message))
}

// hideKeys takes secrets out of messages: one that looks like a number would
// be shown where a text is asked for.
func hideKeys(invalid *fluxgate.ValidationError) {
	for i, p := range invalid.Problems {
		if yamltree.NamesSecret(p.Place) {
			invalid.Problems[i].Message, _, _ = strings.Cut(p.Message, ", not ")
		}
	}
}
