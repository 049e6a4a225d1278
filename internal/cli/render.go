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

// formatFlag is a flag with the name of a format. It implements [pflag.Value].
type formatFlag struct {
	format  string
	formats []string
}

func (f *formatFlag) Set(format string) error {
	if !slices.Contains(f.formats, format) {
		return fmt.Errorf("use one of %s", strings.Join(f.formats, ", "))
	}
	f.format = format
	return nil
}

func (f *formatFlag) String() string { return f.format }
func (f *formatFlag) Type() string   { return "format" }

// outputFlag is --output, the format that a command writes in.
type outputFlag struct{ formatFlag }

// flag adds it. The first format is the default.
func (o *outputFlag) flag(cmd *cobra.Command, formats ...string) {
	o.format, o.formats = formats[0], formats
	cmd.Flags().VarP(o, "output", "o", strings.Join(formats, ", "))
}

// write writes a value as JSON or YAML, or calls table, which is only needed if
// that is one of the formats.
func (o *outputFlag) write(out io.Writer, v any, table func(io.Writer)) error {
	switch o.format {
	case asJSON:
		text, err := jsonText(v)
		printf(out, "%s\n", text)
		return err
	case asYAML:
		text, err := yamlText(v)
		printf(out, "%s", text)
		return err
	}
	table(out)
	return nil
}

// jsonText is a value as indented JSON without characters that a terminal obeys.
func jsonText(v any) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return "", fmt.Errorf("writing JSON: %w", err)
	}
	return printable.JSON(bytes.TrimSuffix(b.Bytes(), []byte("\n")), "\n"), nil
}
