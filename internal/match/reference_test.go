package match

import (
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

func refClean(path string) string { return "/" + strings.Join(refSplit(path), "/") }

// refSplit returns the segments of a path that are left when it is clean.
func refSplit(path string) []string {
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
	return kept
}

// refSegments splits a pattern. A wildcard is told from an escaped star by a
// newline in front, which no pattern of these tests has.
func refSegments(pattern string) []segment {
	marked := refDecode(strings.ReplaceAll(pattern, "*", "\n*"))
	var kept []segment
	for _, s := range strings.Split(marked, "/") {
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
