package match

import (
	"math"
	"slices"
	"strings"
)

// Comparison compares the rules of a list with each other. It answers yes only where it has a
// proof: for example, it does not see that two patterns together match what a third one matches.
//
// Rules are untrusted, so the work of all answers together is bounded. It is not safe for
// concurrent use.
type Comparison struct {
	matcher *Matcher
	rules   []Rule
	steps   int // left; below 0 there are no more answers
}

// Compare compiles rules, highest priority first, for comparing them in a number of steps. An
// error about one of the rules is a [*RuleError].
func Compare(rules []Rule, steps int) (*Comparison, error) {
	matcher, err := Compile(rules)
	if err != nil {
		return nil, err
	}
	return &Comparison{matcher: matcher, rules: rules, steps: steps}, nil
}

// Exhausted reports whether there are no steps left. Answers are no from then on.
func (c *Comparison) Exhausted() bool { return c.steps < 0 }

func (c *Comparison) spend(steps int) bool {
	c.steps -= steps
	return c.steps >= 0
}

// Covering returns the positions of the other rules whose own conditions hold for each request,
// in each reading of its path, for which those of rule b hold, in ascending order. Groups and
// final rules are not taken into account.
func (c *Comparison) Covering(b int) (found []int32) {
	q := c.typical(b)
	for i, pattern := range c.patterns(b) {
		leaves := c.coveringLeaves(pattern, c.rules[b].IgnoreCase)
		if i == 0 {
			found = c.candidates(b, leaves, &q)
		} else {
			found = c.endingIn(found, leaves)
		}
		if len(found) == 0 || c.Exhausted() {
			return nil
		}
	}
	found = slices.DeleteFunc(found, func(a int32) bool { return !c.implied(int(a), b) })
	if c.Exhausted() {
		return nil
	}
	return found
}

// candidates returns the rules with a pattern at one of the leaves that may hold for a request.
// The conditions of a rule that covers another hold for every request of the other, so it is
// found by one of them.
func (c *Comparison) candidates(b int, leaves []int32, q *query) (rules []int32) {
	var candidates []candidate
	for _, leaf := range leaves {
		before, anchors := len(candidates), c.matcher.index.leaves[leaf].anchorCount
		candidates = c.matcher.index.appendCandidates(candidates, leaf, q)
		if !c.spend(1 + 2*int(anchors) + len(candidates) - before) {
			return nil
		}
	}
	if !slices.IsSorted(candidates) {
		slices.Sort(candidates)
	}
	for _, candidate := range candidates {
		rule := candidate.rule()
		if n := len(rules); rule != int32(b) && (n == 0 || rules[n-1] != rule) {
			rules = append(rules, rule)
		}
	}
	return rules
}

// endingIn returns those of the rules that have a pattern at one of the leaves.
func (c *Comparison) endingIn(rules, leaves []int32) []int32 {
	slices.Sort(leaves)
	return slices.DeleteFunc(rules, func(rule int32) bool {
		own := c.matcher.leaves[rule]
		return !c.spend(len(own)) || !slices.ContainsFunc(own, func(leaf int32) bool {
			_, found := slices.BinarySearch(leaves, leaf)
			return found
		})
	})
}

// Never reports whether the paths that a rule excludes are all of its paths.
func (c *Comparison) Never(b int) bool {
	when := c.matcher.rules[b].when
	if when == nil || when.exclude == nil {
		return false
	}
	return !slices.ContainsFunc(c.patterns(b), func(pattern []segment) bool {
		return !c.covers(&when.exclude.trie, pattern)
	})
}

// Apart reports whether no request can match both rules, by their paths and methods.
func (c *Comparison) Apart(a, b int) bool {
	if c.methodsApart(c.matcher.rules[a].when, c.matcher.rules[b].when) {
		return true
	}
	folded := c.rules[a].IgnoreCase || c.rules[b].IgnoreCase
	other := c.patterns(b)
	return !slices.ContainsFunc(c.patterns(a), func(p []segment) bool {
		return slices.ContainsFunc(other, func(q []segment) bool { return c.meet(p, q, folded) })
	})
}

