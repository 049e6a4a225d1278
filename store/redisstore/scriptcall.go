package redisstore

import (
	"encoding/binary"
	"errors"
	"math"
	"net"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/store"
)

// scriptCall is one call of the script. In a cluster it has requests of one shard, otherwise
// any requests. Its memory is reused.
type scriptCall struct {
	batch []*shardRequest
	// args are the arguments of EVALSHA and EVAL: command, script, number of
	// keys, keys, body, answer. They point to fields of the call: a value in an
	// interface would be an allocation for each key.
	args []any
	body packed

	keys  map[string]callKey
	names []string            // the keys, in order
	count int                 // how many
	lists map[bandList]uint16 // the number of each list
	mixed bool                // a list has bands that are not token buckets
	// The sections that follow the lists in body.
	holders, requests, demands, settlements []byte
	// answer is the format of the answer that the script packs. settled is its end, the
	// format of the settlements, which build appends last.
	answer  packed
	settled []byte

	err     error // of the call
	encoded bool  // for a connection, which may have got it
	alone   bool  // no other command is written with it
}

// packed is an argument that go-redis sends as it is.
type packed []byte

// MarshalBinary implements [encoding.BinaryMarshaler].
func (p *packed) MarshalBinary() ([]byte, error) { return *p, nil }

// lastArg is the last argument of a call. go-redis encodes arguments when it has a connection for
// them: until then the call was not sent.
type lastArg scriptCall

// MarshalBinary implements [encoding.BinaryMarshaler].
func (a *lastArg) MarshalBinary() ([]byte, error) {
	a.encoded = true
	return a.answer, nil
}

// resultOf classifies the error of the call. Without a connection it did not run. Nor did it if a
// write failed: then the end of the command was not sent, and Redis runs whole commands only.
func (c *scriptCall) resultOf(err error) callResult {
	result := resultOf(err)
	if result != mayHaveRun || err == nil || errors.Is(err, redis.ErrClosed) {
		return result
	}
	var op *net.OpError
	if !c.encoded || c.alone && errors.As(err, &op) && op.Op == "write" {
		return notReached
	}
	return result
}

// bandList identifies a list of bands by its address: all demands of a rule share one list.
type bandList struct {
	first *store.ExactBand
	count int
}

// callKey is a key of a call.
type callKey struct {
	number  uint16 // from 1
	request int    // the first request that uses the key, as an offset in requests, or -1
}

const (
	// goodKeys is the number of keys from which a larger call is no cheaper per key.
	goodKeys = 64
	// maxKeys bounds the keys of one call, and so how long the call blocks Redis.
	maxKeys = 256
)

// build encodes the requests as lua/script/protocol.lua describes. now is 0 except in tests.
func (c *scriptCall) build(now int64) {
	if c.keys == nil {
		c.keys = make(map[string]callKey, maxKeys)
		c.lists = make(map[bandList]uint16)
	}
	clear(c.keys)
	clear(c.lists)
	c.mixed, c.encoded = false, false
	c.args, c.names = append(c.args[:0], "EVALSHA", &decideSHA, &c.count), c.names[:0]
	c.holders, c.requests, c.demands, c.settlements = c.holders[:0], c.requests[:0], c.demands[:0], c.settlements[:0]
	c.answer, c.settled = append(c.answer[:0], "<d"...), c.settled[:0]
	c.body = appendDoubles(c.body[:0], now)
	countsAt := len(c.body)
	c.body = append(c.body, 0, 0, 0, 0, 0, 0, 0, 0)
	demands, settlements := 0, 0
	for _, r := range c.batch {
		if r.op != opSettle {
			c.addDemands(r, demands)
			demands += len(r.demands)
		}
	}
	for _, r := range c.batch {
		if r.op == opSettle {
			c.addSettle(r, demands+settlements)
			settlements += len(r.takes)
		}
	}
	for i, n := range [...]int{len(c.lists), len(c.requests) / requestSize, demands, settlements} {
		binary.LittleEndian.PutUint16(c.body[countsAt+2*i:], uint16(n))
	}
	if c.mixed {
		c.body = binary.LittleEndian.AppendUint16(c.body, uint16(len(c.holders)/holderSize))
		c.body = append(c.body, c.holders...)
	}
	c.body = append(c.body, c.requests...)
	c.body = append(c.body, c.demands...)
	c.body = append(c.body, c.settlements...)
	c.answer = append(c.answer, c.settled...)
	if now > 0 {
		for range c.keys {
			c.answer = append(c.answer, 'd')
		}
	}
	c.count = len(c.names)
	c.args = append(c.args, &c.body, (*lastArg)(c))
}

// The bytes of a holder and of a request in their sections.
const (
	holderSize  = 20
	requestSize = 2
)

// by returns the arguments for another command: EVAL also loads the script.
func (c *scriptCall) by(command string, script any) []any {
	c.args[0], c.args[1] = command, script
	return c.args
}

// addDemands adds a take or a peek. before is the number of demands that the call already has.
func (c *scriptCall) addDemands(r *shardRequest, before int) {
	request := len(c.requests)
	op := r.op
	if op == opTake {
		op = aloneOp(r.demands) // share changes it back if another request has one of its keys
	}
	c.requests = append(c.requests, op, byte(len(r.demands)))
	c.answer = append(c.answer, 'B')
	for i := range r.demands {
		d := &r.demands[i]
		c.demands = c.appendKeyAndBands(c.demands, r.keys[i], d.Bands, request)
		c.addHolder(before+i+1, r.keys[i], d.Bands, d.Holder)
		kind := byte(0)
		if d.Shadow {
			kind = 1
		}
		switch {
		case d.Overdraft:
			kind += 2
		case d.Alternative && !d.Shadow:
			kind = 4
		}
		c.demands = appendDoubles(append(c.demands, kind), d.Cost, d.Minimum(), d.MaxWait.Microseconds())
		c.answer = append(c.answer, 'B')
		if isMixed(d.Bands) {
			c.answer = append(c.answer, "I2c0"...)
			if slotBand(d.Bands) >= 0 {
				c.answer = append(c.answer, "ddd"...)
			}
			continue
		}
		for range d.Bands {
			c.answer = append(c.answer, 'd')
		}
	}
}

