package filerules

import (
	"errors"
	"slices"

	"github.com/fluxgate/fluxgate/internal/yamltree"
	"github.com/fluxgate/fluxgate/rules"
)

// Parse parses the rule sets of one file, as JSON if its name ends in .json and
// as YAML otherwise. It returns an [*Error] with all problems.
func Parse(name string, data []byte) ([]*rules.Set, error) {
	d := newDocument(name, false)
	d.read(data, nil)
	if err := merge([]*document{d}); err != nil {
		return nil, err
	}
	return d.ruleSets(), nil
}

// ParseWarned is [Parse], and returns the warnings of the rule sets ([rules.Set.Warnings]) with
// their positions. parse parses another format, whose warnings have no positions, and can be nil.
func ParseWarned(
	name string, data []byte, parse func(name string, data []byte) ([]*rules.Set, error),
) ([]*rules.Set, []Problem, error) {
	d := newDocument(name, true)
	d.read(data, parse)
	if err := merge([]*document{d}); err != nil {
		return nil, nil, err
	}
	return d.ruleSets(), d.warnings, nil
}

// document is the content of one file.
type document struct {
	file     *yamltree.File
	sets     []ruleSet
	problems []Problem
	causes   []error
	// warns is whether to look for warnings.
	warns    bool
	warnings []Problem
}

// ruleSet is a rule set in a file.
type ruleSet struct {
	id       string
	rules    *rules.Set // nil if it is invalid
	revision int64
	at       yamltree.Position // of its id
	path     rules.Path        // in the file
}

func newDocument(name string, warns bool) *document {
	return &document{file: &yamltree.File{Name: name}, warns: warns}
}

// ruleSets returns the rule sets of a document without problems.
func (d *document) ruleSets() []*rules.Set {
	sets := make([]*rules.Set, len(d.sets))
	for i, s := range d.sets {
		sets[i] = s.rules
	}
	return sets
}

// read parses a file, by a function if it is of another format. Problems are in the document.
func (d *document) read(data []byte, parse func(string, []byte) ([]*rules.Set, error)) {
	if parse != nil {
		d.parseWith(parse, data)
		return
	}
	name := d.file.Name
	file, flaws := yamltree.Read(name, data)
	d.file = file
	for _, f := range flaws {
		d.refuse(&yamltree.Node{At: f.At}, nil, "", rules.Problem{Code: rules.CodeSyntax, Subject: name, Message: f.Message})
	}
	if len(file.Documents)+len(flaws) == 0 {
		d.refuse(&yamltree.Node{}, nil, "", rules.Problem{
			Code: rules.CodeRequired, Subject: name, Message: "has no rule set: it must have an id and rules",
		})
	}
	for _, root := range file.Documents {
		d.addAll(root)
	}
	file.Documents = nil // free the memory
}

// parseWith parses a file by a function.
func (d *document) parseWith(parse func(string, []byte) ([]*rules.Set, error), data []byte) {
	name := d.file.Name
	sets, err := parse(name, data)
	var known *Error
	switch {
	case errors.As(err, &known):
		d.problems, d.causes = known.Problems, known.causes
	case err != nil:
		d.refuse(&yamltree.Node{}, nil, "", rules.Problem{Code: rules.CodeInvalidValue, Subject: name, Message: err.Error()})
	}
	for _, set := range sets {
		revision, err := rules.ContentRevision(set)
		if err != nil {
			d.refuse(&yamltree.Node{}, nil, set.ID(), rules.Problem{Code: rules.CodeUnsupported, Message: err.Error()})
		}
		d.sets = append(d.sets, ruleSet{id: set.ID(), rules: set, revision: revision})
		d.warn(&yamltree.Node{}, nil, set)
	}
}

// addAll adds the rule sets of one YAML or JSON document.
func (d *document) addAll(root *yamltree.Node) {
	several := root.Get("ruleSets")
	if several == nil {
		d.add(root, nil)
		return
	}
	for _, f := range root.Fields {
		if f.Name != "ruleSets" {
			d.refuse(root, nil, "", rules.Problem{
				Code: rules.CodeUnknownField, Path: rules.Path{f.Name}, Message: "is not possible beside ruleSets",
			})
		}
	}
	if several.Kind != yamltree.List {
		d.refuse(root, nil, "", rules.Problem{
			Code: rules.CodeWrongType, Path: rules.Path{"ruleSets"}, Message: "must be a list of rule sets",
		})
	}
	for i, item := range several.Items {
		d.add(item, rules.Path{"ruleSets", i})
	}
}

// add adds one rule set.
func (d *document) add(n *yamltree.Node, path rules.Path) {
	if n.Kind != yamltree.Object {
		d.refuse(n, path, "", rules.Problem{Code: rules.CodeWrongType, Message: "must be an object with an id and rules"})
		return
	}
	found := ruleSet{at: locate(n, rules.Problem{Path: rules.Path{"id"}}), path: path}
	if id := n.Get("id"); id != nil {
		found.id, _ = id.Value.(string)
	}
	set, err := rules.DecodeFile(n.Map())
	if err == nil {
		found.revision, err = rules.ContentRevision(set)
	}
	var invalid *rules.ValidationError
	switch {
	case errors.As(err, &invalid):
		d.refuse(n, path, found.id, invalid.Problems...)
	case err != nil:
		d.refuse(n, path, found.id, rules.Problem{Code: rules.CodeUnsupported, Message: err.Error()})
	default:
		found.rules = set
		d.warn(n, path, set)
	}
	d.sets = append(d.sets, found)
}

// refuse adds problems of a rule set, or of a file, which has no id. The path
// is that of the node.
func (d *document) refuse(n *yamltree.Node, path rules.Path, id string, problems ...rules.Problem) {
	for _, p := range problems {
		place := ""
		if len(p.Path) > 0 {
			place = append(slices.Clip(path), p.Path...).String()
		}
		d.problems = append(d.problems, d.file.Problem(locate(n, p), place, p.Message))
	}
	d.causes = append(d.causes, &rules.ValidationError{RuleSetID: id, Problems: problems})
}

// warn adds the warnings of a rule set at a node, whose path is given. Without positions they name
// the rule set.
func (d *document) warn(n *yamltree.Node, path rules.Path, set *rules.Set) {
	if !d.warns {
		return
	}
	prefix := "warning: "
	if len(n.Fields) == 0 {
		prefix += "rule set " + set.ID() + ": "
	}
	found := set.Warnings()
	var list yamltree.ErrorList
	for _, w := range found.List {
		at := locate(n, rules.Problem{Path: w.Path})
		text := w.Text()
		if at.Line > 0 {
			text = append(slices.Clip(path), w.Path...).String() + ": " + text
		}
		list.Problems = append(list.Problems, d.file.Problem(at, "", prefix+text))
	}
	list.Sort()
	d.warnings = append(d.warnings, list.Problems...)
	for _, line := range found.Lines() {
		d.warnings = append(d.warnings, d.file.Problem(yamltree.Position{}, "", prefix+line))
	}
}