func (c *Comparison) methodsApart(a, b *conditions) bool {
	return a != nil && b != nil && len(a.methods) > 0 && len(b.methods) > 0 && c.spend(len(a.methods)*len(b.methods)) &&
		!slices.ContainsFunc(a.methods, b.hasMethod) && !slices.ContainsFunc(b.methods, a.hasMethod)
}

// patterns returns the patterns of a rule.
func (c *Comparison) patterns(rule int) [][]segment {
	r := &c.rules[rule]
	if len(r.Paths) == 0 {
		return [][]segment{{{kind: anySegments}}}
	}
	return c.parsed(r.Paths, r.IgnoreCase)
}

// parsed parses patterns that were compiled before.
func (c *Comparison) parsed(patterns []string, folded bool) [][]segment {
	parse := parsePattern
	if folded {
		parse = parseFolded
	}
	list := make([][]segment, len(patterns))
	for i, pattern := range patterns {
		list[i], _ = parse(pattern)
		c.spend(10 * (len(list[i]) + 1)) // each is an allocation
	}
	return list
}

// typical returns a request for which the conditions of a rule hold, except for path, method,
// time and exceptions, as far as the index needs it.
func (c *Comparison) typical(rule int) query {
	req := &Request{Headers: map[string][]string{}, Attributes: map[string]string{}}
	q := query{req: req}
	when := c.matcher.rules[rule].when
	if when == nil {
		return q
	}
	for i := range when.texts {
		req.User = when.texts[i].set.first() // the only text
	}
	for i := range when.headers {
		h := &when.headers[i]
		req.Headers[h.name] = append(req.Headers[h.name], h.typical())
	}
	for i := range when.attributes {
		req.Attributes[when.attributes[i].name] = when.attributes[i].typical()
	}
	if !when.hosts.empty() {
		q.host = when.hosts.names.first()
		if suffixLength(q.host) > 0 {
			q.host = unlisted + q.host
		}
	}
	if when.ips != nil {
		q.ip = when.ips[0].Addr()
	}
	for i := range when.descriptor {
		entry := DescriptorEntry{Key: when.descriptor[i].key, Value: when.descriptor[i].text}
		if when.descriptor[i].begin {
			entry.Value += unlisted
		}
		req.Descriptor = append(req.Descriptor, entry)
	}
	if !when.apiKeys.empty() {
		req.APIKey, q.hashed = unlisted, true
		copy(q.digest[:], when.apiKeys.first())
	}
	return q
}

// unlisted is a value that a condition for any value accepts.
const unlisted = "\x00"

func (n *named) typical() string {
	if n.any {
		return unlisted
	}
	return n.values.first()
}

// implied reports whether the conditions of rule a beside its paths hold for each request of rule b.
func (c *Comparison) implied(a, b int) bool {
	x, y := c.matcher.rules[a].when, c.matcher.rules[b].when
	if x == nil {
		return true
	}
	if y == nil {
		y = &conditions{until: math.MaxInt64}
	}
	return c.spend(1) && x.until >= y.until &&
		c.methodsImplied(x, y) &&
		c.hostsImplied(x, y) &&
		c.namedImplied(x.headers, y.headers) &&
		c.namedImplied(x.attributes, y.attributes) &&
		c.textsImplied(x, y) &&
		(x.apiKeys.empty() || c.within(&y.apiKeys, &x.apiKeys)) &&
		c.networksImplied(x, y) &&
		c.descriptorImplied(x.descriptor, y.descriptor) &&
		c.exclusionsImplied(a, b)
}

// within reports whether some values, at least one, are all in a set.
func (c *Comparison) within(values, set *valueSet) bool {
	if values.empty() {
		return false
	}
	for v := range values.all() {
		if !c.spend(1) || !set.has(v) {
			return false
		}
	}
	return true
}

func (c *Comparison) methodsImplied(x, y *conditions) bool {
	if len(x.methods) == 0 {
		return true
	}
	// Of a rule for GET, which includes HEAD, hasMethod asks for GET itself.
	return len(y.methods) > 0 && c.spend(len(x.methods)*len(y.methods)) &&
		!slices.ContainsFunc(y.methods, func(m string) bool { return !x.hasMethod(m) })
}

