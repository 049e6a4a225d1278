package fluxgate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate/internal/period"
	"github.com/fluxgate/fluxgate/internal/spelling"
	"github.com/fluxgate/fluxgate/internal/syntax"
)

// object is one map of a document while it is read. It notes what is wrong
// with the place it stands at and reads on. Numbers may be of any width, and
// null is the same as absent: JSON, YAML and BSON differ in both.
type object struct {
	place  string
	fields map[string]any
	found  *problems
	known  *[]string // the names that were asked for
	// lenient objects have fields that are not known.
	lenient bool
}

func newObject(fields map[string]any, found *problems, options []DecodeOption) object {
	o := object{fields: fields, found: found}
	for _, option := range options {
		option(&o)
	}
	return o
}

func (o *object) at(name string) string {
	if o.place == "" {
		return name
	}
	return o.place + "." + name
}

func (o *object) has(name string) bool { return o.get(name) != nil }

func (o *object) get(name string) any {
	if o.known == nil {
		o.known = new([]string)
	}
	if !slices.Contains(*o.known, name) {
		*o.known = append(*o.known, name)
	}
	return o.fields[name]
}

// refuseUnknown notes every field that nobody asked for.
func (o *object) refuseUnknown() {
	if o.lenient {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(o.fields)) {
		if o.known != nil && slices.Contains(*o.known, name) {
			continue
		}
		if len(*o.found) == maxProblems {
			return // a suggestion for each of many names would take long
		}
		place := quote(name)
		if syntax.Only(name, "._-") && len(name) <= maxIDLength {
			place = name
		}
		o.found.add(o.at(place), "is not a known field%s", o.suggest(name))
	}
}

// otherNames are what fields are called elsewhere.
var otherNames = map[string]string{
	"scope": "limitScope", "policy": "onLimitExceed", "onlimitexceedpolicy": "onLimitExceed", "keyfields": "compositeKeyFields",
	"disabled": "enabled", "limit": "capacity", "tokens": "refillTokens", "period": "refill", "window": "refill", "interval": "refill",
}

// suggest is the known field that was probably meant.
func (o *object) suggest(name string) string {
	if o.known != nil {
		if meant := spelling.Nearest(name, *o.known, otherNames); meant != "" {
			return ": did you mean " + meant + "?"
		}
	}
	return ""
}

func (o *object) wrong(name, want string, got any) {
	o.found.add(o.at(name), "must be %s, not %s", want, kindOf(got))
}

func (o *object) text(name string) string {
	value := o.get(name)
	if value == nil {
		return ""
	}
	s, ok := value.(string)
	if !ok {
		o.wrong(name, "a text", value)
	}
	return s
}

// textOf is text for a field with two names.
func (o *object) textOf(name, other string) string {
	s, t := o.text(name), o.text(other)
	if s != "" && t != "" && s != t {
		o.found.add(o.at(other), "says something else than %s", name)
	}
	if s == "" {
		return t
	}
	return s
}

func (o *object) texts(name string) []string {
	value := o.get(name)
	if value == nil {
		return nil
	}
	list, ok := value.([]any)
	if !ok {
		o.wrong(name, "a list of texts", value)
		return nil
	}
	var out []string
	for i, v := range list {
		s, ok := v.(string)
		if !ok {
			// Not the value itself: the list may be one of API keys.
			o.found.add(fmt.Sprintf("%s[%d]", o.at(name), i), "must be a text, not %s", typeOf(v))
			continue
		}
		out = append(out, s)
	}
	return out
}

// listOf is a list that may also be written as one text under another name.
func (o *object) listOf(one, many string) []string {
	list := o.texts(many)
	if s := o.text(one); s != "" {
		if len(list) > 0 {
			o.found.add(o.at(one), "cannot stand beside %s", many)
		}
		return []string{s}
	}
	return list
}

func (o *object) integer(name string) int64 {
	value := o.get(name)
	if value == nil {
		return 0
	}
	n, ok := wholeNumber(value)
	if !ok {
		o.wrong(name, "a whole number", value)
	}
	return n
}

// period reads "100ms", or a number of seconds under a name that says so.
func (o *object) period(name string) (time.Duration, bool) {
	value := o.get(name)
	if value == nil {
		return 0, false
	}
	if !strings.HasSuffix(name, "Seconds") {
		s, ok := value.(string)
		if !ok {
			o.wrong(name, "a text such as \"60s\" (a number goes into refillSeconds)", value)
			return 0, false
		}
		d, err := period.Parse(s)
		if err != nil || d <= 0 {
			o.found.add(o.at(name), "must be a period such as 100ms, not %s", quote(s))
			return 0, false
		}
		return d, true
	}
	d, ok := exactSeconds(value)
	if !ok || d <= 0 {
		o.wrong(name, "a number of seconds above 0, exact to the microsecond", value)
		return 0, false
	}
	return d, true
}

func (o *object) boolean(name string, otherwise bool) bool {
	value := o.get(name)
	if value == nil {
		return otherwise
	}
	b, ok := value.(bool)
	if !ok {
		o.wrong(name, "true or false", value)
	}
	return b
}

func (o *object) moment(name string) time.Time {
	switch v := o.get(name).(type) {
	case nil:
	case time.Time:
		return v.UTC()
	case string:
		t, err := time.Parse(time.RFC3339Nano, v)
		if err != nil {
			o.found.add(o.at(name), "must be a time such as 2024-01-01T00:00:00Z, not %s", quote(v))
		}
		return t.UTC()
	default:
		o.wrong(name, "a time", v)
	}
	return time.Time{}
}

func (o *object) tree(name string) map[string]any {
	child, ok := o.object(name)
	if !ok {
		return nil
	}
	return cloneAttributes(child.fields)
}

func (o *object) object(name string) (object, bool) {
	value := o.get(name)
	if value == nil {
		return object{}, false
	}
	fields, ok := value.(map[string]any)
	if !ok {
		o.wrong(name, "an object", value)
		return object{}, false
	}
	return object{place: o.at(name), fields: fields, found: o.found, lenient: o.lenient}, true
}

// objects are at most so many. More are not even looked at: documents are
// untrusted.
func (o *object) objects(name string, most int) []object {
	value := o.get(name)
	if value == nil {
		return nil
	}
	list, ok := value.([]any)
	if !ok {
		o.wrong(name, "a list", value)
		return nil
	}
	if !checkLength(o.found, o.at(name), len(list), most) {
		return nil
	}
	out := make([]object, len(list))
	for i, v := range list {
		place := fmt.Sprintf("%s[%d]", name, i)
		fields, ok := v.(map[string]any)
		if !ok {
			o.wrong(place, "an object", v)
		}
		out[i] = object{place: o.at(place), fields: fields, found: o.found, lenient: o.lenient}
	}
	return out
}

// values reads {"name": ["value", …]}; one text is a list of one.
func (o *object) values(name string) map[string][]string {
	child, ok := o.object(name)
	if !ok {
		return nil
	}
	out := make(map[string][]string, len(child.fields))
	for _, key := range slices.Sorted(maps.Keys(child.fields)) {
		value := child.fields[key]
		if s, ok := value.(string); ok {
			out[key] = []string{s}
			continue
		}
		out[key] = child.texts(key)
	}
	return out
}
