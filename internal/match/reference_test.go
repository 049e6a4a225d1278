package match

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// The reference is the contract written down as plainly as possible: every rule is
// looked at, every list is scanned, nothing is prepared or shared.

// refDecode decodes escapes once.
func refDecode(path string) string {
	var out strings.Builder
	for len(path) > 0 {
		if path[0] == '%' && len(path) >= 3 {
			if n, err := strconv.ParseUint(path[1:3], 16, 8); err == nil {
				out.WriteByte(byte(n))
				path = path[3:]
				continue
			}
		}
		out.WriteByte(path[0])
		path = path[1:]
	}
	return out.String()
}

func refClean(path string) string {
	var kept []string
	for _, s := range strings.Split(refDecode(path), "/") {
		switch s {
		case "", ".":
		case "..":
			if len(kept) > 0 {
				kept = kept[:len(kept)-1]
			}
		default:
			kept = append(kept, s)
		}
	}
	return "/" + strings.Join(kept, "/")
}

// refSegments splits a pattern. A wildcard is told from an escaped star by a
// newline in front, which no pattern of these tests has.
func refSegments(pattern string) []string {
	marked := refDecode(strings.ReplaceAll(pattern, "*", "\n*"))
	var kept []string
	for _, s := range strings.Split(marked, "/") {
		if s != "" && s != "." {
			kept = append(kept, s)
		}
	}
	return kept
}

// refPathMatches asks, for every part of the pattern and every part of the path,
// whether the one matches the other.
func refPathMatches(pattern, cleanPath string) bool {
	want := refSegments(pattern)
	var have []string
	if cleanPath != "/" {
		have = strings.Split(cleanPath[1:], "/")
	}
	row := make([]bool, len(have)+1) // whether want[:i] matches have[:j]
	row[0] = true
	for _, w := range want {
		next := make([]bool, len(have)+1)
		for j := range next {
			switch {
			case w == "\n*\n*":
				next[j] = row[j] || j > 0 && next[j-1]
			case j > 0:
				next[j] = row[j-1] && (w == "\n*" || w == have[j-1])
			}
		}
		row = next
	}
	return row[len(have)]
}

func refAnyPath(patterns []string, cleanPath string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return refPathMatches(p, cleanPath) })
}

func refHost(host string) string {
	host = strings.ToLower(host)
	if i := strings.LastIndex(host, ":"); i >= 0 {
		host = host[:i]
	}
	return strings.TrimSuffix(host, ".")
}

func refHostMatches(pattern, host string) bool {
	if suffix, wildcard := strings.CutPrefix(pattern, "*"); wildcard {
		front, ends := strings.CutSuffix(refHost(host), refHost(suffix))
		return ends && front != ""
	}
	return refHost(pattern) == refHost(host)
}

func refNetworkHolds(p netip.Prefix, ip netip.Addr) bool {
	addr, bits := p.Addr(), p.Bits()
	if addr.Is4In6() {
		addr, bits = addr.Unmap(), bits-96
	}
	return netip.PrefixFrom(addr, bits).Contains(ip.Unmap().WithZone(""))
}

func refKeyMatches(entry, key string) bool {
	sum := sha256.Sum256([]byte(key))
	return key != "" && (entry == key || strings.EqualFold(entry, "sha256:"+hex.EncodeToString(sum[:])))
}

func refValueMatches(values []string, given string) bool {
	return slices.Contains(values, given) || given != "" && slices.Contains(values, "*")
}

// refMatches reports whether all conditions of a rule hold; path is the request's,
// cleaned.
func refMatches(r *Rule, req *Request, path string) bool {
	if len(r.Paths) > 0 && !refAnyPath(r.Paths, path) || refAnyPath(r.ExcludePaths, path) {
		return false
	}
	anyOf := func(list []string, is func(string) bool) bool {
		return len(list) == 0 || slices.ContainsFunc(list, is)
	}
	if !anyOf(r.Methods, func(m string) bool { return m == "*" || strings.EqualFold(m, req.Method) }) ||
		!anyOf(r.Hosts, func(h string) bool { return refHostMatches(h, req.Host) }) ||
		!anyOf(r.Users, func(u string) bool { return u == req.User }) ||
		!anyOf(r.APIKeys, func(k string) bool { return refKeyMatches(k, req.APIKey) }) {
		return false
	}
	if len(r.IPs) > 0 && !slices.ContainsFunc(r.IPs, func(p netip.Prefix) bool { return refNetworkHolds(p, req.IP) }) {
		return false
	}
	for name, values := range r.Attributes {
		if given, ok := req.Attributes[name]; !ok || !refValueMatches(values, given) {
			return false
		}
	}
	for name, values := range r.Headers {
		found := false
		for other, lines := range req.Headers {
			for _, line := range lines {
				found = found || strings.EqualFold(name, other) && refValueMatches(values, line)
			}
		}
		if !found {
			return false
		}
	}
	return true
}

// refApply returns the rules that apply: each is asked whether one that stands
// before it takes its place or ended the evaluation.
func refApply(rules []Rule, req *Request) []int32 {
	path := refClean(req.Path)
	var applying []int32
	for i := range rules {
		r := &rules[i]
		if !refMatches(r, req, path) {
			continue
		}
		loses := false
		for _, j := range applying {
			other := &rules[j]
			if other.Final && !other.Shadow {
				return applying
			}
			if r.Group != "" && r.Group == other.Group && (!other.Shadow || r.Shadow) {
				loses = true
			}
		}
		if !loses {
			applying = append(applying, int32(i))
		}
	}
	return applying
}
