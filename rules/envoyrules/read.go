package envoyrules

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/fluxgate/fluxgate/internal/yamltree"
)

// reader converts a YAML document to a [Domain].
type reader struct{ findings }

// allKeys are the keys of all objects. envoyproxy/ratelimit ignores one of them in another
// object than its own, and refuses others.
var allKeys = slices.Concat(keysOf(reflect.TypeFor[Domain]()), keysOf(reflect.TypeFor[Descriptor]()), keysOf(reflect.TypeFor[RateLimit]()))

// keysOf returns the keys of the fields of a struct.
func keysOf(t reflect.Type) []string {
	keys := make([]string, t.NumField())
	for i := range keys {
		keys[i] = t.Field(i).Tag.Get("json")
	}
	return keys
}

func (r *reader) domain(root *yamltree.Node) *Domain {
	d := &Domain{}
	r.object(root, "", reflect.ValueOf(d).Elem())
	return d
}

// object reads an object into a struct, whose tags have the keys.
func (r *reader) object(n *yamltree.Node, place string, to reflect.Value) {
	if n.Kind != yamltree.Object {
		r.refuse(place, "must be an object")
		return
	}
	for _, f := range n.Fields {
		at := strings.TrimPrefix(place+"."+f.Name, ".")
		known := func(name string) bool { return name == f.Name }
		switch i := slices.IndexFunc(keysOf(to.Type()), known); {
		case i >= 0:
			r.value(f.Value, at, to.Field(i))
		case slices.ContainsFunc(allKeys, known):
			r.note(at, "has no effect here, as in envoyproxy/ratelimit")
		default:
			r.refuse(at, "unknown key")
		}
	}
	if limit, ok := to.Interface().(RateLimit); ok && !limit.Unlimited && n.Get("requests_per_unit") == nil {
		r.note(place, "has no requests_per_unit: all requests are rejected, as in envoyproxy/ratelimit")
	}
}

// value reads a value, or refuses one of another type. Null is the zero value, but not for the
// entry of a list.
func (r *reader) value(n *yamltree.Node, place string, to reflect.Value) {
	problem := ""
	switch kind := to.Kind(); {
	case kind == reflect.Struct:
		r.object(n, place, to)
	case n.IsNull():
	case kind == reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		r.object(n, place, to.Elem())
	case kind == reflect.Map:
		if to.Set(reflect.ValueOf(n.Map())); n.Kind != yamltree.Object {
			problem = "must be an object"
		}
	case kind == reflect.Slice:
		if to.Set(reflect.MakeSlice(to.Type(), len(n.Items), len(n.Items))); n.Kind != yamltree.List {
			problem = "must be a list"
		}
		for i, item := range n.Items {
			r.value(item, fmt.Sprintf("%s[%d]", place, i), to.Index(i))
		}
	case kind == reflect.String: // numbers, true and false are strings too
		if to.SetString(fmt.Sprint(n.Value)); n.Kind != yamltree.Scalar {
			problem = "must be a string"
		}
	case kind == reflect.Bool:
		v, ok := n.Value.(bool)
		if to.SetBool(v); !ok {
			problem = "must be true or false"
		}
	default:
		number, _ := n.Value.(json.Number)
		v, err := strconv.ParseUint(number.String(), 10, 32)
		if to.SetUint(v); err != nil {
			problem = "must be an integer from 0 to 4294967295"
		}
	}
	if problem != "" {
		r.refuse(place, "%s", problem)
	}
}
