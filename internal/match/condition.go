package match

import (
	"errors"
	"fmt"
	"maps"
	"net/textproto"
	"slices"
	"strings"
)

// conditions are what a rule asks for beside its paths. Whatever is empty holds for
// every request.
type conditions struct {
	count      int      // how many there are; every attribute and header is one, and so are all exceptions of a descriptor
	methods    []string // upper case
	users      valueSet
	attributes []named
	headers    []named
	descriptor []entryCondition
	hosts      hostSet
	ips        addrRanges
	apiKeys    map[digest]struct{}
	exclude    *Paths
	ignoreCase bool // of exclude
}

// named is the condition on one header or attribute.
type named struct {
	spelled string // as in the rule
	name    string // of a header: as net/http spells it
	lower   string // of a header: as gRPC spells it
	any     bool   // any value that is not empty will do
	values  valueSet
}

// obstacle returns the first condition that does not hold, with its name if it is one of
// several headers, attributes or entries of a descriptor, or nothing if all hold.
func (c *conditions) obstacle(q *query) (obstacle Obstacle, name string) {
	switch {
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
	switch {
	case c.ips != nil && !c.ips.has(q.ip):
		return ObstacleIP, ""
	case !c.users.empty() && !c.users.has(q.req.User):
		return ObstacleUser, ""
	case c.apiKeys != nil && !c.hasAPIKey(q):
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
		if equalUpper(method, m) || m == "GET" && equalUpper(method, "HEAD") {
			return true
		}
	}
	return false
}

// equalUpper reports whether s, with ASCII letters in upper case, equals upper.
func equalUpper(s, upper string) bool {
	if len(s) != len(upper) {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		if c != upper[i] {
			return false
		}
	}
	return true
}

func (n *named) accepts(value string) bool {
	return n.any && value != "" || n.values.has(value)
}

func (n *named) acceptsOne(lines []string) bool { return slices.ContainsFunc(lines, n.accepts) }

func (c *conditions) hasAPIKey(q *query) bool {
	if q.req.APIKey == "" {
		return false
	}
	_, known := c.apiKeys[q.keyDigest()]
	return known
}

// compileConditions returns the conditions of a rule, nil if there are none, and
// the ways in which it can be filed, the preferred one first.
func compileConditions(r *Rule) (*conditions, []choice, error) {
	var c conditions
	var choices []choice
	var err error
	if c.methods, err = compileMethods(r.Methods); err != nil {
		return nil, nil, err
	}
	if slices.Contains(r.Users, "") {
		return nil, nil, errors.New("users: an entry is empty: write the user's id, or leave users out to match every request")
	}
	c.users = newValueSet(r.Users)
	choices = appendChoice(choices, anchorID{kind: byUser}, r.Users)

	if c.attributes, err = compileNamed("attributes", r.Attributes); err != nil {
		return nil, nil, err
	}
	choices = appendNamedChoices(choices, byAttribute, c.attributes)
	if c.headers, err = compileNamed("headers", r.Headers); err != nil {
		return nil, nil, err
	}
	for i := range c.headers {
		h := &c.headers[i]
		h.lower = strings.ToLower(h.name)
		h.name = textproto.CanonicalMIMEHeaderKey(h.name)
	}
	choices = appendNamedChoices(choices, byHeader, c.headers)

	hosts, err := parseHosts(r.Hosts)
	if err != nil {
		return nil, nil, err
	}
	c.hosts = newHostSet(hosts)
	choices = appendChoice(choices, anchorID{kind: byHost}, hosts)

	networks, err := plainPrefixes(r.IPs)
	if err != nil {
		return nil, nil, err
	}
	c.ips = newAddrRanges(networks)
	choices = appendNetworkChoice(choices, networks)

	if c.descriptor, err = compileDescriptor(r.Descriptor); err != nil {
		return nil, nil, err
	}
	choices = appendDescriptorChoice(choices, c.descriptor)

	keys, err := parseAPIKeys(r.APIKeys)
	if err != nil {
		return nil, nil, err
	}
	c.apiKeys = newDigestSet(keys)
	choices = appendKeyChoice(choices, keys)

	if len(r.ExcludePaths) > 0 {
		parse := parsePattern
		if c.ignoreCase = r.IgnoreCase; c.ignoreCase {
			parse = parseFolded
		}
		if c.exclude, err = compilePaths(r.ExcludePaths, parse); err != nil {
			return nil, nil, fmt.Errorf("excludePaths: %w", err)
		}
	}
	if c.count = c.countAll(); c.count == 0 {
		return nil, nil, nil
	}
	return &c, choices, nil
}

func (c *conditions) countAll() int {
	count := len(c.attributes) + len(c.headers)
	for _, given := range []bool{
		len(c.methods) > 0, !c.users.empty(), !c.hosts.empty(), c.ips != nil, c.apiKeys != nil, c.exclude != nil,
		len(c.descriptor) > 0, slices.ContainsFunc(c.descriptor, func(e entryCondition) bool { return !e.except.empty() }),
	} {
		if given {
			count++
		}
	}
	return count
}

func compileMethods(methods []string) ([]string, error) {
	if slices.Contains(methods, "") {
		return nil, errors.New(`methods: an entry is empty: write a method, or "*" for any`)
	}
	if slices.Contains(methods, "*") {
		return nil, nil
	}
	var upper []string
	for _, method := range methods {
		upper = append(upper, strings.ToUpper(method))
	}
	return upper, nil
}

// compileNamed returns the conditions on attributes or headers in the order of their
// names, so that rules which could be filed under several agree on the first. Values
// may be secrets and stay out of the errors.
func compileNamed(field string, conditions map[string][]string) ([]named, error) {
	var compiled []named
	for _, name := range slices.Sorted(maps.Keys(conditions)) {
		values := conditions[name]
		if name == "" {
			return nil, fmt.Errorf("%s: a name is empty", field)
		}
		if len(values) == 0 {
			return nil, fmt.Errorf(`%s: %q has no values: list them, or write "*" for any`, field, name)
		}
		compiled = append(compiled, named{
			spelled: name, name: name,
			any:    slices.Contains(values, "*"),
			values: newValueSet(values),
		})
	}
	return compiled, nil
}
