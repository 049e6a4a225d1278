package yamltree

import (
	"bytes"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// File is the content of a file. The zero value is for values without a file.
type File struct {
	// Name is the name in messages.
	Name string
	// Documents are the non-empty documents of a YAML file, or the one of a JSON
	// file. A file with flaws has none.
	Documents []*Node

	excerpt excerpt
}

// Read parses a file, as JSON if its name ends in .json and as YAML otherwise. A file with
// flaws has no documents, but can show the flaws. secret, which may be nil, reports
// whether a name or a line may have a secret, besides those of [NamesSecret].
func Read(name string, data []byte, secret func(string) bool) (*File, []Flaw) {
	f := &File{Name: name, excerpt: excerpt{isSecret: secret}}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	if !utf8.Valid(data) {
		return f, []Flaw{{Message: "is not UTF-8 text"}}
	}
	text := string(data)
	f.excerpt.lines = strings.Split(text, "\n")
	f.excerpt.hidden = make([]bool, len(f.excerpt.lines))
	var documents []*Node
	var flaws []Flaw
	switch converted, notJSON := jsonAsYAML(text); {
	case notJSON == nil:
		documents, flaws = readYAML(converted)
	case strings.EqualFold(filepath.Ext(name), ".json"):
		flaws = []Flaw{*notJSON}
	default:
		documents, flaws = readYAML(text)
	}
	if len(flaws) > 0 {
		f.excerpt.hideAfterFirst()
		return f, flaws
	}
	f.excerpt.hide(documents)
	f.Documents = documents
	return f, nil
}

// Problem returns a problem at a position, with the lines around it if they are in the
// file.
func (f *File) Problem(at Position, place, message string) Problem {
	if at.Source != "" {
		return Problem{File: at.Source, Place: place, Message: message}
	}
	at = f.excerpt.within(at)
	return Problem{File: f.Name, Line: at.Line, Column: at.Column, Place: place, Message: message, excerpt: f.excerpt.show(at)}
}
