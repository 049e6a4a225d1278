package simulate

import "container/heap"

// merger reads several logs in the order of their times: files that were rotated, and
// those of several servers.
type merger struct {
	sources []*source // those that have an entry, as a heap
	started bool
}

func newMerger(sources []*source) *merger {
	return &merger{sources: sources}
}

// next returns the source of the next entry, or nil at the end. The entry is valid until
// the call after that.
func (m *merger) next() *source {
	if !m.started {
		m.started = true
		var ready []*source
		for _, s := range m.sources {
			if s.next() {
				ready = append(ready, s)
			}
		}
		m.sources = ready
		heap.Init(m)
	} else if len(m.sources) > 0 {
		if m.sources[0].next() {
			heap.Fix(m, 0)
		} else {
			heap.Pop(m)
		}
	}
	if len(m.sources) == 0 {
		return nil
	}
	return m.sources[0]
}

// Len, Less, Swap, Push and Pop are for package heap.
func (m *merger) Len() int { return len(m.sources) }

func (m *merger) Less(i, j int) bool {
	return m.sources[i].entry.micros < m.sources[j].entry.micros
}

func (m *merger) Swap(i, j int) { m.sources[i], m.sources[j] = m.sources[j], m.sources[i] }

func (m *merger) Push(s any) { m.sources = append(m.sources, s.(*source)) }

func (m *merger) Pop() any {
	last := m.sources[len(m.sources)-1]
	m.sources = m.sources[:len(m.sources)-1]
	return last
}
