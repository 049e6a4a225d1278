package config

import (
	"fmt"
	"strings"

	"github.com/fluxgate/fluxgate/internal/yamltree"
)

// provenance is where the values of a configuration came from.
type provenance struct {
	file *yamltree.File // nil if there is none
	root *yamltree.Node // what stands below fluxgate in it
	// origins are those of the keys that are not left at their defaults.
	origins map[string]origin
}

// origin is where the value of one key was said.
type origin struct {
	// name is that of the variable or the assignment. It is empty for the file.
	name string
	line int // in the file
}

// Origin is where the value of a key such as redis.uri was said: file:line, the
// name of a variable, or --set with the name of the key. It is empty for a key
// at its default.
func (c *Config) Origin(key string) string {
	if c.from == nil {
		return ""
	}
	switch o, said := c.from.origins[key]; {
	case !said:
		return ""
	case o.name != "":
		return o.name
	default:
		return fmt.Sprintf("%s:%d", c.from.file.Name, o.line)
	}
}

// File is the name of the file that was read, empty if there was none.
func (c *Config) File() string {
	if c.from == nil || c.from.file == nil {
		return ""
	}
	return c.from.file.Name
}

// problem is something wrong with the value at a place, such as
// ratelimit.trusted-proxies[1], shown where it was said.
func (c *Config) problem(place, message string) Problem {
	if c.from == nil {
		return Problem{Place: place, Message: message}
	}
	key, _, _ := strings.Cut(place, "[")
	switch o, said := c.from.origins[key]; {
	case !said:
		return Problem{Place: place, Message: message}
	case o.name != "":
		return Problem{File: o.name, Place: place, Message: message}
	default:
		return c.from.file.Problem(c.from.root.Locate(place, nil).At, place, message)
	}
}

// said reports whether a key was given a value at all.
func (c *Config) said(key string) bool { return c.Origin(key) != "" }
