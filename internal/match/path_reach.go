package match

import "strings"

// maxReachStates bounds the search of Reaches.
const maxReachStates = 10_000

// Reaches reports whether a path with one reading can match one of paths and one of
// include, and none of exclude. Empty paths and an empty include match every path. It is
// exact, unless the search is too long: then it is true.
func Reaches(paths, include, exclude []string) bool {
	s := reachSearch{symbols: map[string]bool{}}
	s.paths, s.include, s.exclude = s.parse(orAll(paths)), s.parse(orAll(include)), s.parse(exclude)
	s.symbols[strings.Repeat("x", maxPatternBytes)] = true // a segment that no pattern names
	start := reachState{startState(s.paths), startState(s.include), startState(s.exclude)}
	states, seen := []reachState{start}, map[string]bool{start.key(): true}
	for len(states) > 0 {
		state := states[0]
		states = states[1:]
		switch {
		case accepts(s.paths, state.paths) && accepts(s.include, state.include) && !accepts(s.exclude, state.exclude):
			return true
		case len(seen) > maxReachStates:
			return true
		}
		for symbol := range s.symbols {
			next := reachState{
				afterSegment(s.paths, state.paths, symbol),
				afterSegment(s.include, state.include, symbol),
				afterSegment(s.exclude, state.exclude, symbol),
			}
			if key := next.key(); strings.Contains(next.paths, "1") && strings.Contains(next.include, "1") && !seen[key] {
				seen[key] = true
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
type reachSearch struct {
	paths, include, exclude [][]segment
	symbols                 map[string]bool
}

func (s *reachSearch) parse(patterns []string) [][]segment {
	var all [][]segment
	for _, pattern := range patterns {
		segments, err := parsePattern(pattern)
		if err != nil {
			continue // it is refused where it is set
		}
		all = append(all, segments)
		for _, seg := range segments {
			if seg.kind == literal {
				s.symbols[seg.text] = true
			}
		}
	}
	return all
}

// reachState has, for each pattern of a list, a "1" for each position that the segments so
// far lead to, and "0" for the others.
type reachState struct{ paths, include, exclude string }

func (s *reachState) key() string { return s.paths + " " + s.include + " " + s.exclude }

func startState(patterns [][]segment) string {
	return eachPattern(patterns, "", func(segments []segment, _ string, next []byte) { reach(segments, next, 0) })
}

// afterSegment is the state after one more segment.
func afterSegment(patterns [][]segment, state, symbol string) string {
	return eachPattern(patterns, state, func(segments []segment, before string, next []byte) {
		for i, seg := range segments {
			switch {
			case before[i] == '0':
			case seg.kind == anySegments:
				reach(segments, next, i)
			case seg.kind == oneSegment || seg.text == symbol:
				reach(segments, next, i+1)
			}
		}
	})
}

// reach adds a position, and those behind a "**", which may be no segment at all.
func reach(segments []segment, state []byte, i int) {
	state[i] = '1'
	if i < len(segments) && segments[i].kind == anySegments {
		reach(segments, state, i+1)
	}
}

func accepts(patterns [][]segment, state string) bool {
	for _, segments := range patterns {
		if state[len(segments)] == '1' {
			return true
		}
		state = state[len(segments)+1:]
	}
	return false
}

func eachPattern(patterns [][]segment, state string, advance func(segments []segment, before string, next []byte)) string {
	var all []byte
	for _, segments := range patterns {
		n := len(segments) + 1
		next := []byte(strings.Repeat("0", n))
		if state == "" {
			advance(segments, "", next)
		} else {
			advance(segments, state[:n], next)
			state = state[n:]
		}
		all = append(all, next...)
	}
	return string(all)
}
