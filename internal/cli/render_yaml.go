package cli

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/fluxgate/fluxgate/internal/yamltree"
)

// yamlText is a value as YAML: its JSON, key for key in the same order. Package
// filerules reads the same value again, with strings of any characters and
// numbers of any length.
func yamlText(v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("writing YAML: %w", err)
	}
	w := yamlWriter{from: json.NewDecoder(bytes.NewReader(text))}
	w.from.UseNumber()
	w.value("\n", false)
	return string(w.text[1:]) + "\n", nil // without the separator before the value
}

// yamlWriter turns valid JSON into YAML blocks.
type yamlWriter struct {
	from *json.Decoder
	text []byte
}

// token is the next one of JSON that was just written and has no errors.
func (w *yamlWriter) token() json.Token {
	t, _ := w.from.Token()
	return t
}

// value writes the next value after its separator: a space, or the newline and
// indent of a block. The first entry of a block in a list follows the dash of
// its item.
func (w *yamlWriter) value(newline string, inList bool) {
	t := w.token()
	open, isBlock := t.(json.Delim)
	switch {
	case !isBlock:
		w.text = append(w.text, " "+yamlScalar(t)...)
		return
	case !w.from.More():
		w.text = append(w.text, " "+open.String()+w.token().(json.Delim).String()...)
		return
	}
	for first := true; w.from.More(); first = false {
		separator := newline
		if first && inList {
			separator = " "
		}
		if open == '[' {
			w.text = append(w.text, separator+"-"...)
		} else {
			w.text = append(w.text, separator+yamlKey(w.token(), newline)+":"...)
		}
		w.value(newline+"  ", open == '[')
	}
	w.token() // the end of the block
}

// yamlKey is a key. A long one needs a question mark and a line of its own.
func yamlKey(t json.Token, newline string) string {
	key := yamlScalar(t)
	if len(key) > 1_000 {
		return "? " + key + newline
	}
	return key
}

// yamlScalar is a scalar of JSON as YAML.
func yamlScalar(t json.Token) string {
	if s, ok := t.(string); ok {
		return yamltree.Quoted(s)
	}
	text, _ := jsonText(t) // a scalar has no errors
	return text
}
