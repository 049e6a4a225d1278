package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

// group has the settings of a struct, in the order of its fields.
type group []*setting

// setting is one name in a group: a key, or a group of keys.
type setting struct {
	name  string
	path  string // such as redis.pool.max-total
	index []int  // of the field in the configuration, or in the item of a list
	typ   reflect.Type
	inner group // of a group, or of the items of a list of groups

	oneOf    []string
	is       string // one of forms, "" for any string
	required bool   // must not be empty
	unique   bool   // among the items of a list
	min, max string // as written, "" for none
	initial  string // the default, as in the environment
}

// isGroup reports whether the setting is a group of keys.
func (s *setting) isGroup() bool { return s.typ.Kind() == reflect.Struct }

// in is the field of a configuration that holds the value.
func (s *setting) in(c *Config) reflect.Value { return reflect.ValueOf(c).Elem().FieldByIndex(s.index) }

const envPrefix = "FLUXGATE_"

// variable is the environment variable of the key.
func (s *setting) variable() string {
	return envPrefix + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(s.path))
}

// root is the group of the whole configuration.
var root = sync.OnceValue(func() group { return groupOf(reflect.TypeFor[Config](), "", nil) })

// keys are all settings but the groups, in the order of the configuration.
var keys = sync.OnceValue(func() []*setting { return root().keys(nil) })

func (g group) keys(all []*setting) []*setting {
	for _, s := range g {
		if s.isGroup() {
			all = s.inner.keys(all)
		} else {
			all = append(all, s)
		}
	}
	return all
}

func groupOf(t reflect.Type, path string, index []int) (g group) {
	for i := range t.NumField() {
		f := t.Field(i)
		name := f.Tag.Get("key")
		if name == "" {
			continue
		}
		s := &setting{
			name: name, path: join(path, name), index: append(slices.Clone(index), i), typ: f.Type,
			oneOf: strings.Fields(f.Tag.Get("oneof")), is: f.Tag.Get("is"),
			required: f.Tag.Get("required") != "", unique: f.Tag.Get("unique") != "",
			min: f.Tag.Get("min"), max: f.Tag.Get("max"), initial: f.Tag.Get("default"),
		}
		switch {
		case s.isGroup():
			s.inner = groupOf(f.Type, s.path, s.index)
		case f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct:
			s.inner = groupOf(f.Type.Elem(), "", nil)
		}
		g = append(g, s)
	}
	return g
}

// bound is a bound of a number or a time, which a tag has.
func (s *setting) bound(text string) float64 {
	v := reflect.New(s.typ).Elem()
	if !parse(v, text) {
		panic(fmt.Sprintf("config: %s has the bound %q", s.path, text))
	}
	return number(v)
}

// number is a number or a time. All bounds can be compared exactly as float64.
func number(v reflect.Value) float64 {
	if v.CanFloat() {
		return v.Float()
	}
	return float64(v.Int())
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// find returns the setting with a name in the group, or nil.
func (g group) find(name string) *setting {
	for _, s := range g {
		if s.name == name {
			return s
		}
	}
	return nil
}

func (g group) names() []string {
	names := make([]string, len(g))
	for i, s := range g {
		names[i] = s.name
	}
	return names
}

// paths are those of all keys.
func paths() (all []string) {
	for _, s := range keys() {
		all = append(all, s.path)
	}
	return all
}

// keyOf returns the key with a path such as redis.pool.max-total, or nil.
func keyOf(path string) *setting {
	for _, s := range keys() {
		if s.path == path {
			return s
		}
	}
	return nil
}

var durationType = reflect.TypeFor[time.Duration]()

func (g group) wants() string { return "a group of keys: " + strings.Join(g.names(), ", ") }

// wants says what kind of value a key has.
func (s *setting) wants() string {
	switch kind := s.typ.Kind(); {
	case s.typ == durationType:
		return "a time such as 30s or 100ms"
	case s.isGroup():
		return s.inner.wants()
	case kind == reflect.Slice && s.inner != nil:
		return "a list of groups with the keys " + strings.Join(s.inner.names(), ", ")
	default:
		return map[reflect.Kind]string{
			reflect.Bool: "true or false", reflect.Int: "a whole number", reflect.Int64: "a whole number", reflect.Float64: "a number",
			reflect.String: "a string", reflect.Slice: "a list of strings", reflect.Map: "names with a string each, such as {name: string}",
		}[kind]
	}
}
