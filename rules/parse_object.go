package rules

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate/internal/amount"
	"github.com/fluxgate/fluxgate/internal/period"
	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/internal/spelling"
)

// object is a map of a document while it is read. Values that cannot be read
// are reported and then zero. Numbers may have any width, and null is the same
// as absent: JSON, YAML and BSON differ in both.
type object struct {
	reporter
	fields map[string]any
	known  []string // the names that were read
	// lenient objects may have unknown fields.
	lenient bool
	// written objects are written by people: money may have its currency.
	written bool
}

func (o *object) get(name string) any {
	if !slices.Contains(o.known, name) {
		o.known = append(o.known, name)
	}
	return o.fields[name]
}

// refuseUnknown reports every field that was not read.
func (o *object) refuseUnknown() {
	if o.lenient {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(o.fields)) {
		if slices.Contains(o.known, name) || len(o.found.all) == maxProblems {
			continue // a suggestion for each of many names would take long
		}
		hint := ""
		if meant := spelling.Nearest(name, o.known); meant != "" {
			hint = ": did you mean " + meant + "?"
		}
		o.at(name).add(CodeUnknownField, "is not a known field%s", hint)
	}
}

// read is the value of a field. convert reports whether the value has the right
// type, which is called want in the message. Values are not shown: they may be API keys.
func read[T any](o *object, name, want string, convert func(any) (T, bool)) (none T) {
	raw := o.get(name)
	if raw == nil {
		return none
	}
	value, ok := convert(raw)
	if !ok {
		o.at(name).add(CodeWrongType, "must be %s", want)
		return none
	}
	return value
}

// is converts a value that has its Go type already.
func is[T any](value any) (T, bool) {
	v, ok := value.(T)
	return v, ok
}

func (o *object) text(name string) string { return read(o, name, "a string", is[string]) }

func (o *object) integer(name string) int64 { return read(o, name, "a whole number", wholeNumber) }

// tokens reads a number for a band of a rule that counts a measure. What people write may be
// money with its currency. Without a measure the band keeps the currency.
func (o *object) tokens(name, measure string, b *Band) int64 {
	text, isText := o.get(name).(string)
	if !isText || !o.written {
		return o.integer(name)
	}
	n, code, err := amount.Parse(text)
	if err == nil {
		err = amount.Check(code, cmp.Or(measure, b.currency, code))
	}
	if err != nil {
		o.at(name).add(CodeInvalidValue, "%v", err)
		o.found.unreadable = append(o.found.unreadable, o.at(name).path)
	} else if measure == "" {
		b.currency = code
	}
	return n
}

func (o *object) boolean(name string, otherwise bool) bool {
	if o.get(name) == nil {
		return otherwise
	}
	return read(o, name, "true or false", is[bool])
}

func (o *object) moment(name string) time.Time {
	s, ok := o.get(name).(string)
	if !ok {
		return read(o, name, "a time", is[time.Time])
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		o.at(name).add(CodeInvalidValue, "must be a time such as 2024-01-01T00:00:00Z, not %s", printable.Quote(s))
	}
	return t
}

func (o *object) texts(name string) []string {
	var list []string
	for i, v := range o.list(name, "a list of strings") {
		s, ok := v.(string)
		if !ok {
			o.at(name, i).add(CodeWrongType, "must be a string")
			continue
		}
		list = append(list, s)
	}
	return list
}

func (o *object) list(name, want string) []any {
	value := o.get(name)
	list, ok := value.([]any)
	if !ok && value != nil {
		o.at(name).add(CodeWrongType, "must be %s", want)
	}
	return list
}

// percents reads ["80%", 100]. It is zero if one cannot be read.
func (o *object) percents(name string) (all Percents) {
	list := o.list(name, "a list of percentages such as 80%")
	if !checkLength(o.at(name), len(list), len(all)) {
		return Percents{}
	}
	for i, v := range list {
		percent, ok := wholeNumber(v)
		if s, isText := v.(string); isText {
			digits, unit := strings.CutSuffix(s, "%")
			n, err := strconv.ParseUint(digits, 10, 7)
			percent, ok = int64(n), unit && err == nil
		}
		if !ok || percent == 0 {
			o.at(name, i).add(CodeInvalidValue, "must be a whole percentage such as 80%%")
			return Percents{}
		}
		all[i] = int(percent)
	}
	return all
}

// listOf is a list that may also be written as one string under another name.
func (o *object) listOf(one, many string) []string {
	list := o.texts(many)
	if s := o.text(one); s != "" {
		if len(list) > 0 {
			o.at(one).add(CodeInconsistent, "cannot be combined with %s", many)
		}
		return []string{s}
	}
	return list
}

// period reads "100ms", or a number of seconds under a name that says so. It is
// 0 where the period cannot be read.
func (o *object) period(name string) time.Duration {
	if strings.HasSuffix(name, "Seconds") {
		return read(o, name, "a number of seconds above 0, exact to the microsecond", exactSeconds)
	}
	want := `a string such as "60s"`
	if name != "hold" {
		want += " (a number goes into refillSeconds)"
	}
	s := read(o, name, want, is[string])
	if s == "" {
		return 0
	}
	d, err := period.Parse(s)
	if err != nil || d <= 0 {
		o.at(name).add(CodeInvalidValue, "must be a period such as 100ms, not %s", printable.Quote(s))
		return 0
	}
	return d
}

// object returns nil if the field is absent.
func (o *object) object(name string) *object {
	fields := read(o, name, "an object", is[map[string]any])
	if fields == nil {
		return nil
	}
	return o.child(fields, name)
}

func (o *object) child(fields map[string]any, at ...any) *object {
	return &object{reporter: o.at(at...), fields: fields, lenient: o.lenient, written: o.written}
}

// objects returns nil if there are more than most.
func (o *object) objects(name string, most int) []*object {
	list := o.list(name, "a list")
	if !checkLength(o.at(name), len(list), most) {
		return nil
	}
	all := make([]*object, len(list))
	for i, v := range list {
		fields, ok := v.(map[string]any)
		if !ok {
			o.at(name, i).add(CodeWrongType, "must be an object")
		}
		all[i] = o.child(fields, name, i)
	}
	return all
}

// values reads {"name": ["value", …]}; a string is a list of one.
func (o *object) values(name string) map[string][]string {
	child := o.object(name)
	if child == nil {
		return nil
	}
	all := make(map[string][]string, len(child.fields))
	for _, key := range slices.Sorted(maps.Keys(child.fields)) {
		if s, ok := child.fields[key].(string); ok {
			all[key] = []string{s}
			continue
		}
		all[key] = child.texts(key)
	}
	return all
}
