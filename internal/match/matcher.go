package match

import (
	"fmt"
	"net/netip"
	"slices"
)

// Rule is what one rule matches, and how it stands to the others. A condition that
// is left out holds for every request; all others must hold together.
type Rule struct {
	// Paths and ExcludePaths are patterns. A rule without Paths matches every path;
	// one of ExcludePaths takes the path out again.
	Paths, ExcludePaths []string
	// Methods are compared without regard to case; "*" is any method.
	Methods []string
	// Hosts are names such as "api.example.com", or "*.example.com" for one or more
	// labels in front. Case, port and a trailing dot do not count.
	Hosts []string
	// Headers and Attributes must match under every name, each with one of its
	// values; "*" is any value that is not empty. Header names are compared without
	// regard to case, and any line of a header may match.
	Headers, Attributes map[string][]string
	// IPs are networks. IPv4-mapped IPv6 counts as IPv4, here and in the request, so
	// an IPv6 network never holds an IPv4 address.
	IPs []netip.Prefix
	// Users are user ids.
	Users []string
	// APIKeys are keys, or digests of keys as "sha256:" and 64 hexadecimal digits.
	// Only digests are kept.
	APIKeys []string

	// Group names rules of which only the first that matches applies.
	Group string
	// Shadow rules are measured only: they displace no enforced rule of their group
	// and end no evaluation.
	Shadow bool
	// Final rules (allow, deny) end the evaluation when they apply.
	Final bool
}

// Request is what is known about a call. What is unknown is left empty, and matches
// only rules that do not ask for it.
type Request struct {
	Path   string // as sent: percent-encoded, without the query
	Method string
	Host   string // with or without port
	IP     netip.Addr
	User   string
	APIKey string
	// Headers has canonical names ([textproto.CanonicalMIMEHeaderKey]), as net/http
	// builds them, or lower-case ones, as gRPC does.
	Headers    map[string][]string
	Attributes map[string]string
}

// Matcher finds the rules that apply to a request. It does not change and may be
// shared between goroutines.
type Matcher struct {
	trie  trie
	index index
	rules []rule
	// marks is how many marks the groups have, two each.
	marks int32
	// hosts tells that at least one rule asks for the host, so it has to be read.
	hosts bool
}

// maxRules leaves room for what is counted in twos: candidates and marks of groups.
const maxRules = 1 << 29

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
	if len(rules) > maxRules {
		return nil, fmt.Errorf("%d rules are too many, at most %d are possible: split the rule set", len(rules), maxRules)
	}
	m := &Matcher{rules: make([]rule, len(rules))}
	patterns := newTrieBuilder()
	filed := make(map[int32][]int32) // rules by the last node of their patterns
	choices := make([][]choice, len(rules))
	groups := make(map[string]int32)
	for i := range rules {
		source := &rules[i]
		when, anchors, err := compileConditions(source)
		if err != nil {
			return nil, &RuleError{Index: i, Err: err}
		}
		nodes, err := addPaths(patterns, source.Paths)
		if err != nil {
			return nil, &RuleError{Index: i, Err: err}
		}
		for _, n := range nodes {
			filed[n] = append(filed[n], int32(i))
		}
		choices[i] = anchors
		m.hosts = m.hosts || len(source.Hosts) > 0
		m.rules[i] = rule{
			when:   when,
			group:  groupNumber(groups, source.Group),
			shadow: source.Shadow,
			final:  source.Final,
		}
	}
	m.marks = 2 * int32(len(groups))

	b := indexBuilder{rules: m.rules, choices: choices}
	for n := range patterns.nodes {
		if list := filed[int32(n)]; list != nil {
			patterns.nodes[n].accept = b.file(list)
		}
	}
	var err error
	if m.index, err = b.build(); err != nil {
		return nil, err
	}
	if m.trie, err = patterns.build(); err != nil {
		return nil, err
	}
	return m, nil
}

// addPaths inserts the patterns of one rule and returns their last nodes, each once.
func addPaths(b *trieBuilder, paths []string) ([]int32, error) {
	if len(paths) == 0 {
		return []int32{b.add([]segment{{kind: anySegments}})}, nil
	}
	nodes := make([]int32, 0, len(paths))
	for _, path := range paths {
		segments, err := parsePattern(path)
		if err != nil {
			return nil, fmt.Errorf("paths: %w", err)
		}
		nodes = append(nodes, b.add(segments))
	}
	slices.Sort(nodes)
	return slices.Compact(nodes), nil
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

// Match appends to dst the positions of the rules that apply to a request, in
// ascending order, and returns the extended slice.
//
// Of the enforced rules of a group that match, only the first applies. Of its shadow
// rules only the first, and only if it stands before that enforced rule, which it
// would have displaced. An enforced final rule that applies is the last one.
//
// The request is not changed and not kept. If dst has room, no ordinary request
// allocates. One does that has more than 512 bytes of API key or of path to clean, or
// more candidates than the 64 rules that may match one request.
func (m *Matcher) Match(req *Request, dst []int32) []int32 {
	host := ""
	if m.hosts {
		host = hostName(req.Host)
	}
	if !IsClean(req.Path) || hasUpper(host) {
		return m.matchRespelled(req, host, dst)
	}
	return m.match(req, req.Path, host, dst)
}

// matchRespelled is Match for a request whose path or host has to be rewritten
// first. It stands apart so that other requests need not set its buffers aside.
//
//go:noinline
func (m *Matcher) matchRespelled(req *Request, host string, dst []int32) []int32 {
	var pathBuf [pathBuffer]byte
	var hostBuf [maxHostBytes]byte
	path := CleanPath(pathBuf[:0], req.Path)
	return m.match(req, view(path), view(appendLower(hostBuf[:0], host)), dst)
}

// match is Match for a clean path and a host name in lower case.
func (m *Matcher) match(req *Request, path, host string, dst []int32) []int32 {
	var placeBuf [32]int32
	var candidateBuf [64]candidate
	q := query{req: req, path: path, host: host, ip: plainAddr(req.IP)}
	candidates := candidateBuf[:0]
	for _, place := range m.trie.appendMatches(placeBuf[:0], path) {
		candidates = m.index.appendCandidates(candidates, place, &q)
	}
	if !slices.IsSorted(candidates) {
		slices.Sort(candidates)
	}
	return m.appendApplying(dst, candidates, &q)
}
