package envoyrules

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/rules"
)

// Bounds of one domain: files are untrusted.
const (
	maxDescriptors = 20_000
	maxExcept      = 100_000 // values under except, in all rules together
	maxNotes       = 100
)

const tooManyExcept = "the rules need more than %d values under except: " +
	"use fewer values and wildcards beside the same key without a value"

// Note is a remark about a position in the configuration, such as
// descriptors[3].rate_limit.unit.
type Note struct {
	Place   string
	Message string
}

// String returns the position and the message.
func (n Note) String() string {
	if n.Place == "" {
		return n.Message
	}
	return n.Place + ": " + n.Message
}

// Error has the problems of an invalid configuration, at most 100.
type Error struct {
	Domain   string
	Problems []Note
}

// Error returns a line for each problem.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return fmt.Sprintf("domain %q: %s", e.Domain, strings.Join(lines, "\n"))
}

// Convert returns the rule set of a domain, and notes on differences from
// envoyproxy/ratelimit, at most 100. The error is an [*Error].
func Convert(d *Domain) (*rules.Set, []Note, error) {
	var c converter
	set := c.domain(d)
	if len(c.problems) > 0 {
		return nil, c.notes, &Error{Domain: d.Domain, Problems: c.problems}
	}
	return set, c.notes, nil
}

type converter struct {
	rules  []rules.Rule
	limits []*RateLimit // of the rules
	places []string     // of the descriptors of the rules
	findings
	descriptors, excepted int
	leftOut               bool // the branch is checked, and makes no rules
}

func (c *converter) domain(d *Domain) *rules.Set {
	id := RuleSetID(d.Domain)
	switch {
	case d.Domain == "":
		c.refuse("domain", "is required")
		return nil
	case id != d.Domain:
		c.note("domain", "becomes the rule set %s", id)
	}
	c.level(d.Descriptors, nil, "descriptors")
	c.replaces()
	if len(c.problems) > 0 {
		return nil
	}
	set, err := rules.NewSet(id, c.rules...)
	var invalid *rules.ValidationError
	if errors.As(err, &invalid) {
		for _, p := range invalid.Problems {
			place, inside := "domain", p.Path
			if i, path := p.Path.Rule(); i >= 0 {
				place, inside = c.places[i], path
			}
			c.refuse(place, "%s", rules.Problem{Path: inside, Message: p.Message}.String())
		}
	}
	return set
}

// replaces turns the names under replaces into the ids of the rules that have them.
func (c *converter) replaces() {
	named := map[string][]string{}
	for i, limit := range c.limits {
		named[limit.Name] = append(named[limit.Name], c.rules[i].ID)
	}
	for i, limit := range c.limits {
		for k, replaced := range limit.Replaces {
			if named[replaced.Name] == nil {
				c.note(fmt.Sprintf("%s.rate_limit.replaces[%d]", c.places[i], k),
					"has no effect: no limit of the domain has the name %s", printable.Quote(replaced.Name))
			}
			c.rules[i].Replaces = append(c.rules[i].Replaces, named[replaced.Name]...)
		}
	}
}

// entry is one step of the path to a limit.
type entry struct {
	match  rules.DescriptorMatch
	joined string // key_value, as envoyproxy/ratelimit compares it
	shared bool   // all values are counted together
}

// level converts the descriptors below a path.
func (c *converter) level(descriptors []Descriptor, path []entry, place string) {
	c.descriptors += len(descriptors)
	switch {
	case len(descriptors) == 0:
		return
	case c.descriptors > maxDescriptors:
		c.refuse(place, "the domain has more than %d descriptors", maxDescriptors)
		return
	case len(path) == rules.MaxDescriptor:
		c.refuse(place, "descriptors are nested deeper than %d levels", rules.MaxDescriptor)
		return
	case !c.checkEntries(descriptors, place):
		return
	}
	found, ok := branches(descriptors, maxExcept)
	if !ok {
		c.refuse(place, tooManyExcept, maxExcept)
	}
	for i, b := range found {
		d, place := &descriptors[i], fmt.Sprintf("%s[%d]", place, i)
		if b.unreachable {
			c.note(place, "is left out: it never matches, because the wildcard %s of descriptors[%d] comes first",
				printable.Quote(descriptors[b.by].Value), b.by)
		}
		enclosing := c.leftOut
		c.leftOut = enclosing || b.unreachable
		next := append(slices.Clip(path), entry{
			match:  rules.DescriptorMatch{Key: d.Key, Value: valueOf(d), Except: b.except},
			joined: joined(d), shared: d.ShareThreshold,
		})
		if d.DetailedMetric || d.ValueToMetric {
			c.note(place, "detailed_metric and value_to_metric have no effect: metrics have a label with the rule")
		}
		if d.RateLimit != nil {
			c.checkLimit(d.RateLimit, place+".rate_limit")
			if !c.leftOut {
				c.limit(d, next, place)
			}
		}
		c.level(d.Descriptors, next, place+".descriptors")
		c.leftOut = enclosing
	}
}

func joined(d *Descriptor) string {
	if d.Value == "" {
		return d.Key
	}
	return d.Key + "_" + d.Value
}

// checkEntries reports whether the keys and values of siblings are valid.
func (c *converter) checkEntries(descriptors []Descriptor, place string) bool {
	before := len(c.problems)
	first := make(map[string]int, len(descriptors))
	for i := range descriptors {
		d, place := &descriptors[i], fmt.Sprintf("%s[%d]", place, i)
		other, taken := first[joined(d)]
		stars := strings.Count(d.Value, "*")
		switch {
		case d.Key == "":
			c.refuse(place+".key", "is required")
		case taken:
			c.refuse(place, "has the same key and value as descriptors[%d]: both are %s", other, printable.Quote(joined(d)))
		case isLiteral(d):
		case strings.Contains(d.Key, "*"):
			c.refuse(place+".key", "must not have a *: wildcards are for values")
		case stars > 1 || stars == 1 && !isWildcard(d):
			c.refuse(place+".value", "can have one * at its end only: before March 2026 envoyproxy/ratelimit compares any other * "+
				"as an ordinary character, since then it is a wildcard")
		case d.ShareThreshold && !isWildcard(d):
			c.refuse(place+".share_threshold", "is only possible with a value that ends in *")
		}
		first[joined(d)] = i
	}
	return len(c.problems) == before
}

// isLiteral reports whether a * is an ordinary character. The key and the value of a route in
// Envoy Gateway are its name, which has a * in place of a host name that is not set, and
// that name is what proxies send.
func isLiteral(d *Descriptor) bool { return d.Key == d.Value && strings.Contains(d.Key, "*") }

// valueOf is the value in a rule. A rule has no * but at the end: if it is an ordinary
// character, the key decides.
func valueOf(d *Descriptor) string {
	if !isLiteral(d) {
		return d.Value
	}
	begin, _, _ := strings.Cut(d.Value, "*")
	return begin + "*"
}

func isWildcard(d *Descriptor) bool { return strings.HasSuffix(d.Value, "*") }

// findings are what was found in a configuration, bounded.
type findings struct {
	notes, problems []Note
}

func (f *findings) note(place, format string, args ...any) { add(&f.notes, place, format, args...) }

func (f *findings) refuse(place, format string, args ...any) {
	add(&f.problems, place, format, args...)
}

func add(to *[]Note, place, format string, args ...any) {
	if len(*to) < maxNotes {
		*to = append(*to, Note{Place: place, Message: fmt.Sprintf(format, args...)})
	}
}
