package config

import (
	"fmt"
	"strings"

	"github.com/fluxgate/fluxgate/internal/yamltree"
)

// origin says where values come from. The zero value knows of none.
type origin struct {
	file *yamltree.File
	at   map[string]yamltree.Position // by place, such as ratelimit.trusted-proxies[1]
}

// Origin returns where the value of a key such as redis.uri comes from: file:line, the
// name of a variable, or --set with the name of the key. It is empty for a default
// value.
func (c *Config) Origin(key string) string {
	at, set := c.from.at[key]
	if set && at.Source == "" {
		return fmt.Sprintf("%s:%d", c.from.file.Name, at.Line)
	}
	return at.Source
}

// File returns the name of the file that was read. It is empty if no file was read.
func (c *Config) File() string {
	if c.from.file == nil {
		return ""
	}
	return c.from.file.Name
}

// problem is a problem with the value at a place, or around it, shown where that was written.
func (o *origin) problem(place, message string) Problem {
	for around := place; around != ""; around = around[:max(0, strings.LastIndexAny(around, ".["))] {
		if at, known := o.at[around]; known {
			return o.file.Problem(at, place, message)
		}
	}
	return Problem{Place: place, Message: message}
}

// isSet reports whether a key was given a value.
func (c *Config) isSet(key string) bool { return c.Origin(key) != "" }
