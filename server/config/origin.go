package config

import (
	"fmt"
	"strings"

	"github.com/fluxgate/fluxgate/internal/yamltree"
)

// origin is what a configuration was decoded from.
type origin struct {
	file *yamltree.File // without a name if there is none
	tree *yamltree.Node // the values that are not left at their defaults
}

// Origin returns where the value of a key such as redis.uri comes from: file:line, the
// name of a variable, or --set with the name of the key. It is empty for a default
// value.
func (c *Config) Origin(key string) string {
	if c.from == nil {
		return ""
	}
	var at yamltree.Position
	n := c.from.tree
	for name := range strings.SplitSeq(key, ".") {
		f := n.Field(name)
		if f == nil {
			return ""
		}
		at, n = f.At, f.Value
	}
	if at.Source != "" {
		return at.Source
	}
	return fmt.Sprintf("%s:%d", c.from.file.Name, at.Line)
}

// File returns the name of the file that was read. It is empty if no file was read.
func (c *Config) File() string {
	if c.from == nil {
		return ""
	}
	return c.from.file.Name
}

// problem is a problem with the value at a place such as
// ratelimit.trusted-proxies[1], shown where that was written.
func (c *Config) problem(place, message string) Problem {
	if key, _, _ := strings.Cut(place, "["); !c.isSet(key) {
		return Problem{Place: place, Message: message}
	}
	return c.from.file.Problem(c.from.tree.LocatePlace(place), place, message)
}

// isSet reports whether a key was given a value.
func (c *Config) isSet(key string) bool { return c.Origin(key) != "" }
