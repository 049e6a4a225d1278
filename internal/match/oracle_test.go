package match

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/netip"
	"net/textproto"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate/internal/keyfield"
)

// The oracle decides which rules apply without anything that is compiled: it compares a
// request with each rule as it was given. Match and Explain are tested against it.

// A testRule is a rule with its conditions as they are given.
type testRule struct {
	Paths, ExcludePaths []string
	IgnoreCase          bool
	Methods             []string
	Hosts               []string
	Headers, Attributes map[string][]string
	IPs                 []netip.Prefix
	Descriptor          []DescriptorMatch
	Users, APIKeys      []string
	Until               time.Time
	Group               string
	Shadow, Final       bool
}

// compileAll is [Compile]. The order of conditions means nothing.
func compileAll(rules []testRule) (*Matcher, error) { return Compile(given(rules)) }

// given returns rules as they are given to [Compile].
func given(rules []testRule) []Rule {
	list := make([]Rule, len(rules))
	for i, r := range rules {
		list[i] = Rule{
			Paths: r.Paths, IgnoreCase: r.IgnoreCase,
			Conditions: []Condition{
				APIKeys(r.APIKeys), Attributes(r.Attributes), Descriptor(r.Descriptor), ExcludePaths(r.ExcludePaths), Headers(r.Headers),
				Hosts(r.Hosts), IPs(r.IPs), Methods(r.Methods), OneOf{User, ObstacleUser, r.Users}, Until(r.Until),
			},
			Group: r.Group, Shadow: r.Shadow, Final: r.Final,
		}
	}
	return list
}

// An oracleRequest is a request in one reading of its path.
type oracleRequest struct {
	*Request
	segments []string
	folded   []string // segments in lower case
	host     string   // name only, in lower case
	ip       netip.Addr
	key      [sha256.Size]byte
	encoded  string // key in hexadecimal
}

func newOracleRequest(req *Request) *oracleRequest {
	q := &oracleRequest{
		Request: req, host: plainHost(req.Host), ip: plainAddr(req.IP), key: sha256.Sum256([]byte(req.APIKey)),
	}
	q.encoded = hex.EncodeToString(q.key[:])
	return q
}

// read sets the reading of the path.
func (q *oracleRequest) read(path string) {
	q.segments, q.folded = nil, nil
	if path != "/" {
		q.segments = strings.Split(path[1:], "/")
		q.folded = strings.Split(strings.ToLower(path[1:]), "/")
	}
}

// obstacle returns the first condition of a rule that does not hold, with its name if
// it is one of several headers, attributes or entries, or nothing if all hold.
func (q *oracleRequest) obstacle(r *testRule) (obstacle Obstacle, name string) {
	onPath := q.onPath
	if r.IgnoreCase {
		onPath = q.onFoldedPath
	}
	switch {
	case len(r.Paths) > 0 && !slices.ContainsFunc(r.Paths, onPath):
		return ObstaclePath, ""
	case !r.Until.IsZero() && !time.UnixMicro(q.Now).Before(r.Until):
		return ObstacleExpired, ""
	case slices.ContainsFunc(r.ExcludePaths, onPath):
		return ObstacleExcludedPath, ""
	case len(r.Methods) > 0 && !slices.ContainsFunc(r.Methods, q.hasMethod):
		return ObstacleMethod, ""
	case len(r.Hosts) > 0 && !slices.ContainsFunc(r.Hosts, q.atHost):
		return ObstacleHost, ""
	}
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		if !q.hasHeader(name, r.Headers[name]) {
			return ObstacleHeader, name
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Attributes)) {
		if value, given := q.Attributes[name]; !given || !accepted(value, r.Attributes[name]) {
			return ObstacleAttribute, name
		}
	}
	if name, holds := q.hasDescriptor(r.Descriptor); !holds {
		return ObstacleDescriptor, name
	}
	switch {
	case len(r.IPs) > 0 && !slices.ContainsFunc(r.IPs, q.inNetwork):
		return ObstacleIP, ""
	case len(r.Users) > 0 && !slices.Contains(r.Users, q.User):
		return ObstacleUser, ""
	case len(r.APIKeys) > 0 && !slices.ContainsFunc(r.APIKeys, q.hasKey):
		return ObstacleAPIKey, ""
	}
	return "", ""
}

func (q *oracleRequest) onPath(pattern string) bool {
	segments, err := parsePattern(pattern)
	return err == nil && matchSegments(segments, q.segments)
}

func (q *oracleRequest) onFoldedPath(pattern string) bool {
	segments, err := parseFolded(pattern)
	return err == nil && matchSegments(segments, q.folded)
}

