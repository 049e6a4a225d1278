package redisstore

import (
	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/store"
)

// version is that of stored values. A value of another version cannot be read.
const version = 3

// The tag of a record: the id of its band, its kind, its tick as a power of 1,000
// microseconds, and whether it is kept.
const (
	kindShift = 24
	tickShift = 28
	keptTag   = 1 << 31
	holdTag   = 15 << kindShift // how long requests wait
)

// recordFields are the fields of a record after its tag, each a number of 7 bytes.
// lua/kinds/records.lua reads the same, and docs/redis.md has them as a table.
var recordFields = map[bucket.Kind][]string{
	bucket.TokenBucket: {"used", "limit", "rate"},
	bucket.Quota:       {"used", "limit", "end", "longest"},
	bucket.Window:      {"used", "limit", "newest", "length", "counts"},
}

// fieldsOf are the numbers of a slot, in the order of recordFields.
func fieldsOf(s *bucket.Slot) []*int64 {
	fields := []*int64{&s.Used, &s.Limit}
	switch s.Kind {
	case bucket.TokenBucket:
		fields = append(fields, &s.Rate)
	case bucket.Quota:
		fields = append(fields, &s.Steps.End, &s.Steps.Longest)
	case bucket.Window:
		fields = append(fields, &s.Steps.Newest, &s.Steps.Length)
		for i := range s.Steps.Counts {
			fields = append(fields, &s.Steps.Counts[i])
		}
	case bucket.Concurrency: // in a sorted set of its own
	}
	return fields
}

func recordTag(b *store.ExactBand) uint32 {
	return b.ID | uint32(b.Kind)<<kindShift | uint32(b.TickPower())<<tickShift
}

// decodeValue reads a bucket set. No value is a full one.
func decodeValue(value string) (s bucket.State, ok bool) {
	if value == "" {
		return s, true
	}
	r := &packedReader{rest: value}
	known := r.integer(1) == version
	s.At = r.integer(7)
	for known && r.rest != "" && !r.bad {
		tag := r.integer(4)
		if tag == holdTag {
			s.Hold = r.integer(7)
			break
		}
		s.Slots = append(s.Slots, r.slot(uint32(tag)))
	}
	return s, known && !r.bad && r.rest == "" && len(s.Slots) > 0 && len(s.Slots) <= 2*bucket.MaxBands
}

// slot reads the record with a tag.
func (a *packedReader) slot(tag uint32) bucket.Slot {
	slot := bucket.Slot{ID: tag & (1<<kindShift - 1), Kind: bucket.Kind(tag >> kindShift & 15)}
	slot.Tick = uint8(tag &^ keptTag >> tickShift)
	if recordFields[slot.Kind] == nil || int(slot.Tick) >= len(bucket.Ticks) {
		a.bad = true
		return slot
	}
	if slot.Kind != bucket.TokenBucket {
		slot.Steps = new(bucket.Steps)
	}
	for _, field := range fieldsOf(&slot) {
		*field = a.integer(7)
	}
	if tag >= keptTag {
		slot.Since = a.integer(7)
	}
	a.bad = a.bad || slot.Kind == bucket.TokenBucket && slot.Rate == 0 || slot.Kind == bucket.Window && slot.Steps.Length == 0
	return slot
}
