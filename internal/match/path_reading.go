package match

import "strings"

// A reading is one way in which routers split a path into segments. Its zero value is
// the clean reading ([CleanPath]).
//
// Routers disagree about paths: some decode %2F before they split and some after,
// some resolve dot segments and some hand "..%2f" to a handler as a value, some drop
// empty segments, and some compare the path as sent. A limiter that knew only one of
// these readings could be passed by a path that the router reads in another.
type reading struct {
	escapes   escapeReading
	keepDots  bool // "." and ".." are names
	keepEmpty bool // "//" has a segment in the middle, and a trailing slash one behind it
}

// escapeReading is what happens to percent-escapes.
type escapeReading uint8

const (
	decodeAll   escapeReading = iota // %2F separates segments
	decodeNames                      // %2F is part of a name
	decodeNone                       // the path is compared as sent
)

// undecoded takes the place of the percent sign of an escape that a reading leaves as
// it is. No pattern has this byte, so such a segment equals no literal segment.
const undecoded = 0

// maxReadings is how many readings a path can have: twelve, and as many of what
// follows the authority where it begins with "//".
const maxReadings = 24

// pathTraits are what gives a path more than one reading.
type pathTraits struct {
	escapedSlash bool
	dots         bool // a "." or ".." segment, escaped or not
	empty        bool // an empty segment before the last
	trailing     bool // an empty last segment: a trailing slash
	// unusual means that the path has escapes and is not escaped as net/url would
	// escape it. Routers that use URL.RawPath where it is set compare it as sent.
	unusual bool
}

// traitsOf looks at a path without query.
func traitsOf(path string) pathTraits {
	var t pathTraits
	escaped, plain := false, true
	segment := 0 // where the segment being read begins, if all slashes separate
	name := segmentName{}
	for i := 0; i < len(path); {
		c, size := decode(path, i)
		if size > 1 {
			escaped = true
			plain = plain && !needsNoEscape(c) && !isLower(path[i+1]) && !isLower(path[i+2])
		} else {
			plain = plain && needsNoEscape(c)
		}
		i += size
		if c != '/' {
			name.add(c)
			continue
		}
		t.escapedSlash = t.escapedSlash || size > 1
		t.dots = t.dots || name.dots()
		t.empty = t.empty || name.length == 0 && (segment > 0 || size > 1)
		segment, name = i, segmentName{}
	}
	t.dots = t.dots || name.dots()
	t.trailing = name.length == 0 && segment > 1
	t.unusual = escaped && !plain
	return t
}

// segmentName is what traitsOf needs to know of a decoded segment.
type segmentName struct {
	length int
	other  bool // it has a byte that is not a dot
}

func (n *segmentName) add(c byte) {
	n.length++
	n.other = n.other || c != '.'
}

func (n *segmentName) dots() bool { return !n.other && (n.length == 1 || n.length == 2) }

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }

// needsNoEscape reports whether net/url writes a byte of a path as it is.
func needsNoEscape(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-_.~$&+,/:;=@", c) >= 0
}

// Ambiguous reports whether a path is refused anyway or has an escaped slash, a dot segment or an
// empty segment before its end. Nearly all clients send none of these.
func Ambiguous(path string) bool {
	if IsClean(path) {
		return false
	}
	path = withoutQuery(path)
	t := traitsOf(path)
	return Refused(path) || t.escapedSlash || t.dots || t.empty
}

// The bounds of a path. Work is at most a step for each segment, reading and pattern
// with two "**": what a caller sends must not make that much.
const (
	maxPathBytes    = 8192
	maxPathSegments = 256
)

// Refused reports whether a path is not to be matched at all: it is too long, it is an
// absolute URL, or it has a "#" or a "\" that is not escaped. No reading is safe then:
// some servers cut the path at "#" and read "\" as a slash, others make them part of a
// name. Clients that follow RFC 3986 send none of these.
func Refused(path string) bool {
	path = withoutQuery(path)
	return strings.IndexByte(path, '#') >= 0 || strings.IndexByte(path, '\\') >= 0 ||
		len(path) > maxPathSegments && tooLong(path) ||
		path != "" && path[0] != '/' && strings.Contains(path, "://")
}

func tooLong(path string) bool {
	slashes := strings.Count(path, "/") + strings.Count(path, "%2F") + strings.Count(path, "%2f")
	return len(path) > maxPathBytes || slashes > maxPathSegments
}

