package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate/internal/period"
	"github.com/fluxgate/fluxgate/internal/yamltree"
)

// decoder gives settings the values of a tree. A scalar may have any type there: values of
// the environment and the command line are strings. [Config.Check] checks what they mean.
type decoder struct {
	origin
	found Error
}

func newDecoder(file *yamltree.File) decoder {
	return decoder{origin: origin{file, map[string]yamltree.Position{}}}
}

func (d *decoder) refuse(at yamltree.Position, path, message string) {
	d.found.Add(d.file.Problem(at, path, message))
}

// group decodes the keys of a group into the struct v, from which the indexes of
// the settings count.
func (d *decoder) group(g group, v reflect.Value, n *yamltree.Node, path string) {
	if n.Kind != yamltree.Object {
		d.refuse(n.At, path, "must be "+g.wants())
		return
	}
	for _, f := range n.Fields {
		s := g.find(f.Name)
		if s == nil {
			d.refuse(f.At, join(path, showName(f.Name)), unknown(f.Name, g.names()))
			continue
		}
		inside := join(path, s.name)
		switch {
		case s.isGroup() && f.Value.IsNull(): // all of its keys may be commented out
		case s.isGroup():
			d.group(s.inner, v, f.Value, inside)
		case f.Value.IsNull():
			d.refuse(f.At, inside, "has no value: leave the key out for the default")
		default:
			if d.at[inside] = f.Value.At; f.Value.At.Line != f.At.Line {
				d.at[inside] = f.At
			}
			d.value(s, v.FieldByIndex(s.index), f.Value, inside)
		}
	}
}

// value decodes the value of a key.
func (d *decoder) value(s *setting, v reflect.Value, n *yamltree.Node, path string) {
	kind, text := s.typ.Kind(), fmt.Sprint(n.Value)
	switch {
	case kind == reflect.Slice && n.Kind == yamltree.List:
		d.list(s, v, n, path)
	case kind == reflect.Map && n.Kind == yamltree.Object:
		d.pairs(s, v, n, path)
	case n.At.Source != "" && (s.inner != nil || kind == reflect.Map):
		d.yaml(s, v, n, text, path)
	case kind == reflect.Slice && s.inner == nil && n.Kind == yamltree.Scalar:
		d.list(s, v, splitList(n.At, text), path)
	case n.Kind != yamltree.Scalar || n.IsNull() || !parse(v, text):
		d.refuse(n.At, path, "must be "+s.wants())
	}
}

// parse reads a string, a number, a time or a bool.
func parse(v reflect.Value, text string) bool {
	var err error
	switch {
	case v.Kind() == reflect.String:
		v.SetString(text)
	case v.Type() == durationType:
		var d time.Duration
		d, err = period.Parse(text)
		v.SetInt(int64(d))
	case v.Kind() == reflect.Bool:
		v.SetBool(text == "true")
		return text == "true" || text == "false"
	case v.CanInt():
		var i int64
		i, err = strconv.ParseInt(text, 10, v.Type().Bits())
		v.SetInt(i)
	case v.CanFloat():
		var f float64
		f, err = strconv.ParseFloat(text, 64)
		v.SetFloat(f)
		return err == nil && f == f
	default:
		return false
	}
	return err == nil
}

// list decodes a list of strings or of groups.
func (d *decoder) list(s *setting, v reflect.Value, n *yamltree.Node, path string) {
	v.Set(reflect.MakeSlice(s.typ, len(n.Items), len(n.Items)))
	for i, item := range n.Items {
		inside := fmt.Sprintf("%s[%d]", path, i)
		d.at[inside] = item.At
		if s.inner != nil {
			d.group(s.inner, v.Index(i), item, inside)
		} else {
			d.value(&setting{typ: s.typ.Elem()}, v.Index(i), item, inside)
		}
	}
}

// pairs decodes names with a string each.
func (d *decoder) pairs(s *setting, v reflect.Value, n *yamltree.Node, path string) {
	v.Set(reflect.MakeMap(s.typ))
	for _, f := range n.Fields {
		value := reflect.New(s.typ.Elem()).Elem()
		d.value(&setting{typ: s.typ.Elem()}, value, f.Value, path+"."+showName(f.Name))
		v.SetMapIndex(reflect.ValueOf(f.Name), value)
	}
}

// splitList is a list that was written with commas.
func splitList(at yamltree.Position, text string) *yamltree.Node {
	n := &yamltree.Node{At: at, Kind: yamltree.List}
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			n.Items = append(n.Items, &yamltree.Node{At: at, Value: item})
		}
	}
	return n
}

// yaml decodes a list of groups, or names with a string each, of the environment or the command
// line. They are written as in a file.
func (d *decoder) yaml(s *setting, v reflect.Value, n *yamltree.Node, text, path string) {
	file, flaws := yamltree.Read("", []byte(text))
	if len(flaws) > 0 || len(file.Documents) != 1 {
		d.refuse(n.At, path, "must be "+s.wants()+", written as in a file")
		return
	}
	inner := newDecoder(file)
	inner.value(s, v, file.Documents[0], path)
	for _, p := range inner.found.Problems {
		d.refuse(n.At, p.Place, p.Message)
	}
}
