package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate/internal/period"
)

// Format is how a configuration is printed.
type Format string

// The formats.
const (
	// YAML is a file that [Load] reads, with a comment at each value that is
	// not left at its default that says where it came from.
	YAML Format = "yaml"
	// JSON is the same without the comments.
	JSON Format = "json"
)

// Print writes the whole configuration, with secrets masked. Without secrets in
// it, what is printed loads as the same configuration.
func (c *Config) Print(w io.Writer, format Format) error {
	var b bytes.Buffer
	p := printer{config: c, out: &b}
	switch format {
	case YAML:
		b.WriteString("fluxgate:\n")
		p.group(tree(), reflect.ValueOf(c).Elem(), "  ")
	case JSON:
		whole := map[string]any{"fluxgate": mapOf(tree(), reflect.ValueOf(c).Elem())}
		data, err := json.MarshalIndent(whole, "", "  ")
		if err != nil {
			return fmt.Errorf("printing the configuration: %w", err)
		}
		b.Write(append(data, '\n'))
	default:
		return fmt.Errorf("printing the configuration: unknown format %q: use yaml or json", format)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// String is the configuration as YAML, so that no log shows a secret.
func (c Config) String() string {
	var b strings.Builder
	_ = c.Print(&b, YAML) // a builder takes everything
	return b.String()
}

// GoString is the same for %#v.
func (c Config) GoString() string { return c.String() }

type printer struct {
	config *Config
	out    *bytes.Buffer
}

// group writes the keys of a group, each in a line of its own.
func (p *printer) group(g *group, v reflect.Value, indent string) {
	for _, e := range g.entries {
		value := v.Field(e.field)
		switch {
		case e.isGroup():
			fmt.Fprintf(p.out, "%s%s:\n", indent, e.name)
			p.group(e.inner, value, indent+"  ")
		case e.inner != nil && value.Len() > 0:
			fmt.Fprintf(p.out, "%s%s:%s\n", indent, e.name, p.comment(e))
			for i := range value.Len() {
				fmt.Fprintf(p.out, "%s  - %s\n", indent, flow(e.inner, value.Index(i)))
			}
		default:
			fmt.Fprintf(p.out, "%s%s: %s%s\n", indent, e.name, written(value), p.comment(e))
		}
	}
}

// comment is where a value came from.
func (p *printer) comment(e *entry) string {
	origin := p.config.Origin(e.path)
	if origin == "" {
		return ""
	}
	return " # " + strings.Trim(strconv.Quote(origin), `"`) // a file may be called anything
}

// flow is a group in one line.
func flow(g *group, v reflect.Value) string {
	fields := make([]string, len(g.entries))
	for i, e := range g.entries {
		fields[i] = e.name + ": " + written(v.Field(e.field))
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

// written is a value as YAML.
func written(v reflect.Value) string {
	switch value := shown(v).(type) {
	case string:
		if v.Type() == durationType {
			return value
		}
		return quoted(value)
	case []any:
		items := make([]string, len(value))
		for i, item := range value {
			items[i] = quoted(fmt.Sprint(item))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case map[string]any:
		return flowPairs(value)
	default:
		return fmt.Sprint(value)
	}
}

// quoted is a text as YAML, without quotes where it needs none.
func quoted(s string) string {
	simple := s != "" && !strings.HasSuffix(s, ":")
	for i, c := range []byte(s) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		// A digit may begin a number, and a time of day or a date.
		simple = simple && (letter || i > 0 && (c >= '0' && c <= '9' || strings.IndexByte("._-/:", c) >= 0) || i == 0 && c == '/')
	}
	switch strings.ToLower(s) {
	case "true", "false", "yes", "no", "on", "off", "null", "y", "n", "nan", "inf":
		simple = false
	}
	if simple {
		return s
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a text can always be written
	return strings.ReplaceAll(strings.TrimSpace(b.String()), "\x7f", `\u007f`)
}

// mapOf is a group as JSON has it.
func mapOf(g *group, v reflect.Value) map[string]any {
	fields := make(map[string]any, len(g.entries))
	for _, e := range g.entries {
		value := v.Field(e.field)
		switch {
		case e.isGroup():
			fields[e.name] = mapOf(e.inner, value)
		case e.inner != nil:
			items := make([]any, value.Len())
			for i := range items {
				items[i] = mapOf(e.inner, value.Index(i))
			}
			fields[e.name] = items
		default:
			fields[e.name] = shown(value)
		}
	}
	return fields
}

// shown is a value without its secrets: a text, a number, true or false, or a
// list of them.
func shown(v reflect.Value) any {
	switch value := v.Interface().(type) {
	case time.Duration:
		return period.Format(value)
	case fmt.Stringer: // what hides a secret
		return value.String()
	}
	switch v.Kind() {
	case reflect.String:
		if s := v.String(); strings.Contains(s, "://") && strings.Contains(s, "@") {
			return URI(s).String() // where none belongs, but perhaps with a password
		}
		return v.String()
	case reflect.Slice:
		items := make([]any, v.Len())
		for i := range items {
			items[i] = shown(v.Index(i))
		}
		return items
	case reflect.Map:
		pairs := make(map[string]any, v.Len())
		for pair := v.MapRange(); pair.Next(); {
			pairs[pair.Key().String()] = shown(pair.Value())
		}
		return pairs
	case reflect.Float64:
		return json.Number(strconv.FormatFloat(v.Float(), 'f', -1, 64))
	}
	return v.Interface()
}
