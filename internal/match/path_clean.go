package match

import (
	"encoding/hex"
	"strings"
)

// CleanPath appends the clean reading of a path to dst and returns the extended
// slice. path is the request's path as sent; a "?" ends it.
//
// Percent-escapes are decoded first and exactly once, so that %2F separates
// segments and %2e%2e climbs as their plain spellings do; malformed escapes stay
// as they are. Then empty segments and "." are dropped and ".." removes the segment
// before it, never going above the root. The result begins with "/" and does not end
// with one, unless it is the root itself.
//
// Since decoding happens once, cleaning is not idempotent where an escaped
// percent sign was sent: /a%252Fb becomes /a%2Fb, and cleaning that again would give
// /a/b. Clean a path once, as [Matcher.Match] and [Paths] do by themselves, and
// hand them the path as sent.
func CleanPath(dst []byte, path string) []byte {
	return reading{}.appendTo(dst, withoutQuery(path))
}

func withoutQuery(path string) string {
	if before, _, ok := strings.Cut(path, "?"); ok {
		return before
	}
	return path
}

// IsClean reports whether the path has one reading, which is the path as it is. A
// path with a well-formed percent-escape is never clean; a malformed one changes
// nothing.
func IsClean(path string) bool {
	if path == "/" {
		return true
	}
	if path == "" || path[0] != '/' || path[len(path)-1] == '/' {
		return false
	}
	for i := 0; i < len(path); i++ {
		switch path[i] {
		case '/':
			if dropsSegment(path[i+1:]) {
				return false
			}
		case '%':
			if _, size := decode(path, i); size > 1 {
				return false
			}
		case '?', '#', '\\':
			return false
		}
	}
	return true
}

// dropsSegment reports whether the first segment of rest, which is not empty, is
// one that cleaning removes.
func dropsSegment(rest string) bool {
	switch {
	case rest[0] == '/':
		return true
	case rest[0] != '.':
		return false
	case len(rest) == 1 || rest[1] == '/':
		return true
	case rest[1] != '.':
		return false
	}
	return len(rest) == 2 || rest[2] == '/'
}

// decode returns the byte at path[i], decoded if it is escaped, and how many bytes
// of path it takes.
func decode(path string, i int) (c byte, size int) {
	if path[i] != '%' || len(path)-i < 3 {
		return path[i], 1
	}
	var escaped [1]byte
	if _, err := hex.Decode(escaped[:], []byte(path[i+1:i+3])); err != nil {
		return '%', 1
	}
	return escaped[0], 3
}
