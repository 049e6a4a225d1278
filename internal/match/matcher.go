package match

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Rule is what one rule matches, and how it relates to the others. A condition that
// is left out holds for every request; all others must hold together.
type Rule struct {
	// Paths are patterns. A rule without them matches every path.
	Paths []string
	// IgnoreCase compares Paths and [ExcludePaths] without regard to case.
	IgnoreCase bool
	// Conditions are what else must hold.
	Conditions []Condition

	// Group names rules of which only the first that matches applies.
	Group string
	// Shadow rules are measured only: they displace no enforced rule of their group
	// and end no evaluation.
	Shadow bool
	// Final rules (allow, deny) end the evaluation when they apply.
	Final bool
}

// Matcher finds the rules that apply to a request. It does not change and may be
// shared between goroutines.
type Matcher struct {
	trie trie
	// folded has the patterns of rules that ignore case, for paths in lower case. It
	// is nil if there are none.
	folded *trie
	index  index
	rules  []rule
	leaves [][]int32 // of each rule, where its patterns end
	// hosts and ignoresCase tell that at least one rule asks for the host or ignores
	// the case of the path, so that they have to be read.
	hosts, ignoresCase bool
}

// A RuleError tells which rule could not be compiled.
type RuleError struct {
	Index int // position in the list given to Compile
	Err   error
}

// Error says which rule it is by its position; a caller that knows its id takes Err.
func (e *RuleError) Error() string { return fmt.Sprintf("rule %d: %v", e.Index, e.Err) }

// Unwrap returns what is wrong with the rule.
func (e *RuleError) Unwrap() error { return e.Err }

// Compile builds the matcher of a list of rules, highest priority first. An error
// about one of the rules is a [*RuleError].
func Compile(rules []Rule) (*Matcher, error) {
	m := &Matcher{rules: make([]rule, len(rules))}
	patterns, folded := newPatternSet(parsePattern), newPatternSet(parseFolded)
	choices := make([][]choice, len(rules))
	groups := make(map[string]int32)
	for i := range rules {
		source := &rules[i]
		when, anchors, err := compileConditions(source)
		if err != nil {
			return nil, &RuleError{Index: i, Err: err}
		}
		set := patterns
		if source.IgnoreCase && len(source.Paths) > 0 {
			set = folded
		}
		if err := set.add(int32(i), source.Paths); err != nil {
			return nil, &RuleError{Index: i, Err: err}
		}
		choices[i] = anchors
		m.hosts = m.hosts || when != nil && !when.hosts.empty()
		m.ignoresCase = m.ignoresCase || source.IgnoreCase
		m.rules[i] = rule{
			when:   when,
			group:  groupNumber(groups, source.Group),
			shadow: source.Shadow,
			final:  source.Final,
		}
	}

	b := newIndexBuilder(m.rules, choices)
	m.trie = patterns.build(b)
	if len(folded.filed) > 0 {
		t := folded.build(b)
		m.folded = &t
	}
	m.leaves, m.index = b.leaves, b.build()
	return m, nil
}

// A patternSet collects the patterns of rules.
type patternSet struct {
	parse   func(string) ([]segment, error)
	builder *trieBuilder
	filed   map[int32][]int32 // rules by the last node of their patterns
}

func newPatternSet(parse func(string) ([]segment, error)) *patternSet {
	return &patternSet{parse: parse, builder: newTrieBuilder(), filed: make(map[int32][]int32)}
}

// add adds the patterns of one rule. A rule without patterns matches every path.
func (p *patternSet) add(rule int32, paths []string) error {
	if len(paths) == 0 {
		paths = []string{"/**"}
	}
	nodes := make([]int32, 0, len(paths))
	for _, path := range paths {
		segments, err := p.parse(path)
		if err != nil {
			return fmt.Errorf("paths: %w", err)
		}
		nodes = append(nodes, p.builder.add(segments))
	}
	slices.Sort(nodes)
	for _, n := range slices.Compact(nodes) {
		p.filed[n] = append(p.filed[n], rule)
	}
	return nil
}

// build files the rules and lays the patterns out. The set is used up.
func (p *patternSet) build(b *indexBuilder) trie {
	for n := range p.builder.nodes {
		if list := p.filed[int32(n)]; list != nil {
			p.builder.nodes[n].accept = b.addLeaf(list)
		}
	}
	return p.builder.build()
}

