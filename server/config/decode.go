package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fluxgate/fluxgate/internal/period"
	"github.com/fluxgate/fluxgate/internal/yamltree"
)

// Bounds of a value.
const (
	maxText = 4_096
	maxName = 256
	maxList = 1_000
)

// decoder gives settings the values of a tree. Values of the environment and the
// command line are strings in it, whatever the type of their setting.
type decoder struct {
	file  *yamltree.File
	found Error
}

func (d *decoder) refuse(at yamltree.Position, path, message string) {
	d.found.add(d.file.Problem(at, path, message))
}

// group decodes the keys of a group into the struct v, from which the indexes of
// the settings count.
func (d *decoder) group(g *group, v reflect.Value, n *yamltree.Node, path string) {
	if n.Kind != yamltree.Object {
		d.refuse(n.At, path, "must be "+g.wants())
		return
	}
	for _, f := range n.Fields {
		s := g.find(f.Name)
		if s == nil {
			d.refuse(f.At, join(path, showName(f.Name)), unknownKey(f.Name, g))
			continue
		}
		inside := join(path, s.name)
		switch {
		case s.isGroup() && f.Value.IsNull(): // all of its keys may be commented out
		case s.isGroup():
			d.group(s.inner, v, f.Value, inside)
		case f.Value.IsNull():
			d.refuse(f.At, inside, "has no value: leave the key out for the default, or write "+s.none())
		default:
			d.value(s, v.FieldByIndex(s.index), f.Value, inside)
		}
	}
}

// none is how an empty value is written.
func (s *setting) none() string {
	switch kind := s.typ.Kind(); {
	case kind == reflect.Slice:
		return "[] for none"
	case kind == reflect.Map:
		return "{} for none"
	case kind == reflect.String && len(s.oneOf) == 0:
		return `"" for none`
	}
	return s.wants()
}

// value decodes the value of a key.
func (d *decoder) value(s *setting, v reflect.Value, n *yamltree.Node, path string) {
	text, isString := n.Value.(string)
	switch kind := s.typ.Kind(); {
	case kind == reflect.Slice && n.Kind == yamltree.List:
		d.list(s, v, n, path)
	case kind == reflect.Map && n.Kind == yamltree.Object:
		d.pairs(s, v, n, path)
	case n.At.Source != "" && (s.inner != nil || kind == reflect.Map):
		d.yaml(s, v, n, text, path)
	case kind == reflect.Slice && s.inner == nil && isString:
		d.list(s, v, d.splitList(n.At, text, path), path)
	case s.typ == shareType && n.Kind == yamltree.Scalar: // a number in a file
		v.SetString(fmt.Sprint(n.Value))
	case kind == reflect.String && isString:
		d.string(s, v, n, path)
	// In a file a time is a string, and a number and a bool are none.
	case n.Kind != yamltree.Scalar, n.At.Source == "" && isString != (s.typ == durationType), !parse(v, fmt.Sprint(n.Value)):
		d.refuse(n.At, path, s.mismatch(n))
	}
}

// parse reads a number, a time or a bool.
func parse(v reflect.Value, text string) bool {
	var err error
	switch {
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

// mismatch is the message for a value of another type, with what was probably
// meant. It shows no value of a setting that may hold a secret.
func (s *setting) mismatch(n *yamltree.Node) string {
	kind := s.typ.Kind()
	text := fmt.Sprint(n.Value)
	is, meant := show(text), ""
	_, isString := n.Value.(string)
	_, isBool := n.Value.(bool)
	switch shown := kind != reflect.String && kind != reflect.Slice && kind != reflect.Map; {
	case n.Kind == yamltree.List:
		is = "a list"
	case n.Kind == yamltree.Object:
		is = "a group of keys"
	case shown && !isString:
		is = text
	case isString && !shown:
		is = "a string"
	case isBool:
		is = "true or false"
	case !isString:
		is = "a number"
	}
	_, err := strconv.ParseUint(text, 10, 32)
	switch {
	case n.Kind != yamltree.Scalar:
	case !isString && s.inner == nil && len(s.oneOf) == 0 && (kind == reflect.String || kind == reflect.Slice):
		meant = ": write it in quotes"
	case s.typ == durationType && err == nil: // programs differ in the unit
		meant = ": did you mean " + text + "s or " + text + "ms?"
	case isString && parse(reflect.New(s.typ).Elem(), text):
		meant = ": write it without quotes"
	case kind == reflect.Bool:
		meant = didYouMean(text, []string{"true", "false"})
	}
	return fmt.Sprintf("must be %s, not %s%s", s.wants(), is, meant)
}

// string decodes a string.
func (d *decoder) string(s *setting, v reflect.Value, n *yamltree.Node, path string) {
	text, ok := n.Value.(string)
	message := s.checkString(text)
	if !ok {
		message = "must be a string: write it in quotes"
	}
	if message != "" {
		d.refuse(n.At, path, message)
		return
	}
	v.SetString(text)
}

// checkString is what is wrong with a string, "" if nothing.
func (s *setting) checkString(text string) string {
	switch {
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return "must be one line of text"
	case len(text) > maxText:
		return fmt.Sprintf("can have %d bytes", maxText)
	case len(s.oneOf) > 0 && !slices.Contains(s.oneOf, text):
		return fmt.Sprintf("must be one of %s, not %s%s", strings.Join(s.oneOf, ", "), show(text), didYouMean(text, s.oneOf))
	}
	return ""
}

// list decodes a list of strings or of groups.
func (d *decoder) list(s *setting, v reflect.Value, n *yamltree.Node, path string) {
	if len(n.Items) > maxList {
		d.refuse(n.At, path, fmt.Sprintf("can have %d entries", maxList))
		return
	}
	v.Set(reflect.MakeSlice(s.typ, len(n.Items), len(n.Items)))
	for i, item := range n.Items {
		inside := fmt.Sprintf("%s[%d]", path, i)
		if s.inner != nil {
			d.group(s.inner, v.Index(i), item, inside)
		} else {
			d.string(s, v.Index(i), item, inside)
		}
	}
}

// pairs decodes names with a string each.
func (d *decoder) pairs(s *setting, v reflect.Value, n *yamltree.Node, path string) {
	if len(n.Fields) > maxList {
		d.refuse(n.At, path, fmt.Sprintf("can have %d entries", maxList))
		return
	}
	pairs := map[string]string{}
	for _, f := range n.Fields {
		var value string
		d.string(s, reflect.ValueOf(&value).Elem(), f.Value, path+"."+showName(f.Name))
		if message := s.checkString(f.Name); message != "" || len(f.Name) > maxName {
			d.refuse(f.At, path, cmp.Or(message, fmt.Sprintf("names can have %d bytes", maxName)))
		}
		pairs[f.Name] = value
	}
	v.Set(reflect.ValueOf(pairs))
}

// splitList is a list that was written with commas.
func (d *decoder) splitList(at yamltree.Position, text, path string) *yamltree.Node {
	n := &yamltree.Node{At: at, Kind: yamltree.List}
	if strings.TrimSpace(text) == "" {
		return n
	}
	for i, item := range strings.Split(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			d.refuse(at, fmt.Sprintf("%s[%d]", path, i), "is empty: remove one of two commas")
		}
		n.Items = append(n.Items, &yamltree.Node{At: at, Value: item})
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
	inner := decoder{file: file}
	inner.value(s, v, file.Documents[0], path)
	for _, p := range inner.found.Problems {
		d.refuse(n.At, p.Place, p.Message)
	}
}
