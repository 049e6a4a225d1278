package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fluxgate/fluxgate/internal/period"
	"github.com/fluxgate/fluxgate/internal/yamltree"
)

// Bounds of a value.
const (
	maxText = 4_096
	maxList = 1_000
)

// note is told what is wrong at a place inside of a value, "" being the value
// itself. The node is nil where the value did not come from a file.
type note func(n *yamltree.Node, place, message string)

// setNode gives a key the value that stands in a file.
func (e *entry) setNode(v reflect.Value, n *yamltree.Node, wrong note) {
	if n.IsNull() {
		wrong(n, "", "has no value: leave the key out for the default, or write "+e.nothing())
		return
	}
	switch {
	case e.typ.Kind() == reflect.Slice && n.Kind == yamltree.List:
		e.setItems(v, n, wrong)
		return
	case e.typ.Kind() == reflect.Map && n.Kind == yamltree.Object:
		e.setPairs(v, n, wrong)
		return
	case n.Kind != yamltree.Scalar || e.inner != nil:
		wrong(n, "", "must be "+e.wants())
		return
	}
	switch value := n.Value.(type) {
	case string:
		switch {
		case e.typ.Kind() == reflect.String, e.typ.Kind() == reflect.Slice, e.typ.Kind() == reflect.Map, e.typ == durationType:
			e.setText(v, value, func(_ *yamltree.Node, place, message string) { wrong(n, place, message) })
		default:
			wrong(n, "", fmt.Sprintf("must be %s, not a text%s", e.wants(), e.meantByText(value)))
		}
	case json.Number:
		e.setNumber(v, n, value.String(), wrong)
	case bool:
		if e.typ.Kind() != reflect.Bool {
			wrong(n, "", e.notAText("true or false"))
			return
		}
		v.SetBool(value)
	}
}

func (e *entry) setNumber(v reflect.Value, n *yamltree.Node, number string, wrong note) {
	switch {
	case e.typ == durationType:
		wrong(n, "", fmt.Sprintf("must be %s, not a number%s", e.wants(), unitOf(number)))
	case v.CanInt(), v.CanFloat():
		e.setText(v, number, func(_ *yamltree.Node, place, message string) { wrong(n, place, message) })
	default:
		wrong(n, "", e.notAText("a number"))
	}
}

// notAText is the message for something without quotes where a text is wanted.
func (e *entry) notAText(is string) string {
	message := fmt.Sprintf("must be %s, not %s", e.wants(), is)
	if len(e.oneOf) == 0 && (e.typ.Kind() == reflect.String || e.typ.Kind() == reflect.Slice) {
		message += ": write it in quotes"
	}
	return message
}

// meantByText helps who wrote a value in quotes that needs none, or yes for
// true.
func (e *entry) meantByText(value string) string {
	switch lower := strings.ToLower(value); {
	case e.typ.Kind() == reflect.Bool && slices.Contains([]string{"yes", "on", "true", "y"}, lower):
		return ": did you mean true?"
	case e.typ.Kind() == reflect.Bool && slices.Contains([]string{"no", "off", "false", "n"}, lower):
		return ": did you mean false?"
	case e.typ.Kind() != reflect.Bool && value != "" && json.Valid([]byte(value)):
		return ": write it without quotes"
	}
	return ""
}

// nothing is how an empty value is written.
func (e *entry) nothing() string {
	switch {
	case e.typ.Kind() == reflect.Slice:
		return "[] for none"
	case e.typ.Kind() == reflect.Map:
		return "{} for none"
	case e.typ.Kind() == reflect.String && len(e.oneOf) == 0:
		return `"" for none`
	}
	return e.wants()
}

// setItems gives a key a list.
func (e *entry) setItems(v reflect.Value, n *yamltree.Node, wrong note) {
	if len(n.Items) > maxList {
		wrong(n, "", fmt.Sprintf("can have %d entries", maxList))
		return
	}
	list := reflect.MakeSlice(e.typ, len(n.Items), len(n.Items))
	for i, item := range n.Items {
		place := fmt.Sprintf("[%d]", i)
		if e.inner != nil {
			e.inner.setFields(list.Index(i), item, func(n *yamltree.Node, inside, message string) { wrong(n, place+inside, message) })
			continue
		}
		text, ok := item.Value.(string)
		if item.Kind != yamltree.Scalar || !ok {
			wrong(item, place, "must be a text: write it in quotes")
			continue
		}
		e.setWord(list.Index(i), text, func(message string) { wrong(item, place, message) })
	}
	v.Set(list)
}

