package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
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
			w.text = append(w.text, separator+yamlScalar(w.token())+":"...)
		}
		w.value(newline+"  ", open == '[')
	}
	w.token() // the end of the block
}

// plainString matches what YAML cannot take for anything but a string, such as
// paths, words and periods, except for the words of reservedWord.
var (
	plainString  = regexp.MustCompile(`^([0-9]+([dhms]|[mun]s)|[A-Za-z/]([A-Za-z0-9_./*@:+-]*[A-Za-z0-9_./*@+-])?( [A-Za-z0-9_./*@+-]+)*)$`)
	reservedWord = regexp.MustCompile(`^(?i)(true|false|yes|no|on|off|y|n|null|inf|nan)$`)
)

// yamlScalar is a string without quotes if that is safe and everything else as
// in JSON.
func yamlScalar(t json.Token) string {
	if s, ok := t.(string); ok && plainString.MatchString(s) && !reservedWord.MatchString(s) {
		return s
	}
	text, _ := jsonText(t) // a scalar has no errors
	return text
}
