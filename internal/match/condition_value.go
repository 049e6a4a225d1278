package match

import (
	"iter"
	"maps"
	"net/textproto"
	"slices"
	"strings"
)

// scanLimit is up to how many strings or rules looking at each is no slower than
// an index.
const scanLimit = 4

// A valueSet is a set of strings. The zero value is empty.
type valueSet struct {
	few  []string
	many map[string]struct{} // instead of few, if there are many
}

func newValueSet(values []string) valueSet {
	if len(values) <= scanLimit {
		return valueSet{few: slices.Clone(values)}
	}
	many := make(map[string]struct{}, len(values))
	for _, v := range values {
		many[v] = struct{}{}
	}
	return valueSet{many: many}
}

func (s *valueSet) empty() bool { return len(s.few) == 0 && len(s.many) == 0 }

func (s *valueSet) has(value string) bool {
	if s.many == nil {
		return slices.Contains(s.few, value)
	}
	_, found := s.many[value]
	return found
}

// all returns the values of the set.
func (s *valueSet) all() iter.Seq[string] {
	if s.many == nil {
		return slices.Values(s.few)
	}
	return maps.Keys(s.many)
}

// first returns one of the values of a set that has some.
func (s *valueSet) first() string {
	for v := range s.all() {
		return v
	}
	return ""
}

// OneOf is the condition that a text of the request is one of the values.
type OneOf struct {
	Text   Text
	Why    Obstacle
	Values []string
}

type textCondition struct {
	OneOf
	set valueSet
}

func (o OneOf) addTo(c *compilation) {
	if len(o.Values) > 0 {
		c.texts = append(c.texts, textCondition{o, newValueSet(o.Values)})
		c.file(newChoice(anchorID{kind: byText, text: o.Text}, o.Values))
	}
}

// named is the condition on one header or attribute.
type named struct {
	spelled string // as in the rule
	name    string // of a header: as net/http spells it
	lower   string // of a header: as gRPC spells it
	any     bool   // any value that is not empty will do
	values  valueSet
}

func (n *named) accepts(value string) bool {
	return n.any && value != "" || n.values.has(value)
}

// acceptsOne reports whether a line of a header is accepted.
func (n *named) acceptsOne(lines []string) bool {
	return slices.ContainsFunc(lines, func(line string) bool { return n.accepts(HeaderText(line)) })
}

// Attributes must match under every name, each with one of its values; "*" is any value that
// is not empty.
type Attributes map[string][]string

func (attributes Attributes) addTo(c *compilation) {
	c.attributes = c.compileNamed(byAttribute, attributes)
}

// Headers are as Attributes. Their names are compared without regard to case, and any line
// of a header may match.
type Headers map[string][]string

func (headers Headers) addTo(c *compilation) {
	c.headers = c.compileNamed(byHeader, headers)
}

// compileNamed returns the conditions on attributes or headers in the order of their
// names, so that rules which could be filed under several agree on the first.
func (c *compilation) compileNamed(kind anchorKind, all map[string][]string) (compiled []named) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		values := all[name]
		n := named{spelled: name, name: name, any: slices.Contains(values, "*"), values: newValueSet(values)}
		if kind == byHeader {
			n.name, n.lower = textproto.CanonicalMIMEHeaderKey(name), strings.ToLower(name)
		}
		if n.any {
			c.count++
		} else {
			c.file(newChoice(anchorID{kind: kind, name: n.name}, values))
		}
		compiled = append(compiled, n)
	}
	return compiled
}
