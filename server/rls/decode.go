package rls

import (
	"errors"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/store"
)

// request is a RateLimitRequest of the protocol.
//
// It is decoded here because the generated code refuses strings that are not UTF-8. Envoy
// sends header values as they are and lets requests pass if the service fails: a client
// could evade its limits with a single byte.
//
// It keeps no more descriptors and entries than are possible and one: an empty one has two
// bytes in the message, and 50 in memory.
type request struct {
	domain      string
	hits        int64 // 0 means 1
	descriptors []descriptor
}

const (
	// maxDescriptors bounds the descriptors of a call: there cannot be more that count.
	maxDescriptors = store.MaxMatches
	// maxEntries bounds the entries of a descriptor. Rules match at most 16.
	maxEntries = 256
)

type descriptor struct {
	entries []fluxgate.DescriptorEntry
	limit   *override
	// hits replace those of the request if they are given.
	hits     int64
	hasHits  bool
	negative bool
}

// override is the limit that a descriptor brings along: so many requests in so many units.
type override struct {
	requests   uint32
	unit       uint64
	multiplier uint32
}

var errMalformed = errors.New("the message is malformed")

// fields calls a function with each field of a message: a number, or the bytes of a
// message or string. Fields of other types are skipped.
func fields(b []byte, field func(number protowire.Number, bytes []byte, value uint64) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errMalformed
		}
		b = b[n:]
		var bytes []byte
		var value uint64
		switch kind {
		case protowire.BytesType:
			bytes, n = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			value, n = protowire.ConsumeVarint(b)
		default:
			n = protowire.ConsumeFieldValue(number, kind, b)
			number = 0
		}
		if n < 0 {
			return errMalformed
		}
		b = b[n:]
		if kind == protowire.BytesType {
			number = -number // no field of one type is read as the other
		}
		if err := field(number, bytes, value); err != nil {
			return err
		}
	}
	return nil
}

func (r *request) decode(b []byte) error {
	return fields(b, func(number protowire.Number, bytes []byte, value uint64) error {
		switch number {
		case -1:
			r.domain = string(bytes)
		case -2:
			if len(r.descriptors) > maxDescriptors {
				return nil
			}
			r.descriptors = append(r.descriptors, descriptor{})
			return r.descriptors[len(r.descriptors)-1].decode(bytes)
		case 3:
			r.hits = int64(uint32(value))
		}
		return nil
	})
}

// tooLong reports whether there are more descriptors or entries than are possible. Such a
// call is refused, because Envoy lets requests pass whose call is answered with an error.
func (r *request) tooLong() bool {
	return len(r.descriptors) > maxDescriptors ||
		slices.ContainsFunc(r.descriptors, func(d descriptor) bool { return len(d.entries) > maxEntries })
}

func (d *descriptor) decode(b []byte) error {
	return fields(b, func(number protowire.Number, bytes []byte, value uint64) error {
		switch number {
		case -1:
			if len(d.entries) > maxEntries {
				return nil
			}
			d.entries = append(d.entries, fluxgate.DescriptorEntry{})
			return decodeEntry(bytes, &d.entries[len(d.entries)-1])
		case -2:
			if d.limit == nil {
				d.limit = new(override)
			}
			return d.limit.decode(bytes)
		case -3:
			d.hasHits = true
			return decodeWrapped(bytes, func(hits uint64) { d.hits = int64(min(hits, store.MaxCost)) })
		case 4:
			d.negative = value != 0
		}
		return nil
	})
}

func decodeEntry(b []byte, e *fluxgate.DescriptorEntry) error {
	return fields(b, func(number protowire.Number, bytes []byte, _ uint64) error {
		switch number {
		case -1:
			e.Key = string(bytes)
		case -2:
			e.Value = string(bytes)
		}
		return nil
	})
}

func (o *override) decode(b []byte) error {
	return fields(b, func(number protowire.Number, bytes []byte, value uint64) error {
		switch number {
		case 1:
			o.requests = uint32(value)
		case 2:
			o.unit = value
		case -3:
			return decodeWrapped(bytes, func(n uint64) { o.multiplier = uint32(n) })
		}
		return nil
	})
}

// decodeWrapped decodes a UInt32Value or UInt64Value.
func decodeWrapped(b []byte, set func(uint64)) error {
	return fields(b, func(number protowire.Number, _ []byte, value uint64) error {
		if number == 1 {
			set(value)
		}
		return nil
	})
}
