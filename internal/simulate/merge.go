package simulate

import "slices"

// merger reads several logs in the order of their times: files that were rotated, and
// those of several servers.
type merger struct {
	sources []*source // those that have an entry
	last    *source   // whose entry was returned
}

func newMerger(sources []*source) *merger {
	ended := func(s *source) bool { return !s.next() }
	return &merger{sources: slices.DeleteFunc(slices.Clone(sources), ended)}
}

// next returns the source of the next entry, or nil at the end. The entry is valid until
// the call after that.
func (m *merger) next() *source {
	if m.last != nil && !m.last.next() {
		m.sources = slices.DeleteFunc(m.sources, func(s *source) bool { return s == m.last })
	}
	m.last = nil
	for _, s := range m.sources {
		if m.last == nil || s.entry.micros < m.last.entry.micros {
			m.last = s
		}
	}
	return m.last
}
