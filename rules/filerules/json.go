package filerules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// readJSON reads a JSON document with its positions. The flaws are keys that
// stand twice, or the one that ended the reading.
func readJSON(data []byte) (*node, []flaw) {
	r := jsonReader{data: data, dec: json.NewDecoder(bytes.NewReader(data)), at: position{1, 1}}
	r.dec.UseNumber()
	root, err := r.read(0)
	if err == nil {
		err = r.end()
	}
	if err != nil {
		return nil, []flaw{r.flawOf(err)}
	}
	return root, r.flaws
}

type jsonReader struct {
	data   []byte
	dec    *json.Decoder
	offset int // of at in data
	at     position
	values int
	flaws  []flaw
}

// read reads one value.
func (r *jsonReader) read(depth int) (*node, error) {
	n := &node{at: r.next()}
	token, err := r.dec.Token()
	if err != nil {
		return nil, err
	}
	if r.values++; r.values > maxValues {
		return nil, tooManyValues(n.at)
	}
	switch token {
	case json.Delim('['):
		n.kind = list
	case json.Delim('{'):
		n.kind = object
	default:
		n.value = token
		return n, nil
	}
	if depth == maxDepth {
		return nil, tooDeep(n.at)
	}
	if n.kind == object {
		err = r.fields(n, depth)
	} else {
		err = r.items(n, depth)
	}
	if err != nil {
		return nil, err
	}
	_, err = r.dec.Token() // the closing bracket
	return n, err
}

func (r *jsonReader) items(n *node, depth int) error {
	for r.dec.More() {
		item, err := r.read(depth + 1)
		if err != nil {
			return err
		}
		n.items = append(n.items, item)
	}
	return nil
}

func (r *jsonReader) fields(n *node, depth int) error {
	names := map[string]position{}
	for r.dec.More() {
		f := field{at: r.next()}
		name, err := r.dec.Token()
		if err != nil {
			return err
		}
		f.name, _ = name.(string) // the decoder refuses other names
		r.flaws = noteTwice(r.flaws, names, f)
		if f.value, err = r.read(depth + 1); err != nil {
			return err
		}
		n.fields = append(n.fields, f)
	}
	return nil
}

func (r *jsonReader) end() error {
	at := r.next()
	_, err := r.dec.Token()
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	return &flaw{at, "something stands after the end of the document"}
}

// next is where the next token begins.
func (r *jsonReader) next() position {
	r.advance(int(r.dec.InputOffset()))
	for r.offset < len(r.data) && bytes.IndexByte([]byte(" \t\r\n,:"), r.data[r.offset]) >= 0 {
		r.advance(r.offset + 1)
	}
	return r.at
}

// advance moves on to an offset.
func (r *jsonReader) advance(offset int) {
	for r.offset < min(offset, len(r.data)) {
		if r.data[r.offset] == '\n' {
			r.at = position{r.at.line + 1, 1}
			r.offset++
			continue
		}
		_, size := utf8.DecodeRune(r.data[r.offset:])
		r.offset += size
		r.at.column++
	}
}

// flawOf says where the reading ended and why.
func (r *jsonReader) flawOf(err error) flaw {
	var known *flaw
	if errors.As(err, &known) {
		return *known
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		r.advance(len(r.data))
		return flaw{r.at, "the document ends too early"}
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		// The offset is behind what was read, which is the wrong character.
		r.advance(int(syntax.Offset) - 1)
		return flaw{r.at, syntax.Error()}
	}
	return flaw{r.next(), err.Error()}
}

func tooManyValues(at position) *flaw {
	return &flaw{at, fmt.Sprintf("a file can have %d values: split it", maxValues)}
}

func tooDeep(at position) *flaw {
	return &flaw{at, fmt.Sprintf("nested deeper than %d levels", maxDepth)}
}

// noteTwice notes a name that stands twice in an object.
func noteTwice(flaws []flaw, names map[string]position, f field) []flaw {
	if first, twice := names[f.name]; twice && len(flaws) < maxProblems {
		flaws = append(flaws, flaw{f.at, fmt.Sprintf("%s stands here twice, first in line %d", quote(f.name), first.line)})
	}
	names[f.name] = f.at
	return flaws
}
