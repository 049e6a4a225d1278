package match

import (
	"strings"
)

// hostName returns the name in a Host header: without port, without the brackets
// of an IPv6 address, without the dot that ends a full name.
func hostName(host string) string {
	if strings.HasPrefix(host, "[") {
		if end := strings.IndexByte(host, ']'); end > 0 && (end+1 == len(host) || host[end+1] == ':') {
			return host[1:end]
		}
		return host
	}
	// With several colons it is an IPv6 address without brackets, and has no port.
	if i := strings.IndexByte(host, ':'); i >= 0 && strings.IndexByte(host[i+1:], ':') < 0 {
		host = host[:i]
	}
	return strings.TrimSuffix(host, ".")
}

// plainHost returns the name in a Host header in lower case. Host names have ASCII letters only.
func plainHost(host string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, hostName(host))
}

// parseHosts returns the hosts of a rule as they are kept: names in lower case, and
// ".example.com" for "*.example.com". No name begins with a dot.
func parseHosts(hosts []string) (parsed []string) {
	for _, host := range hosts {
		given, wildcard := strings.CutPrefix(host, "*.")
		name := plainHost(given)
		if wildcard {
			name = "." + name
		}
		parsed = append(parsed, name)
	}
	return parsed
}

// A hostSet is the hosts of one rule. The zero value is empty.
type hostSet struct {
	names   valueSet
	longest int // suffix with its dot; 0 if all are names
}

// Hosts is the condition that the host is one of these names, such as "api.example.com",
// or "*.example.com" for one or more labels in front. Case, port and a trailing dot do not
// count.
type Hosts []string

func (hosts Hosts) addTo(c *compilation) {
	parsed := parseHosts(hosts)
	if len(parsed) == 0 {
		return
	}
	c.hosts.names = newValueSet(parsed)
	for _, host := range parsed {
		c.hosts.longest = max(c.hosts.longest, suffixLength(host))
	}
	c.file(newChoice(anchorID{kind: byHost}, parsed))
}

// suffixLength returns the length of a kept host that is a suffix, and 0 for a name.
func suffixLength(host string) int {
	if host[0] != '.' {
		return 0
	}
	return len(host)
}

func (s *hostSet) empty() bool { return s.names.empty() }

func (s *hostSet) has(host string) bool {
	if host == "" {
		return false
	}
	// ".example.com" is spelled like a kept suffix, but has no label in front.
	if host[0] != '.' && s.names.has(host) {
		return true
	}
	for suffix := nextSuffix(host, s.longest); suffix != ""; suffix = nextSuffix(suffix, s.longest) {
		if s.names.has(suffix) {
			return true
		}
	}
	return false
}

// nextSuffix returns the longest part of a host after its first byte that begins
// with a dot and is not above longest, or "". The bound keeps a host of many
// thousand labels from costing more than its length.
func nextSuffix(host string, longest int) string {
	from := max(1, len(host)-longest)
	if from >= len(host) {
		return ""
	}
	i := strings.IndexByte(host[from:], '.')
	if i < 0 {
		return ""
	}
	return host[from+i:]
}
