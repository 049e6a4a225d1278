package mongorules

import (
	"context"
	"hash/maphash"
	"sync"
)

// keyedMutex lets one goroutine of the process at a time change a rule set: the
// others would only lose the compare-and-set.
type keyedMutex struct {
	once  sync.Once
	seed  maphash.Seed
	slots [64]chan struct{} // rule sets share them
}

// lock waits for a rule set to be free.
func (m *keyedMutex) lock(ctx context.Context, id string) (unlock func(), err error) {
	m.once.Do(func() {
		m.seed = maphash.MakeSeed()
		for i := range m.slots {
			m.slots[i] = make(chan struct{}, 1)
		}
	})
	slot := m.slots[maphash.String(m.seed, id)%uint64(len(m.slots))]
	select {
	case slot <- struct{}{}:
		return func() { <-slot }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