// Readings returns the readings of a path, the clean one first. An ordinary path has
// one.
func Readings(path string) []string {
	var list []string
	r := readingsOf(nil, path)
	for i := range r.count {
		text := r.at(i)
		if i > 0 {
			text = strings.ReplaceAll(text, string(rune(undecoded)), "%")
		}
		list = append(list, text)
	}
	return list
}

// readings are the distinct readings of a path, the clean one first.
type readings struct {
	text  []byte // all of them
	ends  [maxReadings]int
	count int
}

// at returns one of the readings. It is valid as long as the readings are.
func (r *readings) at(i int) string {
	start := 0
	if i > 0 {
		start = r.ends[i-1]
	}
	return view(r.text[start:r.ends[i]])
}

// with returns the readings with one more, unless it is there already. It takes and
// returns a value because a pointer would make the text escape to the heap.
func (r readings) with(how reading, path string) readings {
	start := len(r.text)
	r.text = how.appendTo(r.text, path)
	read := view(r.text[start:])
	for i := range r.count {
		if r.at(i) == read {
			r.text = r.text[:start]
			return r
		}
	}
	r.ends[r.count] = len(r.text)
	r.count++
	return r
}

// readingsOf returns the readings of a path. They are written into buf as long as there
// is room.
func readingsOf(buf []byte, path string) readings {
	path = withoutQuery(path)
	list := readings{text: buf[:0]}.withAll(path)
	if strings.HasPrefix(path, "//") {
		list = list.withAll(behindAuthority(path))
	}
	return list
}

// behindAuthority is the path of a reference that begins with an authority, as
// //example.com/a does. URL parsers that resolve the target of a request against a
// base read it so.
func behindAuthority(path string) string {
	path = strings.TrimLeft(path, "/")
	if i := strings.IndexByte(path, '/'); i >= 0 {
		return path[i:]
	}
	return "/"
}

// withAll returns the readings with all those of a path without query.
func (r readings) withAll(path string) readings {
	t := traitsOf(path)
	for escapes := decodeAll; escapes <= decodeNone; escapes++ {
		if escapes == decodeNames && !t.escapedSlash || escapes == decodeNone && !t.unusual {
			continue
		}
		for _, keepDots := range [...]bool{false, true} {
			if keepDots && !t.dots {
				continue
			}
			r = r.with(reading{escapes, keepDots, false}, path)
			// Resolving a dot segment at the end leaves a trailing slash.
			if t.empty || t.trailing || t.dots {
				r = r.with(reading{escapes, keepDots, true}, path)
			}
		}
	}
	return r
}

// appendTo appends the path, given without query, as the reading has it: a slash in
// front of each segment.
func (r reading) appendTo(dst []byte, path string) []byte {
	root := len(dst) + 1
	dst = append(dst, '/')
	segment := root // where the segment being written begins
	path = strings.TrimPrefix(path, "/")
	for i := 0; i < len(path); {
		c, size := decode(path, i)
		separates := c == '/' && (size == 1 || r.escapes == decodeAll)
		switch {
		case separates:
			dst = r.endSegment(dst, root, segment, false)
			segment = len(dst)
		case size > 1 && (r.escapes == decodeNone || c == '/'):
			dst = append(dst, undecoded)
			dst = append(dst, path[i+1:i+size]...)
		default:
			dst = append(dst, c)
		}
		i += size
	}
	dst = r.endSegment(dst, root, segment, true)
	if len(dst) > root {
		dst = dst[:len(dst)-1]
	}
	return dst
}

// endSegment settles the segment dst[segment:]: an ordinary one is closed with a
// slash, the others leave no trace but what ".." removes. Every byte is removed at
// most once, so a path costs its length however often it climbs.
func (r reading) endSegment(dst []byte, root, segment int, last bool) []byte {
	switch name := dst[segment:]; {
	case len(name) == 0 && !r.keepEmpty:
		return dst
	case r.keepDots, !isDots(name):
		return append(dst, '/')
	case len(name) == 2 && segment > root:
		parent := segment - 1 // the slash that closed the segment before
		for dst[parent-1] != '/' {
			parent--
		}
		dst = dst[:parent]
	default:
		dst = dst[:segment]
	}
	if last && r.keepEmpty {
		dst = append(dst, '/') // as in RFC 3986, section 5.2.4
	}
	return dst
}

func isDots(name []byte) bool { return string(name) == "." || string(name) == ".." }
