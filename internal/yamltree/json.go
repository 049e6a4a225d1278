package yamltree

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
func readJSON(data []byte) (*Node, []Flaw) {
	r := jsonReader{data: data, dec: json.NewDecoder(bytes.NewReader(data)), at: Position{1, 1}}
	r.dec.UseNumber()
	root, err := r.read(0)
	if err == nil {
		err = r.end()
	}
	if err != nil {
		return nil, []Flaw{r.flawOf(err)}
	}
	return root, r.flaws
}

type jsonReader struct {
	data   []byte
	dec    *json.Decoder
	offset int // of at in data
	at     Position
	values int
	flaws  []Flaw
}

// read reads one value.
func (r *jsonReader) read(depth int) (*Node, error) {
	n := &Node{At: r.next()}
	token, err := r.dec.Token()
	if err != nil {
		return nil, err
	}
	if r.values++; r.values > MaxValues {
		return nil, tooManyValues(n.At)
	}
	switch token {
	case json.Delim('['):
		n.Kind = List
	case json.Delim('{'):
		n.Kind = Object
	default:
		n.Value = token
		return n, nil
	}
	if depth == MaxDepth {
		return nil, tooDeep(n.At)
	}
	if n.Kind == Object {
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

func (r *jsonReader) items(n *Node, depth int) error {
	for r.dec.More() {
		item, err := r.read(depth + 1)
		if err != nil {
			return err
		}
		n.Items = append(n.Items, item)
	}
	return nil
}

func (r *jsonReader) fields(n *Node, depth int) error {
	names := map[string]Position{}
	for r.dec.More() {
		f := Field{At: r.next()}
		name, err := r.dec.Token()
		if err != nil {
			return err
		}
		f.Name, _ = name.(string) // the decoder refuses other names
		r.flaws = noteTwice(r.flaws, names, f)
		if f.Value, err = r.read(depth + 1); err != nil {
			return err
		}
		n.Fields = append(n.Fields, f)
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
	return &Flaw{at, "something stands after the end of the document"}
}

// next is where the next token begins.
func (r *jsonReader) next() Position {
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
			r.at = Position{r.at.Line + 1, 1}
			r.offset++
			continue
		}
		_, size := utf8.DecodeRune(r.data[r.offset:])
		r.offset += size
		r.at.Column++
	}
}

// flawOf says where the reading ended and why.
func (r *jsonReader) flawOf(err error) Flaw {
	var known *Flaw
	if errors.As(err, &known) {
		return *known
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		r.advance(len(r.data))
		return Flaw{r.at, "the document ends too early"}
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		// The offset is behind what was read, which is the wrong character.
		r.advance(int(syntax.Offset) - 1)
		return Flaw{r.at, syntax.Error()}
	}
	return Flaw{r.next(), err.Error()}
}

func tooManyValues(at Position) *Flaw {
	return &Flaw{at, fmt.Sprintf("a file can have %d values: split it", MaxValues)}
}

func tooDeep(at Position) *Flaw {
	return &Flaw{at, fmt.Sprintf("nested deeper than %d levels", MaxDepth)}
}

// noteTwice notes a name that stands twice in an object.
func noteTwice(flaws []Flaw, names map[string]Position, f Field) []Flaw {
	if first, twice := names[f.Name]; twice && len(flaws) < maxTwice {
		flaws = append(flaws, Flaw{f.At, fmt.Sprintf("%s stands here twice, first in line %d", Quote(f.Name), first.Line)})
	}
	names[f.Name] = f.At
	return flaws
}
