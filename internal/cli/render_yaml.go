package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"

	"github.com/goccy/go-yaml/token"
)

// writeYAML writes a value as YAML: what its JSON says, key for key in that
// order. What it writes is read by package filerules as the same again, texts
// of any characters and numbers of any length included.
func writeYAML(out io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("writing YAML: %w", err)
	}
	w := yamlWriter{from: json.NewDecoder(bytes.NewReader(text)), out: bufio.NewWriter(out)}
	w.from.UseNumber()
	if err := w.value("", ""); err != nil {
		return fmt.Errorf("writing YAML: %w", err)
	}
	return w.out.Flush()
}

// yamlWriter turns JSON into YAML in blocks. The library's own writer leaves
// texts without quotes that its reader takes for something else.
type yamlWriter struct {
	from *json.Decoder
	out  *bufio.Writer
}

// value writes the next value. Its lines begin with the indent; before is what
// it stands behind in its line: nothing, a key's colon or the dash of an item.
func (w *yamlWriter) value(indent, before string) error {
	t, err := w.from.Token()
	if err != nil {
		return err
	}
	open, isBlock := t.(json.Delim)
	if !isBlock {
		return w.scalar(t, before)
	}
	if !w.from.More() {
		if _, err := w.from.Token(); err != nil {
			return err
		}
		return w.line(before, open.String()+string(open+2)) // the one that closes it
	}
	for first := true; w.from.More(); first = false {
		if err := w.begin(indent, before, first); err != nil {
			return err
		}
		if open == '[' {
			_ = w.out.WriteByte('-') // Flush has the error
			err = w.value(indent+"  ", "-")
		} else {
			err = w.field(indent)
		}
		if err != nil {
			return err
		}
	}
	_, err = w.from.Token() // that closes it
	return err
}

// begin is what stands before an entry in its line.
func (w *yamlWriter) begin(indent, before string, first bool) error {
	switch {
	case first && before == "-":
		indent = " "
	case first && before == ":":
		indent = "\n" + indent
	}
	_, err := w.out.WriteString(indent)
	return err
}

func (w *yamlWriter) field(indent string) error {
	key, err := w.from.Token()
	if err != nil {
		return err
	}
	text, err := yamlText(key.(string))
	if err != nil {
		return err
	}
	_, _ = w.out.WriteString(text + ":") // Flush has the error
	return w.value(indent+"  ", ":")
}

func (w *yamlWriter) scalar(t json.Token, before string) error {
	text := "null"
	switch v := t.(type) {
	case string:
		var err error
		if text, err = yamlText(v); err != nil {
			return err
		}
	case json.Number:
		text = v.String()
	case bool:
		text = fmt.Sprint(v)
	}
	return w.line(before, text)
}

func (w *yamlWriter) line(before, text string) error {
	if before != "" {
		text = " " + text
	}
	_, err := w.out.WriteString(text + "\n")
	return err
}

// plainText is what can never be anything but a text, unless the library
// knows it for a word such as true. Periods are such.
var plainText = regexp.MustCompile(`^([0-9]+([dhms]|[mun]s)|[A-Za-z/][A-Za-z0-9_./*@:+-]*( [A-Za-z0-9_./*@+-]+)*)$`)

// yamlText is a text without quotes if that is safe, and else as JSON has it.
func yamlText(s string) (string, error) {
	if plainText.MatchString(s) && !token.IsNeedQuoted(s) {
		return s, nil
	}
	quoted, err := jsonText(s, "")
	return string(quoted), err
}