// setFields gives the keys of a group the values that stand in a file.
func (g *group) setFields(v reflect.Value, n *yamltree.Node, wrong note) {
	if n.Kind != yamltree.Object {
		wrong(n, "", "must be a group of keys: "+strings.Join(g.names(), ", "))
		return
	}
	for _, f := range n.Fields {
		e := g.find(f.Name)
		if e == nil {
			wrong(&yamltree.Node{At: f.At}, "."+showName(f.Name), unknownKey(f.Name, g))
			continue
		}
		e.setNode(v.Field(e.field), placed(f), func(n *yamltree.Node, inside, message string) { wrong(n, "."+e.name+inside, message) })
	}
}

// placed is the value of a field, which stands where its name does if it was
// left out.
func placed(f yamltree.Field) *yamltree.Node {
	if f.Value.IsNull() {
		return &yamltree.Node{At: f.At}
	}
	return f.Value
}

// setText gives a key a value from the environment or the command line, or a
// text from a file.
func (e *entry) setText(v reflect.Value, s string, wrong note) {
	refuse := func(message string) { wrong(nil, "", message) }
	switch {
	case e.inner != nil:
		e.setYAML(v, s, wrong)
	case e.typ.Kind() == reflect.Slice:
		e.setWords(v, s, wrong)
	case e.typ.Kind() == reflect.Map:
		e.setPairsText(v, s, wrong)
	case e.typ.Kind() == reflect.String:
		e.setWord(v, s, refuse)
	case e.typ == durationType:
		d, err := period.Parse(s)
		if err != nil {
			refuse(fmt.Sprintf("must be %s, not %s%s", e.wants(), show(s), unitOf(s)))
			return
		}
		v.SetInt(int64(d))
	case e.typ.Kind() == reflect.Bool:
		if s != "true" && s != "false" {
			refuse(fmt.Sprintf("must be %s, not %s%s", e.wants(), show(s), e.meantByText(s)))
			return
		}
		v.SetBool(s == "true")
	case v.CanInt():
		i, err := strconv.ParseInt(s, 10, e.typ.Bits())
		if err != nil {
			refuse(fmt.Sprintf("must be %s, not %s", e.wants(), show(s)))
			return
		}
		v.SetInt(i)
	default:
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || f != f {
			refuse(fmt.Sprintf("must be %s, not %s", e.wants(), show(s)))
			return
		}
		v.SetFloat(f)
	}
}

// unitOf helps who left the unit out. Which it would be differs from program to
// program, so it is not guessed at.
func unitOf(s string) string {
	if _, err := strconv.ParseUint(s, 10, 32); err != nil {
		return ""
	}
	return ": did you mean " + s + "s or " + s + "ms?"
}

// setWords gives a key a list with commas.
func (e *entry) setWords(v reflect.Value, s string, wrong note) {
	var words []string
	if strings.TrimSpace(s) != "" {
		words = strings.Split(s, ",")
	}
	if len(words) > maxList {
		wrong(nil, "", fmt.Sprintf("can have %d entries", maxList))
		return
	}
	list := reflect.MakeSlice(e.typ, len(words), len(words))
	for i, word := range words {
		place := fmt.Sprintf("[%d]", i)
		if word = strings.TrimSpace(word); word == "" {
			wrong(nil, place, "has nothing between two commas")
			continue
		}
		e.setWord(list.Index(i), word, func(message string) { wrong(nil, place, message) })
	}
	v.Set(list)
}

// setWord gives a text a value.
func (e *entry) setWord(v reflect.Value, s string, refuse func(message string)) {
	switch {
	case !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl):
		refuse("must be text in one line")
	case len(s) > maxText:
		refuse(fmt.Sprintf("can have %d bytes", maxText))
	case len(e.oneOf) > 0 && !slices.Contains(e.oneOf, s):
		refuse(fmt.Sprintf("must be one of %s, not %s%s", strings.Join(e.oneOf, ", "), show(s), didYouMean(s, e.oneOf)))
	default:
		v.SetString(s)
	}
}

// setYAML gives a key a list of groups, which is written as in a file.
func (e *entry) setYAML(v reflect.Value, s string, wrong note) {
	const example = "must be a list as in a file: [{name: ci, …}]"
	if len(s) > maxFile {
		wrong(nil, "", fmt.Sprintf("can have %d bytes", maxFile))
		return
	}
	file, flaws := yamltree.Read("", []byte(s), nil)
	if len(flaws) > 0 || len(file.Documents) != 1 || file.Documents[0].Kind != yamltree.List {
		wrong(nil, "", example)
		return
	}
	e.setItems(v, file.Documents[0], func(_ *yamltree.Node, place, message string) { wrong(nil, place, message) })
}
