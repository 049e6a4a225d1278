// Package retry calls a function with items again and again until each of them is done.
package retry

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Every is how often items are tried, and pause the time for each of many: an attempt takes
	// about a tenth of it.
	Every = 50 * time.Millisecond
	pause = 50 * time.Microsecond
	// atOnce is how many are tried at the same time.
	atOnce = 16
)

// Queue has items that are not done. Use [New].
type Queue[T any] struct {
	try func(item T) (again bool)

	mu      sync.Mutex
	items   []T
	running bool // a timer or a goroutine will try them
}

// New returns a queue that tries items with a function.
func New[T any](try func(item T) (again bool)) *Queue[T] { return &Queue[T]{try: try} }

// Add adds an item. It is tried for the first time after [Every].
func (q *Queue[T]) Add(item T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = append(q.items, item)
	if !q.running {
		q.running = true
		time.AfterFunc(Every, q.run)
	}
}

// Drop removes the items that wait, and returns them. Those that are being tried stay.
func (q *Queue[T]) Drop() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	items := q.items
	q.items = nil
	return items
}

// run tries all items, and again later those that are not done.
func (q *Queue[T]) run() {
	items := q.Drop()
	var next atomic.Int64
	var trying sync.WaitGroup
	for range min(atOnce, len(items)) {
		trying.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(items); i = int(next.Add(1)) - 1 {
				if q.try(items[i]) {
					q.Add(items[i])
				}
			}
		})
	}
	trying.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running = len(q.items) > 0; q.running {
		time.AfterFunc(max(Every, time.Duration(len(items))*pause), q.run)
	}
}