// matchSegments reports whether a pattern matches the segments of a path. A "**"
// first matches no segment; where what follows it does not match, it matches one
// more. Only the last one is given more: an earlier one that took less leaves those
// after it every choice.
func matchSegments(pattern []segment, path []string) bool {
	at, onto := 0, 0 // in pattern and path
	again, taken := -1, 0
	for onto < len(path) {
		switch {
		case at < len(pattern) && pattern[at].kind == anySegments:
			at++
			again, taken = at, onto
		case at < len(pattern) && (pattern[at].kind == oneSegment || pattern[at].text == path[onto]):
			at++
			onto++
		case again >= 0:
			taken++
			at, onto = again, taken
		default:
			return false
		}
	}
	for at < len(pattern) && pattern[at].kind == anySegments {
		at++
	}
	return at == len(pattern)
}

func (q *oracleRequest) hasMethod(method string) bool {
	method = strings.ToUpper(method)
	return method == "*" || sameMethod(q.Method, method) || method == "GET" && sameMethod(q.Method, "HEAD")
}

func (q *oracleRequest) atHost(pattern string) bool {
	if suffix, wildcard := strings.CutPrefix(pattern, "*."); wildcard {
		front, ends := strings.CutSuffix(q.host, "."+plainHost(suffix))
		return ends && front != ""
	}
	return q.host != "" && q.host == plainHost(pattern)
}

// hasHeader looks under the two spellings that a request may use.
func (q *oracleRequest) hasHeader(name string, values []string) bool {
	for _, spelled := range []string{textproto.CanonicalMIMEHeaderKey(name), strings.ToLower(name)} {
		for _, line := range q.Headers[spelled] {
			if accepted(line, values) {
				return true
			}
		}
	}
	return false
}

func accepted(value string, values []string) bool {
	return slices.Contains(values, value) || value != "" && slices.Contains(values, "*")
}

// hasDescriptor returns the key of the first entry that is missing or differs.
func (q *oracleRequest) hasDescriptor(want []DescriptorMatch) (name string, holds bool) {
	if len(want) == 0 {
		return "", true
	}
	for i, m := range want {
		if i == len(q.Descriptor) || q.Descriptor[i].Key != m.Key {
			return m.Key, false
		}
		like := func(form string) bool { return oracleForm(form).MatchString(q.Descriptor[i].Value) }
		if !like(m.Value) || slices.ContainsFunc(m.Except, like) {
			return m.Key, false
		}
	}
	return "", len(q.Descriptor) == len(want)
}

// oracleForm is what a value in a descriptor must look like.
func oracleForm(form string) *regexp.Regexp {
	if form == "" {
		form = "*"
	}
	return regexp.MustCompile("^(?s:" + strings.ReplaceAll(regexp.QuoteMeta(form), `\*`, ".*") + ")$")
}

func (q *oracleRequest) inNetwork(network netip.Prefix) bool {
	addr, bits := network.Addr(), network.Bits()
	if addr.Is4In6() {
		addr, bits = addr.Unmap(), bits-96
	}
	return netip.PrefixFrom(addr, bits).Contains(q.ip)
}

// hasKey compares digests, so that how long it takes says nothing about the key.
func (q *oracleRequest) hasKey(entry string) bool {
	if q.APIKey == "" {
		return false
	}
	if encoded, isDigest := strings.CutPrefix(entry, keyfield.DigestPrefix); isDigest {
		return strings.EqualFold(encoded, q.encoded)
	}
	return q.key == sha256.Sum256([]byte(entry))
}

// oracle is [Matcher.Explain] as the oracle has it.
func oracle(rules []testRule, req *Request) Explanation {
	x := Explanation{Readings: Readings(req.Path), Final: true}
	q := newOracleRequest(req)
	readings := readingsOf(nil, req.Path)
	for i := range readings.count {
		q.read(readings.at(i))
		verdicts, final := oracleReading(rules, q)
		x.add(verdicts, final)
	}
	return x
}

// oracleReading is oracle for one reading of the path.
func oracleReading(rules []testRule, q *oracleRequest) (verdicts []Verdict, final bool) {
	verdicts = make([]Verdict, len(rules))
	enforced, shadow := map[string]int{}, map[string]int{} // which rule applies in each group
	end := -1
	for i := range rules {
		r, v := &rules[i], &verdicts[i]
		v.By = -1
		if v.Obstacle, v.Name = q.obstacle(r); !v.Applies() {
			continue
		}
		if r.Group != "" {
			first, taken := enforced[r.Group]
			if !taken && r.Shadow {
				first, taken = shadow[r.Group]
			}
			if taken {
				v.Obstacle, v.By = ObstacleGroup, first
				continue
			}
		}
		if end >= 0 {
			v.Obstacle, v.By = ObstacleEnded, end
			continue
		}
		switch {
		case r.Group == "":
		case r.Shadow:
			shadow[r.Group] = i
		default:
			enforced[r.Group] = i
		}
		if r.Final && !r.Shadow {
			end = i
		}
	}
	return verdicts, end >= 0
}
