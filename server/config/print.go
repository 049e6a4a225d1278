package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate/internal/period"
	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/internal/yamltree"
)

// String is the whole configuration as YAML, with secrets masked. Without secrets it loads as
// the same configuration. Each value that is not the default has a comment with its origin.
func (c Config) String() string {
	var b strings.Builder
	b.WriteString("fluxgate:\n")
	c.printGroup(&b, root(), "  ")
	return b.String()
}

// GoString is the same for %#v.
func (c Config) GoString() string { return c.String() }

// printGroup writes the keys of a group as YAML, each in a line of its own with
// a comment that says where its value comes from.
func (c *Config) printGroup(b *strings.Builder, g group, indent string) {
	for _, s := range g {
		if s.isGroup() {
			fmt.Fprintf(b, "%s%s:\n", indent, s.name)
			c.printGroup(b, s.inner, indent+"  ")
			continue
		}
		comment := ""
		if origin := c.Origin(s.path); origin != "" {
			comment = " # " + strings.Trim(strconv.Quote(origin), `"`) // a file may have any name
		}
		fmt.Fprintf(b, "%s%s: %s%s\n", indent, s.name, flow(s.shown(s.in(c))), comment)
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

// shown is an item of a list of groups: its settings by their names, without secrets.
func (g group) shown(v reflect.Value) map[string]any {
	fields := make(map[string]any, len(g))
	for _, s := range g {
		fields[s.name] = s.shown(v.FieldByIndex(s.index))
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
