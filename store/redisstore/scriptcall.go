package redisstore

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/store"
)

// scriptCall is one call of the script: the requests of one shard, or of all where
// one script may touch every key. Its memory is used again.
type scriptCall struct {
	batch []*shardRequest
	// args are the arguments of EVALSHA and EVAL: command, script, number of
	// keys, keys, body, answer.
	args []any
	body []byte

	keys  map[string]place
	lists map[bandList]uint16
	mixed bool // not all of them are of token buckets
	// The sections that follow the lists in body.
	holders, requests, demands, settlements []byte
	// answer is the format of the answer, as the script packs it: that of the
	// requests, and then that of the settlements.
	answer, settled []byte

	err error // of the call
}

// bandList is a list of bands by where it is in memory.
type bandList struct {
	first *store.ExactBand
	count int
}

// place is a key of a call: its number, and the request that asked for it
// first.
type place struct {
	number  uint16
	request int // in requests, or -1
}

const (
	// goodKeys fill a call: more do not reduce the cost of each.
	goodKeys = 64
	// maxKeys bounds the keys of one call, and so how long it blocks the
	// server.
	maxKeys = 256
)

// firstKey is where the keys begin in args.
const firstKey = 3

// build encodes the requests. now is 0 except in tests.
func (q *scriptCall) build(now int64) {
	if q.keys == nil {
		q.keys = make(map[string]place, maxKeys)
		q.lists = make(map[bandList]uint16)
	}
	clear(q.keys)
	clear(q.lists)
	q.mixed = false
	q.args = append(q.args[:0], "EVALSHA", decideSHA, 0)
	q.holders, q.requests, q.demands, q.settlements = q.holders[:0], q.requests[:0], q.demands[:0], q.settlements[:0]
	q.answer, q.settled = append(q.answer[:0], "<d"...), q.settled[:0]
	q.body = appendDouble(q.body[:0], now)
	counts := len(q.body)
	q.body = append(q.body, 0, 0, 0, 0, 0, 0, 0, 0)
	demands, settlements := 0, 0
	for _, a := range q.batch {
		if a.op != opSettle {
			q.addDemands(a, demands)
			demands += len(a.demands)
		}
	}
	for _, a := range q.batch {
		if a.op == opSettle {
			q.addSettle(a, demands+settlements)
			settlements += len(a.takes)
		}
	}
	for i, n := range [...]int{len(q.lists), len(q.requests) / requestSize, demands, settlements} {
		binary.LittleEndian.PutUint16(q.body[counts+2*i:], uint16(n))
	}
	if q.mixed {
		q.body = binary.LittleEndian.AppendUint16(q.body, uint16(len(q.holders)/holderSize))
		q.body = append(q.body, q.holders...)
	}
	q.body = append(q.body, q.requests...)
	q.body = append(q.body, q.demands...)
	q.body = append(q.body, q.settlements...)
	q.answer = append(q.answer, q.settled...)
	if now > 0 {
		for range q.keys {
			q.answer = append(q.answer, 'd')
		}
	}
	q.args[2] = len(q.keys)
	q.args = append(q.args, q.body, q.answer)
}

// The sizes of a holder and a request in their sections.
const (
	holderSize  = 20
	requestSize = 2
)

// evaluate makes the arguments those of an EVAL, which loads the script.
func (q *scriptCall) evaluate() []any {
	q.args[0], q.args[1] = "EVAL", decideScript
	return q.args
}

// evaluateSHA makes them those of an EVALSHA again.
func (q *scriptCall) evaluateSHA() []any {
	q.args[0], q.args[1] = "EVALSHA", decideSHA
	return q.args
}

// addDemands adds a take or a peek, after so many demands.
func (q *scriptCall) addDemands(a *shardRequest, before int) {
	request := len(q.requests)
	op := a.op
	if op == opTake {
		op = aloneOp(a.demands) // until another request has one of its keys
	}
	q.requests = append(q.requests, op, byte(len(a.demands)))
	q.answer = append(q.answer, 'B')
	for i := range a.demands {
		d := &a.demands[i]
		q.demands = q.appendPlace(q.demands, a.keys[i], d.Bands, request)
		q.addHolder(before+i+1, a.keys[i], d.Bands, d.Holder)
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
		q.demands = append(q.demands, kind)
		q.demands = appendDouble(q.demands, d.Cost)
		q.demands = appendDouble(q.demands, d.Minimum())
		q.demands = appendDouble(q.demands, d.MaxWait.Microseconds())
		q.answer = append(q.answer, 'B')
		if isMixed(d.Bands) {
			q.answer = append(q.answer, "I2c0"...)
			if slotBand(d.Bands) >= 0 {
				q.answer = append(q.answer, "dd"...)
			}
			continue
		}
		for range d.Bands {
			q.answer = append(q.answer, 'd')
		}
	}
}

