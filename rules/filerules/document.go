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
	d := parse(name, data)
	if err := merge([]*document{d}); err != nil {
		return nil, err
	}
	sets := make([]*rules.Set, len(d.sets))
	for i, s := range d.sets {
		sets[i] = s.rules
	}
	return sets, nil
}

// document is the content of one file.
type document struct {
	file     *yamltree.File
	sets     []ruleSet
	problems []Problem
	causes   []error
}

// ruleSet is a rule set in a file.
type ruleSet struct {
	id       string
	rules    *rules.Set // nil if it is invalid
	revision int64
	at       yamltree.Position // of its id
	path     rules.Path        // in the file
}

// parse parses a file. Problems are in the document.
func parse(name string, data []byte) *document {
	file, flaws := yamltree.Read(name, data)
	d := &document{file: file}
	for _, f := range flaws {
		d.refuse(&yamltree.Node{At: f.At}, nil, "", rules.Problem{Code: rules.CodeSyntax, Subject: name, Message: f.Message})
	}
	if len(file.Documents)+len(flaws) == 0 {
		d.refuse(&yamltree.Node{}, nil, "", rules.Problem{
			Code: rules.CodeRequired, Subject: name, Message: "has no rule set: it must have an id and rules",
		})
	}
	for _, root := range file.Documents {
		d.read(root)
	}
	file.Documents = nil // free the memory
	return d
}

// parseWith parses a file by a function.
func parseWith(parse func(string, []byte) ([]*rules.Set, error), name string, data []byte) *document {
	d := &document{file: &yamltree.File{Name: name}}
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
	}
	return d
}

// read adds the rule sets of one YAML or JSON document.
func (d *document) read(root *yamltree.Node) {
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
