package match

import (
	"bytes"
	"strings"
)

// maxReachStates bounds the search of Reaches.
const maxReachStates = 10_000

// Reaches reports whether a path with one reading can match one of paths and one of
// include, and none of exclude. Empty paths and an empty include match every path. It is
// exact, unless the search is too long: then it is true.
func Reaches(paths, include, exclude []string) bool {
	s := reachSearch{symbols: map[string]bool{strings.Repeat("x", maxPatternBytes): true}} // a segment that no pattern names
	for list, patterns := range [...][]string{orAll(paths), orAll(include), exclude} {
		s.parse(list, patterns)
	}
	start := s.next("", "")
	states, seen := []string{start}, map[string]bool{start: true}
	for len(states) > 0 {
		state := states[0]
		states = states[1:]
		reached, ended := s.lists(state)
		switch {
		case !reached[0] || !reached[1]:
			continue
		case ended == [3]bool{true, true, false}, len(seen) > maxReachStates:
			return true
		}
		for symbol := range s.symbols {
			if next := s.next(state, symbol); !seen[next] {
				seen[next] = true
				states = append(states, next)
			}
		}
	}
	return false
}

func orAll(patterns []string) []string {
	if len(patterns) == 0 {
		return []string{"/**"}
	}
	return patterns
}

// reachSearch are the patterns of three lists. Each path is a word of symbols, its segments.
// A state has, for each pattern, a "1" for each position that the segments so far lead to,
// and "0" for the others.
type reachSearch struct {
	patterns []reachPattern
	size     int // of a state
	symbols  map[string]bool
}

type reachPattern struct {
	list     int
	at       int // where its positions begin in a state
	segments []segment
}

func (s *reachSearch) parse(list int, patterns []string) {
	for _, pattern := range patterns {
		segments, err := parsePattern(pattern)
		if err != nil {
			continue // it is refused where it is set
		}
		s.patterns = append(s.patterns, reachPattern{list, s.size, segments})
		s.size += len(segments) + 1
		for _, seg := range segments {
			if seg.kind == literal {
				s.symbols[seg.text] = true
			}
		}
	}
}

// next is the state after one more segment, or without a state the first one.
func (s *reachSearch) next(state, symbol string) string {
	next := bytes.Repeat([]byte("0"), s.size)
	for _, p := range s.patterns {
		if state == "" {
			p.reach(next, 0)
			continue
		}
		for i, seg := range p.segments {
			switch {
			case state[p.at+i] == '0':
			case seg.kind == anySegments:
				p.reach(next, i)
			case seg.kind == oneSegment || seg.text == symbol:
				p.reach(next, i+1)
			}
		}
	}
	return string(next)
}

// reach adds a position, and those behind a "**", which may be no segment at all.
func (p *reachPattern) reach(state []byte, i int) {
	state[p.at+i] = '1'
	if i < len(p.segments) && p.segments[i].kind == anySegments {
		p.reach(state, i+1)
	}
}

// lists reports of which lists a pattern has a position, and of which one is at its end.
func (s *reachSearch) lists(state string) (reached, ended [3]bool) {
	for _, p := range s.patterns {
		end := p.at + len(p.segments)
		reached[p.list] = reached[p.list] || strings.Contains(state[p.at:end+1], "1")
		ended[p.list] = ended[p.list] || state[end] == '1'
	}
	return reached, ended
}
