package redisstore

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/bucketmath"
)

// errAnswer is an answer that the script cannot have given.
var errAnswer = errors.New("the server's answer does not fit the call")

// packedReader reads what the script packed: an answer, or a value in it.
type packedReader struct {
	rest string
	bad  bool // something was read that cannot be there
	// short means that the end was reached too early: nothing that follows is known.
	short bool
}

func (a *packedReader) take(n int) string {
	if len(a.rest) < n {
		a.bad, a.short = true, true
		a.rest = ""
		return string(make([]byte, n))
	}
	piece := a.rest[:n]
	a.rest = a.rest[n:]
	return piece
}

func (a *packedReader) byte() byte { return a.take(1)[0] }

// integer is a number of so many bytes.
func (a *packedReader) integer(size int) (n int64) {
	bytes := a.take(size)
	for i := size - 1; i >= 0; i-- {
		n = n<<8 | int64(bytes[i])
	}
	return n
}

// status is a status that the script gives.
func (a *packedReader) status() store.Status {
	s := store.Status(a.byte())
	if s > store.Unavailable {
		a.bad = true
		return store.Unavailable
	}
	return s
}

// number is a whole number that a double holds exactly.
func (a *packedReader) number() int64 {
	var raw [8]byte
	copy(raw[:], a.take(8))
	x := math.Float64frombits(binary.LittleEndian.Uint64(raw[:]))
	if !(math.Abs(x) <= bucket.MaxUnits) || x != math.Trunc(x) {
		a.bad = true
		return 0
	}
	return int64(x)
}

// level is a number of used units.
func (a *packedReader) level() int64 {
	n := a.number()
	if n < 0 {
		a.bad = true
		return 0
	}
	return n
}

// value reads a stored value into the memory of a state. It returns the version, also of one
// that cannot be read.
func (a *packedReader) value(state *bucket.State) (of int64) {
	value := a.take(int(a.integer(2)))
	if len(value) == 1 {
		*state = bucket.State{}
		return int64(value[0])
	}
	a.bad = !decode(state, value) || a.bad
	return version
}

// read gives the requests of a call their answers. A number that the script cannot have given
// fails its own request only, with an [errAnswer]: all fields have a known length. If the answer is too short, the
// requests fail whose answers are missing.
func (c *scriptCall) read(reply string) (rest string, err error) {
	a := packedReader{rest: reply}
	now := a.number()
	if a.bad {
		return "", errAnswer
	}
	short := false
	for _, settles := range [...]bool{false, true} {
		for _, r := range c.batch {
			if (r.op == opSettle) != settles {
				continue
			}
			r.now, r.spoiled = now, false
			if settles {
				r.readSettlements(&a)
			} else {
				r.readDecision(&a)
			}
			short = short || a.short
			r.spoiled, a.bad = a.bad, short
		}
	}
	if short {
		return "", nil
	}
	return a.rest, nil
}

// readDecision reads the answer to a take or a peek.
func (r *shardRequest) readDecision(a *packedReader) {
	r.admitted = a.byte() == 1
	r.statuses, r.levels, r.states, r.slots, r.unreadable = r.statuses[:0], r.levels[:0], r.states[:0], r.slots[:0], false
	for i := range r.demands {
		status, first := a.status(), len(r.levels)
		r.statuses = append(r.statuses, status)
		if isMixed(r.demands[i].Bands) {
			n := len(r.states)
			r.states = slices.Grow(r.states, 1)[:n+1]
			version := a.value(&r.states[n])
			if slotBand(r.demands[i].Bands) >= 0 {
				r.slots = append(r.slots, a.level(), a.level(), a.level())
			}
			if status == store.Unavailable {
				r.unreadable, r.version = true, version
			}
			continue
		}
		for range r.demands[i].Bands {
			r.levels = append(r.levels, a.level())
		}
		if status == store.Unavailable {
			r.unreadable, r.version = true, r.levels[first]
		}
	}
}

// readSettlements reads the answer to a settlement.
func (r *shardRequest) readSettlements(a *packedReader) {
	r.tokens, r.settled = r.tokens[:0], make([]*store.Result, len(r.takes))
	for i := range r.takes {
		r.tokens = append(r.tokens, a.number())
		if r.reportsLevel(i) {
			var state bucket.State // empty if it cannot be read
			a.value(&state)
			r.settled[i] = bucketmath.Level(r.takes[i].Bands, &state, r.now)
		}
	}
}

// fill writes the answer into an outcome, each demand at the place that
// places gives it, or in order. What the script sends are levels or states;
// everything that people read off them is computed here, by the same arithmetic.
func (r *shardRequest) fill(out *store.Outcome, places []int) {
	levels, states, slots := r.levels, r.states, r.slots
	for i := range r.demands {
		place := i
		if places != nil {
			place = places[i]
		}
		d, result := &r.demands[i], &out.Results[place]
		view := bucket.View{Now: r.now, Steps: r.steps[:0]}
		if isMixed(d.Bands) {
			states[0].View(d.Bands, r.now, &view)
			r.steps, states = view.Steps, states[1:]
			if at := slotBand(d.Bands); at >= 0 {
				view.Levels[at], view.Steps[at].First, view.Steps[at].Last = slots[0], slots[1], slots[2]
				slots = slots[3:]
			}
		} else {
			copy(view.Levels[:], levels[:len(d.Bands)])
			levels = levels[len(d.Bands):]
		}
		if r.statuses[i] == store.Unavailable {
			result.Status = store.Unavailable
			continue
		}
		bucketmath.Evaluate(d, &view, result)
		result.Status = r.statuses[i]
		taken := d.Debited(result.Status) || r.admitted && result.Status == store.OK
		if taken && r.op != opPeek {
			bucketmath.Take(d, &view, result)
		}
		bucketmath.Report(d.Bands, &view, result)
	}
}
