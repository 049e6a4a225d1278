package match

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"
)

// Obstacle is what keeps a rule from applying to a request.
type Obstacle string

// The obstacles: conditions of the rule itself in the order in which they are looked
// at, and then other rules.
const (
	ObstaclePath         Obstacle = "path"
	ObstacleExcludedPath Obstacle = "excluded-path"
	ObstacleMethod       Obstacle = "method"
	ObstacleHost         Obstacle = "host"
	ObstacleHeader       Obstacle = "header"
	ObstacleAttribute    Obstacle = "attribute"
	ObstacleIP           Obstacle = "ip"
	ObstacleUser         Obstacle = "user"
	ObstacleAPIKey       Obstacle = "api-key"
	// ObstacleGroup means that another rule of the group came first.
	ObstacleGroup Obstacle = "group"
	// ObstacleEnded means that a final rule ended the evaluation.
	ObstacleEnded Obstacle = "ended"
)

// A question is a request as rules are compared with it one by one, in one reading of
// its path.
type question struct {
	*Request
	segments []string
	folded   []string // segments in lower case
	host     string   // name only, in lower case
	ip       netip.Addr
	key      digest
	encoded  string // key in hexadecimal
}

func newQuestion(req *Request) *question {
	q := &question{
		Request: req, host: plainHost(req.Host), ip: plainAddr(req.IP), key: sha256.Sum256([]byte(req.APIKey)),
	}
	q.encoded = hex.EncodeToString(q.key[:])
	return q
}

// read takes up another reading of the path.
func (q *question) read(path string) {
	q.segments, q.folded = nil, nil
	if path != "/" {
		q.segments = strings.Split(path[1:], "/")
		q.folded = strings.Split(strings.ToLower(path[1:]), "/")
	}
}

// obstacle returns the first condition of a rule that does not hold, with its name if
// it is one of several headers or attributes, or nothing if all hold.
func (q *question) obstacle(r *Rule) (obstacle Obstacle, name string) {
	onPath := q.onPath
	if r.IgnoreCase {
		onPath = q.onFoldedPath
	}
	switch {
	case len(r.Paths) > 0 && !slices.ContainsFunc(r.Paths, onPath):
		return ObstaclePath, ""
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

func (q *question) onPath(pattern string) bool {
	segments, err := parsePattern(pattern)
	return err == nil && matchSegments(segments, q.segments)
}

func (q *question) onFoldedPath(pattern string) bool {
	segments, err := parseFolded(pattern)
	return err == nil && matchSegments(segments, q.folded)
}

// matchSegments reports whether a pattern matches the segments of a path. A "**"
// first stands for no segment; where what follows it does not match, it stands for one
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

func (q *question) hasMethod(method string) bool {
	method = strings.ToUpper(method)
	return method == "*" || equalUpper(q.Method, method) || method == "GET" && equalUpper(q.Method, "HEAD")
}

func (q *question) atHost(pattern string) bool {
	if suffix, wildcard := strings.CutPrefix(pattern, "*."); wildcard {
		front, ends := strings.CutSuffix(q.host, "."+plainHost(suffix))
		return ends && front != ""
	}
	return q.host != "" && q.host == plainHost(pattern)
}

func plainHost(host string) string { return string(appendLower(nil, hostName(host))) }

// hasHeader looks under the two spellings that a request may use.
func (q *question) hasHeader(name string, values []string) bool {
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

func (q *question) inNetwork(network netip.Prefix) bool {
	addr, bits := network.Addr(), network.Bits()
	if addr.Is4In6() {
		addr, bits = addr.Unmap(), bits-96
	}
	return netip.PrefixFrom(addr, bits).Contains(q.ip)
}

// hasKey compares digests, so that how long it takes says nothing about the key.
func (q *question) hasKey(entry string) bool {
	if q.APIKey == "" {
		return false
	}
	if encoded, isDigest := strings.CutPrefix(entry, digestPrefix); isDigest {
		return strings.EqualFold(encoded, q.encoded)
	}
	return q.key == sha256.Sum256([]byte(entry))
}
