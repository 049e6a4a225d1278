package match

import "unsafe"

// pathBuffer is how long the readings of a path may be together before a match
// allocates.
const pathBuffer = 1024

// Paths is a set of path patterns, for lists of included and excluded paths. It
// does not change and may be shared between goroutines.
type Paths struct {
	trie trie
}

// CompilePaths builds the set of the given patterns. Without patterns it matches no
// path.
func CompilePaths(patterns []string) (*Paths, error) { return compilePaths(patterns, parsePattern) }

func compilePaths(patterns []string, parse func(string) ([]segment, error)) (*Paths, error) {
	b := newTrieBuilder()
	for _, pattern := range patterns {
		segments, err := parse(pattern)
		if err != nil {
			return nil, err
		}
		b.nodes[b.add(segments)].accept = 0
	}
	return &Paths{trie: b.build()}, nil
}

// MatchAny reports whether a pattern matches any reading of a path, given as sent. Use it
// for what is limited: it also matches each refused path that is not clean. A nil set matches
// nothing.
func (p *Paths) MatchAny(path string) bool { return p.match(path, true) }

// MatchAll reports whether a pattern matches each reading of a path, given as sent. Use it
// for what is exempt: of the refused paths it matches clean ones only. A nil set matches
// nothing.
func (p *Paths) MatchAll(path string) bool { return p.match(path, false) }

func (p *Paths) match(path string, enough bool) bool {
	switch {
	case p == nil:
		return false
	case IsClean(path):
		return p.matchReading(path)
	case Refused(path):
		return enough
	}
	var buf [pathBuffer]byte
	readings := readingsOf(buf[:], path)
	for i := range readings.count {
		if p.matchReading(readings.at(i)) == enough {
			return enough
		}
	}
	return !enough
}

func (p *Paths) matchReading(path string) bool {
	var buf [16]int32
	return len(p.trie.appendMatches(buf[:0], path)) > 0
}

// view returns b as a string without copying it. b must not change while the string
// is in use.
func view(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b)) //nolint:gosec // see the comment above
}