// aloneOp is what a take is that shares no key with others of its call.
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
	case !mixed:
		return opTakeAlone
	case quotas == len(demands) || len(demands) == 1 && len(demands[0].Bands) == 1:
		return opTakeKind
	}
	return opTake
}

// addSettle adds settlements, after so many demands and settlements.
func (q *scriptCall) addSettle(a *shardRequest, before int) {
	for i := range a.takes {
		t := &a.takes[i]
		q.settlements = q.appendPlace(q.settlements, a.keys[i], t.Bands, -1)
		q.addHolder(before+i+1, a.keys[i], t.Bands, t.Holder)
		q.settlements = appendDouble(q.settlements, t.Cost)
		q.settlements = appendDouble(q.settlements, a.actual[i])
		q.settlements = appendDouble(q.settlements, t.At)
		q.settled = append(q.settled, 'd')
		for j := range t.Bands {
			due := t.At
			if len(t.Due) > j {
				due = t.Due[j]
			}
			q.settlements = appendDouble(q.settlements, due)
		}
	}
}

// addHolder names the holder of a demand or settlement whose bands limit how many
// requests there are at the same time.
func (q *scriptCall) addHolder(number int, key string, bands []store.ExactBand, id store.HolderID) {
	if slotBand(bands) < 0 {
		return
	}
	if len(bands) > 1 {
		key = holdersOf(key)
	}
	q.holders = binary.LittleEndian.AppendUint16(q.holders, uint16(number))
	q.holders = binary.LittleEndian.AppendUint16(q.holders, q.keyNumber(key, -1).number)
	q.holders = append(q.holders, id[:]...)
}

// keyNumber adds a key that a request names.
func (q *scriptCall) keyNumber(key string, request int) place {
	k, known := q.keys[key]
	if !known {
		q.args = append(q.args, key)
		k = place{uint16(len(q.args) - firstKey), request}
		q.keys[key] = k
	}
	return k
}

// appendPlace names a key and a list of bands, each of which is sent once
// however many requests name it. The bands of a rule are one list in memory.
func (q *scriptCall) appendPlace(b []byte, key string, bands []store.ExactBand, request int) []byte {
	_, known := q.keys[key]
	k := q.keyNumber(key, request)
	if known {
		q.share(k.request)
		q.share(request)
	}
	list := bandList{&bands[0], len(bands)}
	l, known := q.lists[list]
	if !known {
		l = uint16(len(q.lists) + 1)
		q.lists[list] = l
		mixed := isMixed(bands)
		q.body = append(q.body, byte(len(bands)))
		if mixed {
			q.mixed = true
			q.body[len(q.body)-1] += mixedList
			if bands[0].CountsRefused {
				q.body[len(q.body)-1] += countingList
			}
		}
		for i := range bands {
			band := &bands[i]
			q.body = binary.LittleEndian.AppendUint32(q.body, recordTag(band))
			q.body = appendDoubles(q.body, band.Unit, band.Rate, band.Limit, band.Max, band.Tick)
			if !mixed {
				continue
			}
			switch band.Kind {
			case bucket.Quota:
				q.body = appendDoubles(q.body, band.Edges[0], band.Edges[1], band.Edges[2], band.Period.Microseconds())
			case bucket.Window:
				q.body = appendDoubles(q.body, band.SlotLength())
			case bucket.Concurrency:
				q.body = appendDoubles(q.body, band.Period.Microseconds())
			}
		}
	}
	b = binary.LittleEndian.AppendUint16(b, k.number)
	return binary.LittleEndian.AppendUint16(b, l)
}

// share notes that a request shares one of its keys with another.
func (q *scriptCall) share(request int) {
	if request >= 0 && (q.requests[request] == opTakeAlone || q.requests[request] == opTakeKind) {
		q.requests[request] = opTake
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

// slotBand is the band that limits how many requests there are at the same time, or -1.
func slotBand(bands []store.ExactBand) int {
	return slices.IndexFunc(bands, func(b store.ExactBand) bool { return b.Kind == bucket.Concurrency })
}

func appendDoubles(b []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		b = appendDouble(b, n)
	}
	return b
}

func appendDouble(b []byte, n int64) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(n)))
}
