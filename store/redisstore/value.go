package redisstore

import (
	"slices"

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

// fieldsOf appends the numbers of a slot to fields, in the order of recordFields.
func fieldsOf(s *bucket.Slot, fields []*int64) []*int64 {
	fields = append(fields, &s.Used, &s.Limit)
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

// decode reads a bucket set into the memory of another one. No value is a full bucket set.
func decode(s *bucket.State, value string) (ok bool) {
	*s = bucket.State{Slots: s.Slots[:0]}
	if value == "" {
		return true
	}
	r := packedReader{rest: value}
	known := r.integer(1) == version
	s.At = r.integer(7)
	for known && r.rest != "" && !r.bad {
		tag := r.integer(4)
		if tag == holdTag {
			s.Hold = r.integer(7)
			break
		}
		n := len(s.Slots)
		s.Slots = slices.Grow(s.Slots, 1)[:n+1]
		r.slot(&s.Slots[n], uint32(tag))
	}
	return known && !r.bad && r.rest == "" && len(s.Slots) > 0 && len(s.Slots) <= 2*bucket.MaxBands
}

// slot reads the record with a tag into the memory of another one.
func (a *packedReader) slot(slot *bucket.Slot, tag uint32) {
	steps := slot.Steps
	*slot = bucket.Slot{ID: tag & (1<<kindShift - 1), Kind: bucket.Kind(tag >> kindShift & 15), Tick: uint8(tag &^ keptTag >> tickShift)}
	if recordFields[slot.Kind] == nil || int(slot.Tick) >= len(bucket.Ticks) {
		a.bad = true
		return
	}
	if slot.Kind != bucket.TokenBucket {
		if slot.Steps = steps; steps == nil {
			slot.Steps = new(bucket.Steps)
		}
		*slot.Steps = bucket.Steps{}
	}
	var space [4 + len(bucket.Steps{}.Counts)]*int64
	for _, field := range fieldsOf(slot, space[:0]) {
		*field = a.integer(7)
	}
	if tag >= keptTag {
		slot.Since = a.integer(7)
	}
	a.bad = a.bad || slot.Kind == bucket.TokenBucket && slot.Rate == 0 || slot.Kind == bucket.Window && slot.Steps.Length == 0
}