// groupNumber numbers groups as they come; rules without group have none.
func groupNumber(groups map[string]int32, name string) int32 {
	if name == "" {
		return none
	}
	number, known := groups[name]
	if !known {
		number = int32(len(groups))
		groups[name] = number
	}
	return number
}

// Matches is what [Matcher.Match] finds.
type Matches struct {
	// Rules are the positions of the rules that apply in at least one reading of the
	// path, in ascending order.
	Rules []int32
	// Enforced means that an enforced rule applies in every reading.
	Enforced bool
	// Ends and Final mean that an enforced final rule ends the evaluation of at least
	// one reading and of every reading.
	Ends, Final bool
}

// Match finds the rules that apply to a request. It uses the space of dst.
//
// A path has one or more readings ([Readings]), and each is evaluated by itself: of
// the enforced rules of a group that match, only the first applies. Of its shadow
// rules only the first, and only if it comes before that enforced rule, which it
// would have displaced. An enforced final rule that applies is the last one.
//
// The request is not changed and not kept. If dst has room, no ordinary request
// allocates. One does that has more than 512 bytes of API key, 1,024 of readings, more
// than 64 candidates, rules of more than 8 groups, an upper-case path where rules ignore case,
// or an upper-case host.
func (m *Matcher) Match(req *Request, dst []int32) Matches {
	q := query{req: req, ip: plainAddr(req.IP)}
	if m.hosts {
		q.host = plainHost(req.Host)
	}
	q.path = cmp.Or(req.Path, "/") // what Envoy sends has no path
	if !IsClean(q.path) {
		return m.matchReadings(&q, dst[:0])
	}
	q.folded = m.fold(q.path)
	found := Matches{Rules: m.match(&q, dst[:0]), Enforced: true, Final: true}
	found.add(m.rules, found.Rules)
	return found
}

// matchReadings is Match for a request whose path may have several readings. It is a function of its own so that other requests need no
// room for its buffers.
//
//go:noinline
func (m *Matcher) matchReadings(asked *query, dst []int32) Matches {
	q := *asked // a copy that may point into the buffers here
	var pathBuf [pathBuffer]byte
	found := Matches{Enforced: true, Final: true}
	readings := readingsOf(pathBuf[:], q.req.Path)
	for i := range readings.count {
		q.path = readings.at(i)
		q.folded = m.fold(q.path)
		first := len(dst)
		dst = m.match(&q, dst)
		found.add(m.rules, dst[first:])
	}
	if readings.count > 1 {
		slices.Sort(dst)
		dst = slices.Compact(dst)
	}
	found.Rules = dst
	return found
}

// add takes the rules that apply in one more reading into account.
func (m *Matches) add(rules []rule, applying []int32) {
	enforced := false
	for _, i := range applying {
		enforced = enforced || !rules[i].shadow
	}
	m.Enforced = m.Enforced && enforced
	final := ends(rules, applying)
	m.Ends, m.Final = m.Ends || final, m.Final && final
}

// ends reports whether the last of the applying rules ends the evaluation.
func ends(rules []rule, applying []int32) bool {
	if len(applying) == 0 {
		return false
	}
	last := &rules[applying[len(applying)-1]]
	return last.final && !last.shadow
}

// match appends the rules that apply in one reading of the path.
func (m *Matcher) match(q *query, dst []int32) []int32 {
	var leafBuf [32]int32
	var candidateBuf [64]candidate
	candidates := candidateBuf[:0]
	for _, leaf := range m.appendLeaves(leafBuf[:0], q) {
		candidates = m.index.appendCandidates(candidates, leaf, q)
	}
	if !slices.IsSorted(candidates) {
		slices.Sort(candidates)
	}
	return m.appendApplying(dst, candidates, q)
}

// fold returns a path in lower case if a rule ignores case. It does not set the field of
// a query itself, since a method that did would make the path escape to the heap.
func (m *Matcher) fold(path string) string {
	if !m.ignoresCase {
		return ""
	}
	return strings.ToLower(path)
}

// appendLeaves appends where the patterns end that match a path in one reading.
func (m *Matcher) appendLeaves(dst []int32, q *query) []int32 {
	dst = m.trie.appendMatches(dst, q.path)
	if m.folded != nil {
		dst = m.folded.appendMatches(dst, q.folded)
	}
	return dst
}
