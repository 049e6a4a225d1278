package match

import (
	"errors"
	"fmt"
	"strings"
)

// The bounds of one pattern. They keep the trie shallow whatever a rule says.
const (
	maxPatternBytes    = 1024
	maxPatternSegments = 64
	// Each ** with another behind it is tried at every segment of a path.
	maxAnySegments = 4
)

type segmentKind uint8

const (
	literal     segmentKind = iota // exactly this text
	oneSegment                     // "*"
	anySegments                    // "**"
)

// A segment is one step of a pattern.
type segment struct {
	kind segmentKind
	text string // decoded; only of a literal
}

// CheckPattern reports what is wrong with a path pattern and what to write
// instead, or nil if it can be compiled.
func CheckPattern(pattern string) error {
	_, err := parsePattern(pattern)
	return err
}

// parsePattern splits a pattern into segments, cleaned as CleanPath cleans a path.
// It cannot call CleanPath, because there an escaped star and a plain one look the
// same, and only the plain one is a wildcard.
func parsePattern(pattern string) ([]segment, error) {
	if err := checkShape(pattern); err != nil {
		return nil, err
	}
	var segments []segment
	var text []byte
	stars := 0 // plain stars in the segment being read
	for i := 0; i <= len(pattern); {
		c, size := byte('/'), 1 // the end closes the last segment
		if i < len(pattern) {
			c, size = decode(pattern, i)
		}
		if c == undecoded {
			return nil, fmt.Errorf("pattern %q has a zero byte, which no path of a request needs", pattern)
		}
		if c != '/' {
			if c == '*' && size == 1 {
				stars++
			}
			text = append(text, c)
			i += size
			continue
		}
		i += size
		var err error
		if segments, err = appendSegment(segments, string(text), stars); err != nil {
			return nil, fmt.Errorf("pattern %q: %w", pattern, err)
		}
		text, stars = text[:0], 0
	}
	if len(segments) > maxPatternSegments {
		return nil, fmt.Errorf("pattern %q has %d segments, at most %d are possible: end it earlier with /**",
			pattern, len(segments), maxPatternSegments)
	}
	if n := countAny(segments); n > maxAnySegments {
		return nil, fmt.Errorf("pattern %q has %d segments **, at most %d are possible", pattern, n, maxAnySegments)
	}
	return segments, nil
}

// parseFolded is parsePattern for a pattern that ignores case: it matches paths in
// lower case.
func parseFolded(pattern string) ([]segment, error) {
	segments, err := parsePattern(pattern)
	for i := range segments {
		segments[i].text = strings.ToLower(segments[i].text)
	}
	return segments, err
}

// CrossesTwice reports whether a pattern has more than one "**": such a pattern is tried
// at every segment of a path.
func CrossesTwice(pattern string) bool {
	segments, err := parsePattern(pattern)
	return err == nil && countAny(segments) > 1
}

func countAny(segments []segment) int {
	n := 0
	for _, s := range segments {
		if s.kind == anySegments {
			n++
		}
	}
	return n
}

// checkShape tells the mistakes that can be seen without reading the segments.
func checkShape(pattern string) error {
	switch {
	case pattern == "":
		return errors.New(`pattern is empty: write "/**" to match every path`)
	case len(pattern) > maxPatternBytes:
		return fmt.Errorf("pattern %.32q… is %d bytes long, at most %d are possible: end it earlier with /**",
			pattern, len(pattern), maxPatternBytes)
	case pattern[0] != '/':
		return fmt.Errorf("pattern %q does not begin with a slash: write %q", pattern, "/"+pattern)
	case strings.ContainsAny(pattern, "?#{}"): // as literal text they would match no path that a client sends
		return fmt.Errorf("pattern %q: a query, a fragment and braces are not possible: write * for one segment, ** for any number, "+
			"%%3F, %%23, %%7B and %%7D for the characters ?, #, { and } themselves", pattern)
	}
	return nil
}

// appendSegment adds one segment, given its decoded text and how many plain stars
// are in it.
func appendSegment(segments []segment, text string, stars int) ([]segment, error) {
	switch {
	case text == "" || text == ".":
		return segments, nil
	case text == "..":
		return nil, errors.New(`".." is not possible: write the path that is meant`)
	case stars == 0:
		return append(segments, segment{kind: literal, text: text}), nil
	case stars == 1 && text == "*":
		return append(segments, segment{kind: oneSegment}), nil
	case stars == 2 && text == "**":
		// "**/**" says no more than "**"
		if n := len(segments); n > 0 && segments[n-1].kind == anySegments {
			return segments, nil
		}
		return append(segments, segment{kind: anySegments}), nil
	}
	return nil, fmt.Errorf("a star must be a whole segment, not part of %q: "+
		"write * for one segment, ** for any number, %%2A for the character itself", text)
}
