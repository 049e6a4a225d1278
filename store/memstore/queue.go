package memstore

import "container/heap"

// queue is a heap of entries, ordered by when they are full.
type queue []*entry

func (q *queue) push(e *entry) { heap.Push(q, e) }

func (q *queue) popFront() *entry { return heap.Pop(q).(*entry) }

// delayFront moves the front entry back to its place.
func (q *queue) delayFront(full int64) {
	(*q)[0].queued = full
	heap.Fix(q, 0)
}

// Len and the methods below implement [heap.Interface].
func (q *queue) Len() int           { return len(*q) }
func (q *queue) Less(i, j int) bool { return (*q)[i].queued < (*q)[j].queued }
func (q *queue) Swap(i, j int)      { (*q)[i], (*q)[j] = (*q)[j], (*q)[i] }
func (q *queue) Push(e any)         { *q = append(*q, e.(*entry)) }
func (q *queue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return e
}
