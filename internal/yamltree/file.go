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
}

// Read parses a file, as JSON if its name ends in .json and as YAML otherwise. A file with
// flaws has no documents.
func Read(name string, data []byte) (*File, []Flaw) {
	f := &File{Name: name}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	if !utf8.Valid(data) {
		return f, []Flaw{{Message: "is not UTF-8 text"}}
	}
	text := string(data)
	var flaws []Flaw
	switch converted, notJSON := jsonAsYAML(text); {
	case notJSON == nil:
		f.Documents, flaws = readYAML(converted)
	case strings.EqualFold(filepath.Ext(name), ".json"):
		flaws = []Flaw{*notJSON}
	default:
		f.Documents, flaws = readYAML(text)
	}
	if len(flaws) > 0 {
		f.Documents = nil
	}
	return f, flaws
}

// Problem returns a problem at a position.
func (f *File) Problem(at Position, place, message string) Problem {
	if at.Source != "" {
		return Problem{File: at.Source, Place: place, Message: message}
	}
	return Problem{File: f.Name, Line: at.Line, Column: at.Column, Place: place, Message: message}
}
