package match

import "unsafe"

// pathBuffer is how long a path that must be cleaned may be before a match
// allocates.
const pathBuffer = 512

// Paths is a set of path patterns, for lists of included and excluded paths. It
// does not change and may be shared between goroutines.
type Paths struct {
	trie trie
}

// CompilePaths builds the set of the given patterns. Without patterns it matches no
// path.
func CompilePaths(patterns []string) (*Paths, error) {
	b := newTrieBuilder()
	for _, pattern := range patterns {
		segments, err := parsePattern(pattern)
		if err != nil {
			return nil, err
		}
		b.nodes[b.add(segments)].accept = 0
	}
	t, err := b.build()
	if err != nil {
		return nil, err
	}
	return &Paths{trie: t}, nil
}

// Match reports whether any of the patterns matches path, which is given as it was
// sent and cleaned here. A nil set matches nothing.
func (p *Paths) Match(path string) bool {
	if p == nil {
		return false
	}
	if IsClean(path) {
		return p.matchClean(path)
	}
	var buf [pathBuffer]byte
	return p.matchClean(view(CleanPath(buf[:0], path)))
}

func (p *Paths) matchClean(path string) bool {
	var buf [16]int32
	return len(p.trie.appendMatches(buf[:0], path)) > 0
}

// view returns b as a string without copying it. b must not change while the string
// is in use, which here is until the match returns.
func view(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b)) //nolint:gosec // the only use of unsafe; why it is safe stands above
}
