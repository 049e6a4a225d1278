package yamltree

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode/utf8"
)

// readJSON parses a JSON document with positions. The flaws are duplicate keys, or the
// one that ended the parsing.
func readJSON(text string) (*Node, []Flaw) {
	r := jsonReader{text: text, dec: json.NewDecoder(strings.NewReader(text)), at: Position{Line: 1, Column: 1}}
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
	text   string
	dec    *json.Decoder
	offset int // of at in text
	at     Position
	values int
	flaws  []Flaw
}

// read parses one value.
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
	names := map[string]Position{}
	for r.dec.More() {
		f := Field{At: r.next()}
		if n.Kind == Object {
			name, err := r.dec.Token()
			if err != nil {
				return nil, err
			}
			f.Name, _ = name.(string) // the decoder accepts only strings
			r.flaws = noteDuplicate(r.flaws, names, f)
		}
		if f.Value, err = r.read(depth + 1); err != nil {
			return nil, err
		}
		if n.Kind == Object {
			n.add(f)
		} else {
			n.Items = append(n.Items, f.Value)
		}
	}
	_, err = r.dec.Token() // the closing bracket
	return n, err
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
	return &Flaw{at, "unexpected data after the end of the document"}
}

// next returns where the next token begins.
func (r *jsonReader) next() Position {
	offset := int(r.dec.InputOffset())
	return r.advance(len(r.text) - len(strings.TrimLeft(r.text[offset:], " \t\r\n,:")))
}

// advance moves to an offset.
func (r *jsonReader) advance(offset int) Position {
	for r.offset < min(offset, len(r.text)) {
		_, size := utf8.DecodeRuneInString(r.text[r.offset:])
		if r.at.Column++; r.text[r.offset] == '\n' {
			r.at = Position{Line: r.at.Line + 1, Column: 1}
		}
		r.offset += size
	}
	return r.at
}

// flawOf returns where the parsing ended and why.
func (r *jsonReader) flawOf(err error) Flaw {
	var known *Flaw
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &known):
		return *known
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return Flaw{r.advance(len(r.text)), "the document ends too early"}
	case errors.As(err, &syntax):
		// The offset is after the wrong character.
		return Flaw{r.advance(int(syntax.Offset) - 1), syntax.Error()}
	}
	return Flaw{r.next(), err.Error()}
}
