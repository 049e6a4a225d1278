package redisstore

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/bucketmath"
)

// errAnswer is an answer that the script cannot have given.
var errAnswer = errors.New("the server's answer does not fit the call")

// answerReader reads what the script packed.
type answerReader struct {
	rest string
	bad  bool
}

func (r *answerReader) take(n int) string {
	if len(r.rest) < n {
		r.bad = true
		r.rest = ""
		return string(make([]byte, n))
	}
	piece := r.rest[:n]
	r.rest = r.rest[n:]
	return piece
}

func (r *answerReader) byte() byte { return r.take(1)[0] }

// status is a status that the script gives.
func (r *answerReader) status() store.Status {
	s := store.Status(r.byte())
	if s > store.Unavailable {
		r.bad = true
		return store.Unavailable
	}
	return s
}

// number is a whole number that a double holds exactly.
func (r *answerReader) number() int64 {
	var raw [8]byte
	copy(raw[:], r.take(8))
	x := math.Float64frombits(binary.LittleEndian.Uint64(raw[:]))
	if !(math.Abs(x) <= bucket.MaxUnits) || x != math.Trunc(x) {
		r.bad = true
		return 0
	}
	return int64(x)
}

// level is a number of used units.
func (r *answerReader) level() int64 {
	n := r.number()
	if n < 0 {
		r.bad = true
		return 0
	}
	return n
}

// value is a stored value, or the version of one that cannot be read.
func (r *answerReader) value() (state bucket.State, of int64) {
	n := r.take(2)
	value := r.take(int(n[0]) | int(n[1])<<8)
	if len(value) == 1 {
		return state, int64(value[0])
	}
	state, ok := decodeValue(value)
	r.bad = r.bad || !ok
	return state, version
}

// read gives the requests of a call their answers.
func (q *scriptCall) read(reply string) (rest string, err error) {
	r := answerReader{rest: reply}
	now := r.number()
	for _, a := range q.batch {
		if a.op == opSettle {
			continue
		}
		a.now = now
		a.admitted = r.byte() == 1
		a.statuses, a.levels, a.states, a.slots, a.unreadable = a.statuses[:0], a.levels[:0], a.states[:0], a.slots[:0], false
		for i := range a.demands {
			status, first := r.status(), len(a.levels)
			a.statuses = append(a.statuses, status)
			if isMixed(a.demands[i].Bands) {
				state, version := r.value()
				a.states = append(a.states, state)
				if slotBand(a.demands[i].Bands) >= 0 {
					a.slots = append(a.slots, r.level(), r.level())
				}
				if status == store.Unavailable {
					a.unreadable, a.version = true, version
				}
				continue
			}
			for range a.demands[i].Bands {
				a.levels = append(a.levels, r.level())
			}
			if status == store.Unavailable {
				a.unreadable, a.version = true, a.levels[first]
			}
		}
	}
	for _, a := range q.batch {
		if a.op != opSettle {
			continue
		}
		a.now, a.tokens = now, a.tokens[:0]
		for range a.takes {
			a.tokens = append(a.tokens, r.number())
		}
	}
	if r.bad {
		return "", errAnswer
	}
	return r.rest, nil
}

// fill writes the answer into an outcome, each demand at the place that
// places gives it, or in order. What the script sends are levels or states;
// everything that people read off them is computed here, by the same arithmetic.
func (a *shardRequest) fill(out *store.Outcome, places []int) {
	levels, states, slots := a.levels, a.states, a.slots
	for i := range a.demands {
		place := i
		if places != nil {
			place = places[i]
		}
		d, result := &a.demands[i], &out.Results[place]
		view := bucket.View{Now: a.now}
		if isMixed(d.Bands) {
			states[0].View(d.Bands, a.now, &view)
			states = states[1:]
			if at := slotBand(d.Bands); at >= 0 {
				view.Levels[at], view.Steps[at].First = slots[0], slots[1]
				view.Steps[at].Last = a.now + d.Bands[at].Period.Microseconds()
				slots = slots[2:]
			}
		} else {
			copy(view.Levels[:], levels[:len(d.Bands)])
			levels = levels[len(d.Bands):]
		}
		if a.statuses[i] == store.Unavailable {
			result.Status = store.Unavailable
			continue
		}
		bucketmath.Evaluate(d, &view, result)
		result.Status = a.statuses[i]
		taken := d.Debited(result.Status) || a.admitted && result.Status == store.OK
		if taken && a.op != opPeek {
			bucketmath.Take(d, &view, result)
		}
		bucketmath.Report(d.Bands, &view, result)
	}
}
