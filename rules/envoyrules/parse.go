package envoyrules

import (
	"cmp"
	"log/slog"
	"slices"

	"github.com/fluxgate/fluxgate/internal/yamltree"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/filerules"
)

// Remark is a [Note] with file and line.
type Remark = filerules.Problem

// Open returns a source of a file, or of a folder of files with one domain each. Notes of
// [Parse] are logged as warnings each time that a file has changed. config is that of
// package filerules, whose Parse is replaced.
func Open(path string, config filerules.Config, log *slog.Logger) (*filerules.Source, error) {
	config.Parse = Parser(func(n Remark) {
		log.Warn("envoyproxy/ratelimit configuration: "+n.Message, "file", n.File, "line", n.Line, "place", n.Place)
	})
	return filerules.Open(path, config)
}

// Parser returns [Parse] in the form of [filerules.Config], with a function that gets the
// notes.
func Parser(note func(Remark)) func(name string, data []byte) ([]*rules.Set, error) {
	return func(name string, data []byte) ([]*rules.Set, error) {
		set, notes, err := Parse(name, data)
		for _, n := range notes {
			note(n)
		}
		if err != nil {
			return nil, err
		}
		return []*rules.Set{set}, nil
	}
}

// Parse converts the text of one file, which has one domain, and returns notes on
// differences from envoyproxy/ratelimit. The error is a [*filerules.Error] with the lines
// of all problems.
func Parse(name string, data []byte) (*rules.Set, []Remark, error) {
	file, flaws := yamltree.Read(name, data)
	switch {
	case len(flaws) > 0:
	case len(file.Documents) == 0:
		flaws = []yamltree.Flaw{{Message: "has no configuration: it must have a domain and descriptors"}}
	case len(file.Documents) > 1:
		second := file.Documents[1].At
		flaws = []yamltree.Flaw{{At: second, Message: "a file can have one document: write the others to files of their own"}}
	}
	var problems []filerules.Problem
	for _, f := range flaws {
		problems = append(problems, file.Problem(f.At, "", f.Message))
	}
	if len(problems) > 0 {
		return nil, nil, filerules.NewError("", problems)
	}
	return parse(file, file.Documents[0])
}

func parse(file *yamltree.File, root *yamltree.Node) (*rules.Set, []Remark, error) {
	var r reader
	domain := r.domain(root)
	c := converter{findings: r.findings}
	var set *rules.Set
	if len(c.problems) == 0 {
		set = c.domain(domain)
	}
	if len(c.problems) > 0 {
		return nil, nil, filerules.NewError(RuleSetID(domain.Domain), locate(file, root, c.problems))
	}
	return set, locate(file, root, c.notes), nil
}

// locate returns notes with their lines, in the order of the file.
func locate(file *yamltree.File, root *yamltree.Node, notes []Note) []filerules.Problem {
	located := make([]filerules.Problem, len(notes))
	for i, n := range notes {
		located[i] = file.Problem(root.LocatePlace(n.Place), n.Place, n.Message)
	}
	slices.SortStableFunc(located, func(a, b filerules.Problem) int { return cmp.Compare(a.Line, b.Line) })
	return located
}
