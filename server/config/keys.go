package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

// group is a struct of the tree: the keys in it, in the order of its fields.
type group struct {
	path    string // before its keys, "" at the top
	typ     reflect.Type
	entries []*entry
}

// entry is one name in a group: a key, or a group inside.
type entry struct {
	name  string
	path  string // such as redis.pool.max-total
	field int
	typ   reflect.Type
	inner *group // of a group, or of the items of a list of groups

	oneOf    []string
	min, max string
}

// isGroup reports whether the entry is no key itself.
func (e *entry) isGroup() bool { return e.typ.Kind() == reflect.Struct }

// variable is the key's name in the environment.
func (e *entry) variable() string {
	return envPrefix + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(e.path))
}

const envPrefix = "FLUXGATE_"

// tree is the group of the whole configuration.
var tree = sync.OnceValue(func() *group { return groupOf(reflect.TypeFor[Config](), "") })

// leaves are all keys, in the order of the tree.
var leaves = sync.OnceValue(func() []*entry {
	var all []*entry
	var walk func(g *group)
	walk = func(g *group) {
		for _, e := range g.entries {
			if e.isGroup() {
				walk(e.inner)
			} else {
				all = append(all, e)
			}
		}
	}
	walk(tree())
	return all
})

// Key is one setting, for those who list them.
type Key struct {
	// Name is such as redis.pool.max-total.
	Name string
	// Values are those that it can have, if they are few.
	Values []string
}

// Keys are all settings, in the order of the tree.
func Keys() []Key {
	var all []Key
	for _, e := range leaves() {
		k := Key{Name: e.path, Values: slices.Clone(e.oneOf)}
		if e.typ.Kind() == reflect.Bool {
			k.Values = []string{"true", "false"}
		}
		all = append(all, k)
	}
	return all
}

func groupOf(t reflect.Type, path string) *group {
	g := &group{path: path, typ: t}
	for i := range t.NumField() {
		f := t.Field(i)
		name := f.Tag.Get("key")
		if name == "" {
			continue
		}
		e := &entry{name: name, path: join(path, name), field: i, typ: f.Type, min: f.Tag.Get("min"), max: f.Tag.Get("max")}
		if values := f.Tag.Get("oneof"); values != "" {
			e.oneOf = strings.Fields(values)
		}
		switch {
		case f.Type.Kind() == reflect.Struct:
			e.inner = groupOf(f.Type, e.path)
		case f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct:
			e.inner = groupOf(f.Type.Elem(), "")
		}
		g.entries = append(g.entries, e)
	}
	return g
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func (g *group) find(name string) *entry {
	for _, e := range g.entries {
		if e.name == name {
			return e
		}
	}
	return nil
}

func (g *group) names() []string {
	names := make([]string, len(g.entries))
	for i, e := range g.entries {
		names[i] = e.name
	}
	return names
}

// lookup finds what a path such as redis.pool.max-total names. If there is no
// such thing it is the group that the path leads to, and the rest.
func (g *group) lookup(path string) (e *entry, within *group, rest string) {
	name, rest, deeper := strings.Cut(path, ".")
	e = g.find(name)
	switch {
	case e == nil:
		return nil, g, path
	case !deeper:
		return e, g, ""
	case e.isGroup():
		return e.inner.lookup(rest)
	}
	return nil, g, path
}

// value is the field of a key in a configuration.
func (e *entry) value(c *Config) reflect.Value {
	v, g := reflect.ValueOf(c).Elem(), tree()
	for rest := e.path; ; {
		var name string
		name, rest, _ = strings.Cut(rest, ".")
		inner := g.find(name)
		if v = v.Field(inner.field); rest == "" {
			return v
		}
		g = inner.inner
	}
}

var durationType = reflect.TypeFor[time.Duration]()

// wants says what kind of value a key has.
func (e *entry) wants() string {
	switch {
	case e.typ == durationType:
		return "a time such as 30s or 100ms"
	case e.isGroup():
		return "a group of keys: " + strings.Join(e.inner.names(), ", ")
	case len(e.oneOf) > 0 && e.typ.Kind() == reflect.String:
		return "one of " + strings.Join(e.oneOf, ", ")
	case e.typ.Kind() == reflect.Slice && e.inner != nil:
		return "a list of groups with the keys " + strings.Join(e.inner.names(), ", ")
	}
	switch e.typ.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "a list of texts"
	case reflect.Map:
		return "a group of names with a text each, such as {name: text}"
	case reflect.String:
		return "a text"
	}
	panic(fmt.Sprintf("config: key %s has a type that cannot be read", e.path))
}
