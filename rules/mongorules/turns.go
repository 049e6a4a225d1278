package mongorules

import (
	"context"
	"hash/maphash"
	"sync"
)

// turns has the writers of one process change a rule set one after the other:
// they would only beat each other to it. Between processes the compare-and-set
// decides.
type turns struct {
	once  sync.Once
	seed  maphash.Seed
	slots [64]chan struct{} // rule sets share them
}

// take waits for a rule set's turn, until done is called.
func (t *turns) take(ctx context.Context, id string) (done func(), err error) {
	t.once.Do(func() {
		t.seed = maphash.MakeSeed()
		for i := range t.slots {
			t.slots[i] = make(chan struct{}, 1)
		}
	})
	slot := t.slots[maphash.String(t.seed, id)%uint64(len(t.slots))]
	select {
	case slot <- struct{}{}:
		return func() { <-slot }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
