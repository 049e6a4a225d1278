// Package strictjson reads JSON as our YAML is read: a name must not be there twice in an object,
// because the value that a reader of the text sees first would be ignored, and errors have
// positions.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// SyntaxError is a text that is not one JSON value.
type SyntaxError struct {
	Line, Column int
	Message      string
}

// Error returns the position and the message. It shows no more of the text than a character.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// Duplicate is a name that an object has already.
type Duplicate struct {
	Path         []any // names and positions in lists
	Line, Column int   // after the name
	Message      string
}

// DuplicateError has the duplicate names of a text, or the first of them.
type DuplicateError struct{ Names []Duplicate }

// Error names the first one. Names may be secrets, such as API keys, and are not shown.
func (e *DuplicateError) Error() string {
	return "a name " + e.Names[0].Message
}

// maxDuplicates is how many duplicate names are reported.
const maxDuplicates = 100

// Object reads a text that is one object, with numbers as [json.Number]. The error is a
// [*SyntaxError], or a [*DuplicateError] beside the object with the last of the values.
func Object(text []byte) (map[string]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var tree map[string]any
	if err := decoder.Decode(&tree); err != nil {
		return nil, syntaxError(text, decoder.InputOffset(), err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, syntaxError(text, decoder.InputOffset(), errors.New("unexpected data after the JSON value"))
	}
	if tree == nil {
		return nil, syntaxError(text, 0, errors.New("must be an object, not null"))
	}
	if countNames(text) != namesIn(tree) {
		return tree, findDuplicates(text)
	}
	return tree, nil
}

// Check returns a [*DuplicateError] if an object of a JSON text has a name twice.
func Check(text []byte) error {
	var tree any
	if valid := json.Unmarshal(text, &tree) == nil; valid && countNames(text) != namesIn(tree) {
		return findDuplicates(text)
	}
	return nil
}

func syntaxError(text []byte, offset int64, err error) error {
	var syntax *json.SyntaxError
	var wrongType *json.UnmarshalTypeError
	message := err.Error()
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset - 1
	case errors.As(err, &wrongType):
		offset, message = 0, "must be an object"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		offset, message = int64(len(text)), "unexpected end of JSON input"
	}
	line, column := position(text, offset)
	return &SyntaxError{Line: line, Column: column, Message: message}
}

// position returns the line and the column, in characters, of an offset.
func position(text []byte, offset int64) (line, column int) {
	before := text[:max(0, min(offset, int64(len(text))))]
	start := bytes.LastIndexByte(before, '\n') + 1
	return bytes.Count(before, []byte("\n")) + 1, utf8.RuneCount(before[start:]) + 1
}

// countNames returns how many names the objects of a valid text have: as many as colons.
func countNames(text []byte) (n int) {
	inside := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inside && c == '\\':
			i++
		case c == '"':
			inside = !inside
		case !inside && c == ':':
			n++
		}
	}
	return n
}

// namesIn returns how many of them a reader has kept.
func namesIn(tree any) (n int) {
	switch v := tree.(type) {
	case map[string]any:
		n = len(v)
		for _, value := range v {
			n += namesIn(value)
		}
	case []any:
		for _, value := range v {
			n += namesIn(value)
		}
	}
	return n
}

// level is an object or a list that is being read.
type level struct {
	lines map[string]int // of the names of an object; nil for a list
	name  string
	named bool // the value of the name is next
	index int
}

// findDuplicates reads the text again. It takes longer than the first time.
func findDuplicates(text []byte) error {
	decoder, found := json.NewDecoder(bytes.NewReader(text)), &DuplicateError{}
	decoder.UseNumber()
	var open []level
	line, counted := 1, 0 // how far lines are counted
	for len(found.Names) < maxDuplicates {
		token, err := decoder.Token()
		if err != nil {
			break // the end
		}
		if token == json.Delim('}') || token == json.Delim(']') {
			open = open[:len(open)-1]
			continue
		}
		if n := len(open); n > 0 {
			top := &open[n-1]
			switch name, isText := token.(string); {
			case top.lines == nil:
				top.index++
			case !top.named && isText:
				end := int(decoder.InputOffset()) - 1
				line, counted = line+bytes.Count(text[counted:end], []byte("\n")), end
				top.name, top.named = name, true
				if first, twice := top.lines[name]; twice {
					_, column := position(text, int64(end))
					found.Names = append(found.Names, Duplicate{pathOf(open), line, column,
						fmt.Sprintf("is there twice: in line %d, column %d, and first in line %d", line, column, first)})
				} else {
					top.lines[strings.Clone(name)] = line
				}
				continue
			default:
				top.named = false
			}
		}
		switch token {
		case json.Delim('{'):
			open = append(open, level{lines: map[string]int{}})
		case json.Delim('['):
			open = append(open, level{index: -1})
		}
	}
	if len(found.Names) == 0 {
		return nil
	}
	return found
}

func pathOf(open []level) (path []any) {
	for _, l := range open {
		if l.lines != nil {
			path = append(path, l.name)
		} else {
			path = append(path, l.index)
		}
	}
	return path
}
