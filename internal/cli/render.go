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

// outputFlag is --output, the format that a command writes in. It implements
// [pflag.Value].
type outputFlag struct {
	format  string
	formats []string
}

// flag adds it. The first format is the default.
func (o *outputFlag) flag(cmd *cobra.Command, formats ...string) {
	o.format, o.formats = formats[0], formats
	cmd.Flags().VarP(o, "output", "o", strings.Join(formats, ", "))
}

func (o *outputFlag) Set(format string) error {
	if !slices.Contains(o.formats, format) {
		return fmt.Errorf("use one of %s", strings.Join(o.formats, ", "))
	}
	o.format = format
	return nil
}

func (o *outputFlag) String() string { return o.format }
func (o *outputFlag) Type() string   { return "format" }

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
