package match

import (
	"slices"
	"strconv"
	"strings"
)

// MaxDescriptor is how many entries the descriptor of a rule may have. A request may
// have more, and then no rule with a descriptor matches it.
const MaxDescriptor = 16

// DescriptorEntry is one entry of a request's descriptor.
type DescriptorEntry struct {
	Key   string `json:"key" doc:"The key of the entry."`
	Value string `json:"value,omitempty" doc:"The value of the entry."`
}

// DescriptorMatch is what one entry of a descriptor must be.
type DescriptorMatch struct {
	Key    string   `json:"key" doc:"The key of the entry."`
	Value  string   `json:"value,omitempty" doc:"The value, or foo* for values that begin with foo. The default is *, any value."`
	Except []string `json:"except,omitempty" nullable:"false" doc:"Values, in the same forms, that do not match although value does."`
}

// entryCondition is the condition on one entry.
type entryCondition struct {
	key string
	valueForm
	except exceptions
}

// A valueForm is a value, or the beginning of values. Every value begins with "".
type valueForm struct {
	text  string
	begin bool
}

func parseValueForm(s string) valueForm {
	text, star := strings.CutSuffix(s, "*")
	return valueForm{text: text, begin: star || s == ""}
}

func (f *valueForm) accepts(value string) bool {
	return value == f.text || f.begin && strings.HasPrefix(value, f.text)
}

// exceptions are the values that an entry must not have. The zero value is empty.
type exceptions struct {
	values, beginnings valueSet
	lengths            []int // of the beginnings, ascending
}

func newExceptions(forms []valueForm) exceptions {
	var values, beginnings []string
	var lengths []int
	for _, f := range forms {
		if f.begin {
			beginnings = append(beginnings, f.text)
			lengths = append(lengths, len(f.text))
		} else {
			values = append(values, f.text)
		}
	}
	slices.Sort(lengths)
	return exceptions{newValueSet(values), newValueSet(beginnings), slices.Compact(lengths)}
}

func (x *exceptions) empty() bool { return x.values.empty() && x.beginnings.empty() }

func (x *exceptions) has(value string) bool {
	if x.values.has(value) {
		return true
	}
	for _, length := range x.lengths {
		if length > len(value) {
			break
		}
		if x.beginnings.has(value[:length]) {
			return true
		}
	}
	return false
}

// otherDescriptor reports whether a request's descriptor is not the one that a rule asks
// for, with the key of the first entry of the rule that is missing or differs. The name
// is empty if the request has more entries than the rule.
func (c *conditions) otherDescriptor(entries []DescriptorEntry) (name string, other bool) {
	for i := range c.descriptor {
		want := &c.descriptor[i]
		if i >= len(entries) || entries[i].Key != want.key ||
			!want.accepts(entries[i].Value) || want.except.has(entries[i].Value) {
			return want.key, true
		}
	}
	return "", len(entries) > len(c.descriptor)
}

// Descriptor is the condition that the request's descriptor has these entries, in this
// order, and no others. Its value in the index names the keys and the forms of the values,
// so that rules which differ in nothing else are filed together.
type Descriptor []DescriptorMatch

func (matches Descriptor) addTo(c *compilation) {
	if c.descriptor = compileDescriptor(matches); len(matches) == 0 {
		return
	}
	if slices.ContainsFunc(c.descriptor, func(e entryCondition) bool { return !e.except.empty() }) {
		c.count++
	}
	var name []byte
	for i := range c.descriptor {
		name = strconv.AppendQuote(name, c.descriptor[i].key)
		name = strconv.AppendQuote(name, c.descriptor[i].text)
		name = strconv.AppendBool(name, c.descriptor[i].begin)
	}
	c.file(newChoice(anchorID{kind: byDescriptor}, []string{string(name)}))
}

func compileDescriptor(matches []DescriptorMatch) (compiled []entryCondition) {
	for _, m := range matches {
		var except []valueForm
		for _, s := range m.Except {
			except = append(except, parseValueForm(s))
		}
		compiled = append(compiled, entryCondition{key: m.Key, valueForm: parseValueForm(m.Value), except: newExceptions(except)})
	}
	return compiled
}