// aloneOp returns the operation of a take that shares no key with other requests of the call.
// The script is faster for most such takes.
func aloneOp(demands []store.Demand) byte {
	mixed, quotas := false, 0
	for i := range demands {
		bands := demands[i].Bands
		mixed = mixed || isMixed(bands)
		if len(bands) == 1 && bands[0].Kind == bucket.Quota {
			quotas++
		}
	}
	switch {
	case demands[0].DebitOnly:
		return opDebit
	case !mixed:
		return opTakeAlone
	case quotas == len(demands) || len(demands) == 1 && len(demands[0].Bands) == 1:
		return opTakeKind
	}
	return opTake
}

// addSettle adds settlements. before is the number of demands and settlements that the call
// already has.
func (c *scriptCall) addSettle(r *shardRequest, before int) {
	for i := range r.takes {
		t := &r.takes[i]
		c.settlements = c.appendKeyAndBands(c.settlements, r.keys[i], t.Bands, -1)
		c.addHolder(before+i+1, r.keys[i], t.Bands, t.Holder)
		c.settlements = appendDoubles(c.settlements, t.Cost, r.actual[i], t.At)
		c.settled = append(c.settled, 'd')
		if r.reportsLevel(i) {
			c.settled = append(c.settled, "I2c0"...)
		}
		for j := range t.Bands {
			due := t.At
			if len(t.Due) > j {
				due = t.Due[j]
			}
			c.settlements = appendDoubles(c.settlements, due)
		}
	}
}

// addHolder adds who holds a slot, if one of the bands limits concurrent requests. number is
// the position of the demand or settlement in the call, from 1.
func (c *scriptCall) addHolder(number int, key string, bands []store.ExactBand, id store.HolderID) {
	if slotBand(bands) < 0 {
		return
	}
	if len(bands) > 1 {
		key = holdersOf(key)
	}
	c.holders = binary.LittleEndian.AppendUint16(c.holders, uint16(number))
	c.holders = binary.LittleEndian.AppendUint16(c.holders, c.addKey(key, -1).number)
	c.holders = append(c.holders, id[:]...)
}

// addKey adds a key, unless the call has it already, and returns it.
func (c *scriptCall) addKey(key string, request int) callKey {
	k, known := c.keys[key]
	if !known {
		c.names = append(c.names, key)
		c.args = append(c.args, &c.names[len(c.names)-1])
		k = callKey{uint16(len(c.names)), request}
		c.keys[key] = k
	}
	return k
}

// appendKeyAndBands appends the number of a key and the number of a list of bands to a section.
// Each key and each list is sent once, however many requests use it.
func (c *scriptCall) appendKeyAndBands(b []byte, key string, bands []store.ExactBand, request int) []byte {
	_, known := c.keys[key]
	k := c.addKey(key, request)
	if known {
		c.share(k.request)
		c.share(request)
	}
	list := bandList{&bands[0], len(bands)}
	l, known := c.lists[list]
	if !known {
		l = uint16(len(c.lists) + 1)
		c.lists[list] = l
		mixed := isMixed(bands)
		c.body = append(c.body, byte(len(bands)))
		if mixed {
			c.mixed = true
			c.body[len(c.body)-1] += mixedList
			if bands[0].CountsRefused {
				c.body[len(c.body)-1] += countingList
			}
		}
		for i := range bands {
			band := &bands[i]
			c.body = binary.LittleEndian.AppendUint32(c.body, recordTag(band))
			c.body = appendDoubles(c.body, band.Unit, band.Rate, band.Limit, band.Max, band.Tick)
			if !mixed {
				continue
			}
			switch band.Kind {
			case bucket.Quota:
				c.body = appendDoubles(c.body, band.Edges[0], band.Edges[1], band.Edges[2], band.Period.Microseconds())
			case bucket.Window:
				c.body = appendDoubles(c.body, band.SlotLength())
			case bucket.Concurrency:
				c.body = appendDoubles(c.body, band.Period.Microseconds())
			}
		}
	}
	b = binary.LittleEndian.AppendUint16(b, k.number)
	return binary.LittleEndian.AppendUint16(b, l)
}

// share notes that a request shares one of its keys with another one, and is no longer alone.
func (c *scriptCall) share(request int) {
	if request >= 0 && (c.requests[request] == opTakeAlone || c.requests[request] == opTakeKind) {
		c.requests[request] = opTake
	}
}

// mixedList is added to the length of a list whose bands are not all token buckets.
const mixedList = 128

// countingList is added to the length of a list that counts refused hits.
const countingList = 64

// isMixed reports whether not all bands are token buckets.
func isMixed(bands []store.ExactBand) bool {
	for i := range bands {
		if bands[i].Kind != bucket.TokenBucket {
			return true
		}
	}
	return false
}

// slotBand returns the index of the band that limits concurrent requests, or -1.
func slotBand(bands []store.ExactBand) int {
	return slices.IndexFunc(bands, func(b store.ExactBand) bool { return b.Kind == bucket.Concurrency })
}

func appendDoubles(b []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(n)))
	}
	return b
}
