package filerules

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/fluxgate/fluxgate"
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
	name     string
	text     text
	sets     []ruleSet
	problems []Problem
	causes   []error
}

// ruleSet is one of a file, and where it stands.
type ruleSet struct {
	id       string
	rules    *fluxgate.RuleSet // nil if something is wrong with it
	revision int64
	at       position // of its id
	place    string   // before the places inside of it
	ruleIDs  []ruleID
}

// ruleID is the id of a rule and where it stands.
type ruleID struct {
	id    string
	at    position
	place string
}

// parse reads a file. What is wrong stands in the document.
func parse(name string, data []byte) *document {
	d := &document{name: name}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	if !utf8.Valid(data) {
		d.refuse(flaw{message: "is not UTF-8 text"})
		return d
	}
	content := string(data)
	d.text.lines = strings.Split(content, "\n")
	var roots []*node
	var flaws []flaw
	if strings.EqualFold(filepath.Ext(name), ".json") {
		var root *node
		if root, flaws = readJSON(data); root != nil {
			roots = []*node{root}
		}
	} else {
		roots, flaws = readYAML(content)
	}
	if len(flaws) > 0 {
		d.text.hideAfterFirst()
		d.refuse(flaws...)
		return d
	}
	d.text.hide(roots)
	if len(roots) == 0 {
		d.refuse(flaw{message: "holds no rule set: it must have an id and rules"})
	}
	for _, root := range roots {
		d.read(root)
	}
	return d
}

// read takes the rule sets of one document.
func (d *document) read(root *node) {
	several := root.get("ruleSets")
	if several == nil {
		d.add(root, "")
		return
	}
	for _, f := range root.fields {
		if f.name != "ruleSets" {
			d.refuse(flaw{f.at, quote(f.name) + " cannot stand beside ruleSets"})
		}
	}
	if several.kind != list {
		d.refuse(flaw{several.at, "ruleSets must be a list of rule sets"})
		return
	}
	for i, item := range several.items {
		d.add(item, fmt.Sprintf("ruleSets[%d].", i))
	}
}

// add takes one rule set.
func (d *document) add(n *node, place string) {
	if n.kind != object {
		d.refuse(flaw{n.at, "must be an object with an id and rules"})
		return
	}
	set := d.decode(n, place)
	found := ruleSet{rules: set, at: n.locate("id").at, place: place, ruleIDs: ruleIDs(n)}
	found.id, _ = textOf(n.get("id"))
	if set != nil {
		var err error
		if found.revision, err = revisionOf(set); err != nil {
			d.refuse(flaw{n.at, err.Error()})
		}
	}
	d.sets = append(d.sets, found)
}

// decode makes the rule set, or says why there is none.
func (d *document) decode(n *node, place string) *fluxgate.RuleSet {
	set, err := fluxgate.DecodeRuleSet(n.object())
	var invalid *fluxgate.ValidationError
	switch rules := n.get("rules"); {
	case errors.As(err, &invalid):
		hideKeys(invalid)
	case err != nil:
		d.refuse(flaw{n.at, err.Error()})
		return nil
	case rules == nil || rules.kind != list:
		// A file that ends after the id would otherwise take every rule away.
		invalid = &fluxgate.ValidationError{RuleSetID: set.ID(), Problems: []fluxgate.Problem{
			{Place: "rules", Message: "must be there: write [] for a rule set without rules"},
		}}
	default:
		return set
	}
	for _, p := range invalid.Problems {
		d.refuseAt(n.locateProblem(p), place, p)
	}
	d.causes = append(d.causes, invalid)
	return nil
}

// ruleIDs are the ids of the rules of a rule set, as far as they have any.
func ruleIDs(n *node) []ruleID {
	rules := n.get("rules")
	if rules == nil {
		return nil
	}
	var ids []ruleID
	for i, rule := range rules.items {
		id, ok := textOf(rule.get("id"))
		if !ok {
			id, ok = textOf(rule.get("_id"))
		}
		if ok {
			place := fmt.Sprintf("rules[%d].id", i)
			ids = append(ids, ruleID{id, rule.locate("id").at, place})
		}
	}
	return ids
}

func textOf(n *node) (string, bool) {
	if n == nil {
		return "", false
	}
	s, ok := n.value.(string)
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
func (d *document) refuse(flaws ...flaw) {
	cause := &fluxgate.ValidationError{}
	for _, f := range flaws {
		d.refuseAt(f.at, "", fluxgate.Problem{Message: f.message})
		cause.Problems = append(cause.Problems, fluxgate.Problem{Message: d.name + ": " + f.message})
	}
	d.causes = append(d.causes, cause)
}

// refuseAt notes one problem. The place is that of the rule set in the file.
func (d *document) refuseAt(at position, place string, p fluxgate.Problem) {
	if p.Place != "" {
		p.Place = place + p.Place
	}
	at = d.text.within(at)
	d.problems = append(d.problems, Problem{
		File: d.name, Line: at.line, Column: at.column, Place: p.Place, Message: p.Message, source: d.text.show(at),
	})
}

// hideKeys takes secrets out of messages: one that looks like a number would
// be shown where a text is asked for.
func hideKeys(invalid *fluxgate.ValidationError) {
	for i, p := range invalid.Problems {
		if namesSecret(p.Place) {
			invalid.Problems[i].Message, _, _ = strings.Cut(p.Message, ", not ")
		}
	}
}
