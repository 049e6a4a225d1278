package match

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The references say how paths, patterns and hosts are read, as plainly as possible.
// What rules match is said as plainly by Explain, and rests on these.

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

func refClean(path string) string { return "/" + strings.Join(refReadings(path)[0], "/") }

// refReadings returns the segments of each reading of a path, the clean one first. It
// tries every combination, and drops those that say the same.
func refReadings(path string) [][]string {
	path, _, _ = strings.Cut(path, "?")
	readings := refReadingsOf(path)
	if rest, ok := strings.CutPrefix(path, "//"); ok {
		_, behind, _ := strings.Cut(strings.TrimLeft(rest, "/"), "/")
		for _, segments := range refReadingsOf("/" + behind) {
			if !slices.ContainsFunc(readings, func(known []string) bool { return slices.Equal(known, segments) }) {
				readings = append(readings, segments)
			}
		}
	}
	return readings
}

// refReadingsOf is refReadings without regard to an authority.
func refReadingsOf(path string) [][]string {
	asURL := url.URL{Path: "/" + refDecode(path)}
	asSent := refEscape.MatchString(path) && asURL.EscapedPath() != "/"+path
	var readings [][]string
	seen := map[string]bool{}
	for _, escapes := range []string{"all", "names", "none"} {
		if escapes == "none" && !asSent {
			continue
		}
		for _, keepDots := range []bool{false, true} {
			for _, keepEmpty := range []bool{false, true} {
				segments := refSplit(path, escapes, keepDots, keepEmpty)
				if text := fmt.Sprintf("%q", segments); !seen[text] {
					seen[text] = true
					readings = append(readings, segments)
				}
			}
		}
	}
	return readings
}

// refSplit returns the segments of a path in one reading.
func refSplit(path, escapes string, keepDots, keepEmpty bool) []string {
	path = strings.TrimPrefix(path, "/")
	if escapes == "all" {
		path = refDecode(path)
	}
	var kept []string
	parts := strings.Split(path, "/")
	for i, s := range parts {
		if escapes == "names" {
			s = refDecode(refSlash.ReplaceAllString(s, "\x00$1"))
		}
		if escapes == "none" {
			s = refEscape.ReplaceAllString(s, "\x00$1")
		}
		switch {
		case s == "" && !keepEmpty:
			continue
		case s == "." && !keepDots:
		case s == ".." && !keepDots:
			kept = kept[:max(0, len(kept)-1)]
		default:
			kept = append(kept, s)
			continue
		}
		if keepEmpty && i == len(parts)-1 {
			kept = append(kept, "") // what was removed leaves its slash
		}
	}
	if len(kept) == 1 && kept[0] == "" {
		return nil // the root
	}
	return kept
}

// refEscape finds escapes, and refSlash those of a slash.
var (
	refEscape = regexp.MustCompile(`%([0-9a-fA-F]{2})`)
	refSlash  = regexp.MustCompile(`%(2[fF])`)
)

// refSegments splits a pattern. A wildcard differs from an escaped star by a
// newline in front, which no pattern of these tests has.
func refSegments(pattern string) []segment {
	marked := refDecode(strings.ReplaceAll(pattern, "*", "\n*"))
	var kept []segment
	for s := range strings.SplitSeq(marked, "/") {
		switch s {
		case "", ".":
		case "\n*":
			kept = append(kept, segment{kind: oneSegment})
		case "\n*\n*":
			if n := len(kept); n == 0 || kept[n-1].kind != anySegments {
				kept = append(kept, segment{kind: anySegments})
			}
		default:
			kept = append(kept, segment{kind: literal, text: s})
		}
	}
	return kept
}

func refHost(host string) string {
	host = strings.ToLower(host)
	if i := strings.LastIndex(host, ":"); i >= 0 {
		host = host[:i]
	}
	return strings.TrimSuffix(host, ".")
}
