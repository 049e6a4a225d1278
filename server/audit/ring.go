package audit

// maxKept is how much a ring keeps, in bytes.
const maxKept = 8 << 20

// ring keeps the last records, the oldest first.
type ring struct {
	records []Record
	size    int // in bytes
}

// add keeps a record, and at most so many.
func (k *ring) add(r *Record, most int) {
	k.records = append(k.records, *r)
	k.size += r.size()
	drop := 0
	for len(k.records)-drop > most || k.size > maxKept {
		k.size -= k.records[drop].size()
		drop++
	}
	if drop > 0 {
		rest := copy(k.records, k.records[drop:])
		clear(k.records[rest:]) // what was dropped is not held on to
		k.records = k.records[:rest]
	}
}

// newestFirst goes through the records of two rings by their numbers, until it
// is told to stop.
func newestFirst(a, b []Record, yield func(*Record) bool) {
	for len(a) > 0 || len(b) > 0 {
		from := &a
		if len(a) == 0 || len(b) > 0 && b[len(b)-1].Seq > a[len(a)-1].Seq {
			from = &b
		}
		last := len(*from) - 1
		if !yield(&(*from)[last]) {
			return
		}
		*from = (*from)[:last]
	}
}
