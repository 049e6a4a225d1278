package match

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate/internal/netset"
)

// conditions are what a rule asks for beside its paths. Whatever is empty holds for
// every request.
type conditions struct {
	// count is how many there are. Every header and attribute is one, and so are all
	// exceptions of a descriptor.
	count      int
	until      int64    // when the rule ends, in microseconds since 1970
	methods    []string // upper case
	texts      []textCondition
	attributes []named
	headers    []named
	descriptor []entryCondition
	hosts      hostSet
	ips        netset.Set
	apiKeys    valueSet // their digests
	exclude    *Paths
	ignoreCase bool // of exclude
}

// obstacle returns the first condition that does not hold, with its name if it is one of
// several headers, attributes or entries of a descriptor, or nothing if all hold.
func (c *conditions) obstacle(q *query) (obstacle Obstacle, name string) {
	switch {
	case c.until <= q.req.Now:
		return ObstacleExpired, ""
	case c.exclude != nil && c.excludes(q):
		return ObstacleExcludedPath, ""
	case len(c.methods) > 0 && !c.hasMethod(q.req.Method):
		return ObstacleMethod, ""
	case !c.hosts.empty() && !c.hosts.has(q.host):
		return ObstacleHost, ""
	}
	for i := range c.headers {
		if h := &c.headers[i]; !h.acceptsOne(q.req.Headers[h.name]) && !h.acceptsOne(q.req.Headers[h.lower]) {
			return ObstacleHeader, h.spelled
		}
	}
	for i := range c.attributes {
		a := &c.attributes[i]
		if value, given := q.req.Attributes[a.name]; !given || !a.accepts(value) {
			return ObstacleAttribute, a.spelled
		}
	}
	if len(c.descriptor) > 0 {
		if name, other := c.otherDescriptor(q.req.Descriptor); other {
			return ObstacleDescriptor, name
		}
	}
	if c.ips != nil && !c.ips.Has(q.ip) {
		return ObstacleIP, ""
	}
	for i := range c.texts {
		if t := &c.texts[i]; !t.set.has(q.req.text(t.Text)) {
			return t.Why, ""
		}
	}
	if !c.apiKeys.empty() && (q.req.APIKey == "" || !c.apiKeys.has(q.keyDigest())) {
		return ObstacleAPIKey, ""
	}
	return "", ""
}

func (c *conditions) excludes(q *query) bool {
	if c.ignoreCase {
		return c.exclude.matchReading(q.folded)
	}
	return c.exclude.matchReading(q.path)
}

func (c *conditions) hasMethod(method string) bool {
	for _, m := range c.methods {
		if sameMethod(method, m) || m == "GET" && sameMethod(method, "HEAD") {
			return true
		}
	}
	return false
}

// sameMethod compares without regard to case. Letters beyond ASCII that are folded to one are longer.
func sameMethod(a, b string) bool { return len(a) == len(b) && strings.EqualFold(a, b) }

// A Condition is what a rule asks for of a request beside its path. One without values
// holds for every request. Any order will do. Package rules has validated its values.
type Condition interface {
	addTo(c *compilation)
}

// A compilation is the conditions of a rule while they are compiled.
type compilation struct {
	conditions
	choices []choice // the conditions under which the rule can be filed
	err     error
}

// file adds a condition under which the rule can be filed.
func (c *compilation) file(values choice) {
	c.count++
	c.choices = append(c.choices, values)
}

// compileConditions returns the conditions of a rule, nil if there are none, and
// the ways in which it can be filed, the preferred one first.
func compileConditions(r *Rule) (*conditions, []choice, error) {
	c := compilation{conditions: conditions{ignoreCase: r.IgnoreCase, until: math.MaxInt64}}
	for _, condition := range r.Conditions {
		condition.addTo(&c)
	}
	if c.count == 0 {
		return nil, nil, c.err
	}
	slices.SortStableFunc(c.choices, func(a, b choice) int { return cmp.Compare(a[0].kind, b[0].kind) })
	compiled := c.conditions // a copy, which does not keep the choices in memory
	return &compiled, c.choices, c.err
}

// Until is when the rule ends; zero is never. The time of the request decides, so that the end
// of a rule needs no other matcher.
type Until time.Time

func (end Until) addTo(c *compilation) {
	if t := time.Time(end); !t.IsZero() {
		c.until = t.UnixMicro()
		c.count++
	}
}

// Methods are compared without regard to case; "*" is any method. GET includes HEAD, which
// routers answer with the handler for GET.
type Methods []string

func (methods Methods) addTo(c *compilation) {
	if len(methods) == 0 || slices.Contains(methods, "*") {
		return
	}
	for _, method := range methods {
		c.methods = append(c.methods, strings.ToUpper(method))
	}
	c.count++
}

// ExcludePaths are patterns that take paths out again, with regard to case as Paths.
type ExcludePaths []string

func (patterns ExcludePaths) addTo(c *compilation) {
	if len(patterns) == 0 {
		return
	}
	parse := parsePattern
	if c.ignoreCase {
		parse = parseFolded
	}
	if c.exclude, c.err = compilePaths(patterns, parse); c.err != nil {
		c.err = fmt.Errorf("excludePaths: %w", c.err)
	}
	c.count++
}
