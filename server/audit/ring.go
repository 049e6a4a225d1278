package audit

// maxKept bounds a ring, in bytes.
const maxKept = 8 << 20

// ring holds the last records, the oldest first.
type ring struct {
	records []Record
	size    int // in bytes
}

// add adds a record and drops the oldest beyond most.
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
		clear(k.records[rest:]) // release what was dropped
		k.records = k.records[:rest]
	}
}
