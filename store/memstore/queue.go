package memstore

// queue is a heap of entries, ordered by when they are full.
type queue []*entry

func (q *queue) push(e *entry) {
	*q = append(*q, e)
	h := *q
	for i := len(h) - 1; i > 0; {
		parent := (i - 1) / 2
		if h[parent].queued <= h[i].queued {
			return
		}
		h[parent], h[i] = h[i], h[parent]
		i = parent
	}
}

// delayFront moves the front entry back to its place.
func (q queue) delayFront(full int64) {
	q[0].queued = full
	q.sink()
}

func (q *queue) popFront() *entry {
	h := *q
	front, last := h[0], len(h)-1
	h[0], h[last] = h[last], nil
	*q = h[:last]
	q.sink()
	return front
}

// sink moves the front entry down to its place.
func (q queue) sink() {
	for i := 0; ; {
		least := i
		for _, child := range [...]int{2*i + 1, 2*i + 2} {
			if child < len(q) && q[child].queued < q[least].queued {
				least = child
			}
		}
		if least == i {
			return
		}
		q[i], q[least] = q[least], q[i]
		i = least
	}
}
