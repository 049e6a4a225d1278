package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/spf13/cobra"
)

// The formats of --output.
const (
	asTable = "table"
	asJSON  = "json"
	asYAML  = "yaml"
)

// output is the format that a command writes in.
type output struct {
	format  string
	formats []string
}

// flag adds --output. The first of the formats is the default.
func (o *output) flag(cmd *cobra.Command, formats ...string) {
	o.format, o.formats = formats[0], formats
	cmd.Flags().VarP(o, "output", "o", o.words())
}

func (o *output) words() string {
	last := len(o.formats) - 1
	return strings.Join(o.formats[:last], ", ") + " or " + o.formats[last]
}

// Set, String and Type make it a flag.
func (o *output) Set(format string) error {
	if !slices.Contains(o.formats, format) {
		return fmt.Errorf("use %s", o.words())
	}
	o.format = format
	return nil
}

func (o *output) String() string { return o.format }

// Type implements [pflag.Value].
func (o *output) Type() string { return "format" }

// write writes a value as JSON or YAML, or has table write it.
func (o *output) write(out io.Writer, v any, table func(io.Writer) error) error {
	switch o.format {
	case asJSON:
		return writeJSON(out, v)
	case asYAML:
		return writeYAML(out, v)
	}
	return table(out)
}

func writeJSON(out io.Writer, v any) error {
	text, err := jsonText(v, "")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", text)
	return err
}

// jsonText is a value as JSON that people read. All lines but the first begin
// with the indent.
func jsonText(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent(indent, "  ")
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("writing JSON: %w", err)
	}
	return []byte(printable.JSON(bytes.TrimSuffix(b.Bytes(), []byte("\n")), "\n")), nil
}

// listing writes a list of any length one item after the other.
type listing struct {
	out    io.Writer
	format string
	table  *table
	length int
}

func (o *output) list(out io.Writer, columns ...string) *listing {
	return &listing{out: out, format: o.format, table: newTable(out, columns...)}
}

// add writes one item: a value for programs, and the cells of its row.
func (l *listing) add(v any, cells ...any) error {
	l.length++
	switch l.format {
	case asJSON:
		text, err := jsonText(v, "  ")
		if err != nil {
			return err
		}
		before := ",\n  "
		if l.length == 1 {
			before = "[\n  "
		}
		_, err = fmt.Fprintf(l.out, "%s%s", before, text)
		return err
	case asYAML:
		return writeYAML(l.out, []any{v})
	}
	l.table.row(cells...)
	return nil
}

// flush writes what was added. What comes later has columns of its own width,
// so that no list has to be kept whole.
func (l *listing) flush() error { return l.table.flush() }

// end ends the list. If nothing is in it a person is told so.
func (l *listing) end(nothing string) error {
	var err error
	switch {
	case l.format == asTable && l.length == 0:
		_, err = fmt.Fprintln(l.out, nothing)
	case l.format == asTable:
		err = l.flush()
	case l.length == 0:
		_, err = fmt.Fprintln(l.out, "[]")
	case l.format == asJSON:
		_, err = fmt.Fprint(l.out, "\n]\n")
	}
	return err
}
