package redissim

import (
	"encoding/binary"
	"math"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/store"
)

// call is a call of the decision script, as lua/script/protocol.lua describes it.
type call struct {
	keys        []string
	requests    []request
	settlements []settlement
}

type request struct {
	op      byte
	demands []demand
}

// demand is one demand: its bands without the one that limits concurrency, which is apart.
type demand struct {
	store.Demand // with the bands that a value has
	key          string
	list         *list
	holders      string // the key of them
}

type settlement struct {
	key, holders       string
	list               *list
	holder             store.HolderID
	cost, actual, when float64
	due                []int64
}

// list is a list of bands.
type list struct {
	all, values []store.ExactBand
	places      []int // of values in all
	slots       *store.ExactBand
	mixed       bool
}

const (
	opPeek       = 1
	mixedList    = 128
	countingList = 64
	windowSlots  = 16
	kindShift    = 24
	tickShift    = 28
)

// reader reads what is packed.
type reader struct{ rest string }

func (r *reader) take(n int) string {
	piece := r.rest[:n]
	r.rest = r.rest[n:]
	return piece
}

func (r *reader) byte() byte { return r.take(1)[0] }
func (r *reader) short() int { return int(binary.LittleEndian.Uint16([]byte(r.take(2)))) }
func (r *reader) double() float64 {
	return math.Float64frombits(binary.LittleEndian.Uint64([]byte(r.take(8))))
}
func (r *reader) number() int64 { return int64(r.double()) }

func decodeCall(keys []string, body string) *call {
	r := reader{body}
	r.double() // the time, which only tests pass in
	lists, requests, demands, settlements := make([]*list, r.short()), r.short(), r.short(), r.short()
	anyMixed := false
	for i := range lists {
		lists[i] = r.list()
		anyMixed = anyMixed || lists[i].mixed
	}
	type holder struct {
		key string
		id  store.HolderID
	}
	holders := map[int]holder{}
	if anyMixed {
		for range r.short() {
			number, key := r.short(), r.short()
			h := holder{key: keys[key-1]}
			copy(h.id[:], r.take(16))
			holders[number] = h
		}
	}
	c := &call{keys: keys, requests: make([]request, requests)}
	counts := make([]int, requests)
	for i := range c.requests {
		c.requests[i].op, counts[i] = r.byte(), int(r.byte())
	}
	number := 0
	for i := range c.requests {
		for range counts[i] {
			number++
			d := demand{key: keys[r.short()-1]}
			d.list = lists[r.short()-1]
			d.holders, d.Holder = holders[number].key, holders[number].id
			kind := r.byte()
			d.Bands, d.Cost, d.Min, d.MaxWait = d.list.values, r.number(), r.number(), time.Duration(r.number())*time.Microsecond
			d.Shadow, d.Overdraft, d.Alternative = kind == 1 || kind == 3, kind == 2 || kind == 3, kind == 4
			c.requests[i].demands = append(c.requests[i].demands, d)
		}
	}
	for range settlements {
		number++
		s := settlement{key: keys[r.short()-1]}
		s.list = lists[r.short()-1]
		s.holders, s.holder = holders[number].key, holders[number].id
		s.cost, s.actual, s.when = r.double(), r.double(), r.double()
		for range s.list.all {
			s.due = append(s.due, r.number())
		}
		c.settlements = append(c.settlements, s)
	}
	_ = demands
	return c
}

func (r *reader) list() *list {
	n := r.byte()
	l := &list{mixed: n >= mixedList}
	counts := n&countingList != 0
	for i := range int(n &^ (mixedList | countingList)) {
		tag := binary.LittleEndian.Uint32([]byte(r.take(4)))
		b := store.ExactBand{ID: tag & (1<<kindShift - 1), Kind: bucket.Kind(tag >> kindShift & 15), Tick: bucket.Ticks[tag>>tickShift&3]}
		b.Unit, b.Rate, b.Limit, b.Max = r.number(), r.number(), r.number(), r.number()
		b.Capacity = b.Limit / max(1, b.Unit)
		r.double() // the tick
		if l.mixed {
			switch b.Kind {
			case bucket.Quota:
				b.Edges = [3]int64{r.number(), r.number(), r.number()}
				b.Period, b.CountsRefused = time.Duration(r.number())*time.Microsecond, counts
			case bucket.Window:
				b.Period = time.Duration(r.number()) * windowSlots * time.Microsecond
			case bucket.Concurrency:
				b.Period = time.Duration(r.number()) * time.Microsecond
			case bucket.TokenBucket:
			}
		}
		l.all = append(l.all, b)
		if b.Kind != bucket.Concurrency {
			l.values, l.places = append(l.values, b), append(l.places, i)
		}
	}
	for i := range l.all {
		if l.all[i].Kind == bucket.Concurrency {
			l.slots = &l.all[i]
		}
	}
	return l
}

// entries are the parts of a call, for the log.
func (c *call) entries() (all []Entry) {
	for i, r := range c.requests {
		for k := range r.demands {
			d := &r.demands[k]
			all = append(all, Entry{
				Key: keyOf(d.key), Slot: d.list.slots != nil, Values: len(d.list.values) > 0, Peeks: r.op == opPeek, Request: i,
				Cost: d.Cost, Holder: d.Holder, Bands: d.list.all,
			})
		}
	}
	for i := range c.settlements {
		s := &c.settlements[i]
		all = append(all, Entry{
			Key: keyOf(s.key), Slot: s.list.slots != nil, Values: len(s.list.values) > 0, Settles: true, Renews: s.actual == -1,
			Cost: int64(s.cost), Actual: int64(s.actual), Holder: s.holder, Bands: s.list.all,
		})
	}
	return all
}

// answer packs an answer.
type answer struct{ strings.Builder }

func (a *answer) double(x float64) {
	_, _ = a.Write(binary.LittleEndian.AppendUint64(nil, math.Float64bits(x)))
}

func (a *answer) text(s string) {
	_, _ = a.Write(binary.LittleEndian.AppendUint16(nil, uint16(len(s))))
	_, _ = a.WriteString(s)
}

// pack is a value as the script stores it: see docs/redis.md.
func pack(s *bucket.State) string {
	if len(s.Slots) == 0 {
		return ""
	}
	var b []byte
	add := func(n int64, size int) { b = append(b, binary.LittleEndian.AppendUint64(nil, uint64(n))[:size]...) }
	add(3, 1)
	add(s.At, 7)
	for i := range s.Slots {
		slot := &s.Slots[i]
		tag := int64(slot.ID) | int64(slot.Kind)<<kindShift | int64(slot.Tick)<<tickShift
		if slot.Since > 0 {
			tag |= 1 << 31
		}
		add(tag, 4)
		add(slot.Used, 7)
		add(slot.Limit, 7)
		switch slot.Kind {
		case bucket.TokenBucket:
			add(slot.Rate, 7)
		case bucket.Quota:
			add(slot.Steps.End, 7)
			add(slot.Steps.Longest, 7)
		case bucket.Window:
			add(slot.Steps.Newest, 7)
			add(slot.Steps.Length, 7)
			for _, count := range slot.Steps.Counts {
				add(count, 7)
			}
		case bucket.Concurrency:
		}
		if slot.Since > 0 {
			add(slot.Since, 7)
		}
	}
	if s.Hold > 0 {
		add(15<<kindShift, 4)
		add(s.Hold, 7)
	}
	return string(b)
}
