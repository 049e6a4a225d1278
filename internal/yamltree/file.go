package yamltree

import (
	"bytes"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// File is what was read from a file.
type File struct {
	// Name is what messages call it.
	Name string
	// Documents are those of a YAML file that are not empty, or the one of a
	// JSON file. There are none where something is wrong with the text.
	Documents []*Node

	text text
}

// Read reads a file, which is JSON if its name ends in .json and YAML
// otherwise. Where it has flaws there are no documents, but the file can still
// show where they are. secret, which may be nil, says of a name or a line
// whether it may have a secret; some are known without it.
func Read(name string, data []byte, secret func(string) bool) (*File, []Flaw) {
	f := &File{Name: name, text: text{isSecret: secret}}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	if !utf8.Valid(data) {
		return f, []Flaw{{Message: "is not UTF-8 text"}}
	}
	content := string(data)
	f.text.lines = strings.Split(content, "\n")
	var documents []*Node
	var flaws []Flaw
	if strings.EqualFold(filepath.Ext(name), ".json") {
		var root *Node
		if root, flaws = readJSON(data); root != nil {
			documents = []*Node{root}
		}
	} else {
		documents, flaws = readYAML(content)
	}
	if len(flaws) > 0 {
		f.text.hideAfterFirst()
		return f, flaws
	}
	f.text.hide(documents)
	f.Documents = documents
	return f, nil
}

// Problem is one thing that is wrong at a position, with the lines around it.
func (f *File) Problem(at Position, place, message string) Problem {
	at = f.text.within(at)
	return Problem{File: f.Name, Line: at.Line, Column: at.Column, Place: place, Message: message, source: f.text.show(at)}
}
