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
	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/internal/yamltree"
)

// Print writes the whole configuration as YAML, with secrets masked. Without secrets, the
// output loads as the same configuration. Each value that is not the default has a comment
// with its origin. asJSON writes JSON instead.
func (c *Config) Print(w io.Writer, asJSON bool) error {
	var b bytes.Buffer
	if asJSON {
		whole := map[string]any{"fluxgate": root().shown(reflect.ValueOf(c).Elem())}
		data, err := json.MarshalIndent(whole, "", "  ")
		if err != nil {
			return fmt.Errorf("printing the configuration: %w", err)
		}
		b.Write(append(data, '\n'))
	} else {
		b.WriteString("fluxgate:\n")
		c.printGroup(&b, root(), "  ")
	}
	_, err := w.Write(b.Bytes())
	return err
}

// String is the configuration as YAML, so that no log shows a secret.
func (c Config) String() string {
	var b strings.Builder
	_ = c.Print(&b, false) // a builder has no errors
	return b.String()
}

// GoString is the same for %#v.
func (c Config) GoString() string { return c.String() }

// printGroup writes the keys of a group as YAML, each in a line of its own with
// a comment that says where its value comes from.
func (c *Config) printGroup(b *bytes.Buffer, g *group, indent string) {
	for _, s := range g.settings {
		if s.isGroup() {
			fmt.Fprintf(b, "%s%s:\n", indent, s.name)
			c.printGroup(b, s.inner, indent+"  ")
			continue
		}
		comment := ""
		if origin := c.Origin(s.path); origin != "" {
			comment = " # " + strings.Trim(strconv.Quote(origin), `"`) // a file may have any name
		}
		value := s.shown(s.in(c))
		items, isList := value.([]any)
		if s.inner == nil || !isList || len(items) == 0 {
			fmt.Fprintf(b, "%s%s: %s%s\n", indent, s.name, flow(value), comment)
			continue
		}
		fmt.Fprintf(b, "%s%s:%s\n", indent, s.name, comment)
		for _, item := range items {
			fmt.Fprintf(b, "%s  - %s\n", indent, flow(item))
		}
	}
}

// flow is a value as YAML in one line: a list or a group of keys as JSON, which is YAML.
func flow(value any) string {
	if text, ok := value.(string); ok {
		return yamltree.Quoted(text)
	}
	text, _ := json.Marshal(value) // it has no types that cannot be written
	return printable.JSON(text, "")
}

// shown is the settings of a group by their names, without secrets. v is the
// struct that their indexes count from.
func (g *group) shown(v reflect.Value) map[string]any {
	fields := make(map[string]any, len(g.settings))
	for _, s := range g.settings {
		if s.isGroup() {
			fields[s.name] = s.inner.shown(v)
		} else {
			fields[s.name] = s.shown(v.FieldByIndex(s.index))
		}
	}
	return fields
}

// shown is a value without secrets, as encoding/json has it.
func (s *setting) shown(v reflect.Value) any {
	switch value := v.Interface().(type) {
	case time.Duration:
		return period.Format(value)
	case fmt.Stringer: // a type that hides a secret
		return value.String()
	}
	switch v.Kind() {
	case reflect.String:
		if text := v.String(); strings.Contains(text, "://") && strings.Contains(text, "@") {
			return URI(text).String() // may hold a password by mistake
		}
		return v.String()
	case reflect.Slice:
		items := make([]any, v.Len())
		for i := range items {
			if s.inner != nil {
				items[i] = s.inner.shown(v.Index(i))
			} else {
				items[i] = s.shown(v.Index(i))
			}
		}
		return items
	case reflect.Map:
		pairs := make(map[string]any, v.Len())
		for pair := v.MapRange(); pair.Next(); {
			pairs[pair.Key().String()] = s.shown(pair.Value())
		}
		return pairs
	case reflect.Float64:
		return json.Number(strconv.FormatFloat(v.Float(), 'f', -1, 64))
	}
	return v.Interface()
}