func (c *Comparison) hostsImplied(x, y *conditions) bool {
	if x.hosts.empty() {
		return true
	}
	if y.hosts.empty() {
		return false
	}
	for host := range y.hosts.names.all() {
		if !c.spend(1) || !x.hosts.has(host) && (suffixLength(host) == 0 || !x.hosts.names.has(host)) {
			return false
		}
	}
	return true
}

// namedImplied is about headers or attributes.
func (c *Comparison) namedImplied(x, y []named) bool {
	for i := range x {
		if !slices.ContainsFunc(y, func(n named) bool { return c.spend(1) && n.name == x[i].name && c.valuesImplied(&x[i], &n) }) {
			return false
		}
	}
	return true
}

func (c *Comparison) valuesImplied(x, y *named) bool {
	if y.any && !x.any {
		return false
	}
	for v := range y.values.all() {
		if !c.spend(1) || !x.accepts(v) {
			return false
		}
	}
	return true
}

func (c *Comparison) textsImplied(x, y *conditions) bool {
	for i := range x.texts {
		want := &x.texts[i]
		if !slices.ContainsFunc(y.texts, func(t textCondition) bool { return t.Text == want.Text && c.within(&t.set, &want.set) }) {
			return false
		}
	}
	return true
}

func (c *Comparison) networksImplied(x, y *conditions) bool {
	if x.ips == nil {
		return true
	}
	for _, network := range y.ips {
		if !c.spend(len(x.ips)/64+1) || !x.ips.HasAll(network) {
			return false
		}
	}
	return y.ips != nil
}

func (c *Comparison) descriptorImplied(x, y []entryCondition) bool {
	if len(x) == 0 {
		return true
	}
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		if x[i].key != y[i].key || !x[i].includes(&y[i].valueForm) || !c.exceptionsImplied(&x[i], &y[i]) {
			return false
		}
	}
	return true
}

// includes reports whether every value of a form has this form.
func (f *valueForm) includes(other *valueForm) bool {
	return f.text == other.text && f.begin == other.begin || f.begin && strings.HasPrefix(other.text, f.text)
}

// exceptionsImplied reports whether no value that y accepts is an exception of x.
func (c *Comparison) exceptionsImplied(x, y *entryCondition) bool {
	for v := range x.except.values.all() {
		if !c.spend(1) || y.accepts(v) && !y.except.has(v) {
			return false
		}
	}
	for begin := range x.except.beginnings.all() {
		if !c.spend(1) {
			return false
		}
		switch {
		case y.begin && strings.HasPrefix(y.text, begin), !y.begin && strings.HasPrefix(y.text, begin):
			return false
		case y.begin && strings.HasPrefix(begin, y.text) && !y.except.hasBeginning(begin):
			return false
		}
	}
	return true
}

// hasBeginning reports whether all values with a beginning are exceptions.
func (x *exceptions) hasBeginning(begin string) bool {
	return slices.ContainsFunc(x.lengths, func(n int) bool { return n <= len(begin) && x.beginnings.has(begin[:n]) })
}

// exclusionsImplied reports whether rule a excludes no path of rule b.
func (c *Comparison) exclusionsImplied(a, b int) bool {
	if c.matcher.rules[a].when.exclude == nil {
		return true
	}
	var excluded *Paths
	if when := c.matcher.rules[b].when; when != nil {
		excluded = when.exclude
	}
	aFolded, bFolded := c.rules[a].IgnoreCase, c.rules[b].IgnoreCase
	own := c.patterns(b)
	for _, pattern := range c.parsed(c.excludedBy(a), aFolded) {
		if excluded != nil && c.covers(&excluded.trie, recased(pattern, aFolded, bFolded)) {
			continue
		}
		meets := func(p []segment) bool { return c.meet(p, pattern, aFolded || bFolded) }
		if slices.ContainsFunc(own, meets) {
			return false
		}
	}
	return true
}

func (c *Comparison) excludedBy(rule int) (patterns []string) {
	for _, condition := range c.rules[rule].Conditions {
		if list, ok := condition.(ExcludePaths); ok {
			patterns = list
		}
	}
	return patterns
}
