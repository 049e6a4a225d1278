package redisstore

import "github.com/fluxgate/fluxgate/internal/bucket"

// The versions of stored values: of one whose bands are all token buckets, and of
// any other.
const (
	versionBuckets = 1
	versionMixed   = 2
)

// valueReader reads a value as lua/decide.lua packs it.
type valueReader struct {
	rest string
	bad  bool
}

func (r *valueReader) integer(size int) (n int64) {
	if len(r.rest) < size {
		r.rest, r.bad = "", true
		return 0
	}
	for i := size - 1; i >= 0; i-- {
		n = n<<8 | int64(r.rest[i])
	}
	r.rest = r.rest[size:]
	return n
}

// decodeValue reads a bucket set. No value is a full one.
func decodeValue(value string) (s bucket.State, ok bool) {
	if value == "" {
		return s, true
	}
	r := &valueReader{rest: value}
	version := r.integer(1)
	s.At = r.integer(7)
	if version == versionMixed {
		s.Hold = r.integer(7)
	}
	for len(r.rest) > 7 && len(s.Slots) < bucket.MaxBands {
		var slot bucket.Slot
		if version == versionMixed {
			slot.Kind = bucket.Kind(r.integer(1))
		}
		slot.ID, slot.Used, slot.Limit = uint32(r.integer(3)), r.integer(7), r.integer(7)
		switch slot.Kind {
		case bucket.TokenBucket:
		case bucket.Quota:
			slot.Steps = &bucket.Steps{End: r.integer(7)}
		case bucket.Window:
			slot.Steps = &bucket.Steps{Newest: r.integer(7), Length: r.integer(7)}
			for i := range slot.Steps.Counts {
				slot.Steps.Counts[i] = r.integer(7)
			}
			r.bad = r.bad || slot.Steps.Length <= 0
		case bucket.Concurrency:
			slot.Steps = &bucket.Steps{First: r.integer(7), Last: r.integer(7)}
		default:
			r.bad = true
		}
		s.Slots = append(s.Slots, slot)
	}
	if version == versionBuckets && len(r.rest) == 7 {
		s.Hold = r.integer(7)
	}
	known := version == versionBuckets || version == versionMixed
	return s, known && !r.bad && r.rest == "" && len(s.Slots) > 0
}
