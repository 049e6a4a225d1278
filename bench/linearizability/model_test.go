package linearizability

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// limit is one band as it is configured. Times are in microseconds.
type limit struct {
	kind     rules.BandKind
	capacity int64
	tokens   int64 // of a token bucket, that come back every period
	period   int64 // of concurrency, how long a slot is held
}

// input is one operation.
type input struct {
	op      string // "take", "peek", "settle", "extend" or "reset"
	sets    []int  // the bucket sets it is about, one for each demand
	demands []store.Demand
	takes   store.Takes
	actual  []int64
}

// output is its answer. Call and return are by the clock of the machine in microseconds.
type output struct {
	called, returned int64
	outcome          store.Outcome
	settled          []store.Settlement
	held             bool
}

// state is all bucket sets of a history.
type state struct {
	now  int64 // of the last operation
	sets []set
}

// set is one bucket set.
type set struct {
	promised int64 // when the last take that waits is due
	bands    []level
}

// level is the state of one band, of which each kind uses a part.
type level struct {
	tokens used
	count  int64 // of a quota
	end    int64 // of its period
	slots  []slot
	holds  []hold
}

// slot is what a sliding window has taken in a sixteenth of its period.
type slot struct{ number, count int64 }

// hold is a slot of a concurrency band. It ends between the two moments: when it was
// extended is known only up to the duration of the call.
type hold struct {
	id          store.HolderID
	first, last int64
}

// newModel is the model for bucket sets with these limits. Its state is all states that
// are possible, by their keys.
func newModel(limits [][]limit) porcupine.Model {
	m := &model{limits}
	return porcupine.Model{
		Init: func() any {
			s := &state{sets: make([]set, len(limits))}
			for i := range limits {
				s.sets[i] = m.full(i)
			}
			return map[string]*state{s.key(): s}
		},
		Step: func(before, in, out any) (bool, any) {
			after := map[string]*state{}
			for _, s := range before.(map[string]*state) {
				for _, next := range m.step(s, in.(*input), out.(*output)) {
					after[next.key()] = next
				}
			}
			return len(after) > 0, after
		},
		Equal: func(a, b any) bool {
			return maps.EqualFunc(a.(map[string]*state), b.(map[string]*state), func(*state, *state) bool { return true })
		},
	}
}

// key is different for different states.
func (s *state) key() string {
	key := binary.AppendVarint(nil, s.now)
	for _, set := range s.sets {
		key = binary.AppendVarint(key, set.promised)
		for _, l := range set.bands {
			for _, n := range []int64{l.tokens.moment, l.tokens.low, l.tokens.high, l.count, l.end, int64(len(l.slots)), int64(len(l.holds))} {
				key = binary.AppendVarint(key, n)
			}
			for _, s := range l.slots {
				key = binary.AppendVarint(binary.AppendVarint(key, s.number), s.count)
			}
			for _, h := range l.holds {
				key = binary.AppendVarint(binary.AppendVarint(append(key, h.id[:]...), h.first), h.last)
			}
		}
	}
	return string(key)
}

type model struct{ limits [][]limit }

func (m *model) full(i int) set { return set{bands: make([]level, len(m.limits[i]))} }

func (s *state) clone() *state {
	c := &state{now: s.now, sets: slices.Clone(s.sets)}
	for i := range c.sets {
		c.sets[i].bands = slices.Clone(c.sets[i].bands)
		for j := range c.sets[i].bands {
			l := &c.sets[i].bands[j]
			l.slots, l.holds = slices.Clone(l.slots), slices.Clone(l.holds)
		}
	}
	return c
}

// step returns the states after an operation that gave this answer. None means that it
// cannot have given it.
func (m *model) step(before *state, in *input, out *output) []*state {
	switch in.op {
	case "reset":
		s := before.clone()
		s.now = max(s.now, out.called)
		s.sets[in.sets[0]] = m.full(in.sets[0])
		return []*state{s}
	case "settle", "extend":
		var after []*state
		for _, from := range m.moments(before, in, max(before.now, out.called), out.returned) {
			for _, s := range m.advance(before, from.first) {
				if m.settle(s, in, out, from.last) {
					after = append(after, s)
				}
			}
		}
		return after
	}
	now := out.outcome.Results[0].Now
	if now < before.now || now < out.called || now > out.returned {
		return nil
	}
	return slices.DeleteFunc(m.advance(before, now), func(s *state) bool { return !m.decide(s, in, &out.outcome) })
}

// span is a range of moments.
type span struct{ first, last int64 }

// moments divides the time of a settlement, or of an extension, at the moments at which a
// band changes by a step: within a part of it, it makes no difference to them when it
// happens.
func (m *model) moments(s *state, in *input, first, last int64) []span {
	edges := []int64{first, last + 1}
	every := func(length int64) {
		for edge := (first/length + 1) * length; edge <= last; edge += length {
			edges = append(edges, edge)
		}
	}
	for i := range in.takes {
		t, number := &in.takes[i], in.sets[i]
		charged := in.op == "settle" && in.actual[i] > t.Asked
		for j, b := range m.limits[number] {
			switch {
			case b.kind == rules.Concurrency:
				for _, h := range s.sets[number].bands[j].holds {
					if h.id == t.Holder {
						edges = append(edges, h.first, h.last)
					}
				}
			case b.kind == rules.Quota && charged:
				every(b.period)
			case b.kind == rules.Quota:
				edges = append(edges, (t.At/b.period+1)*b.period)
			case b.kind == rules.SlidingWindow && charged:
				every(b.period / 16)
			case b.kind == rules.SlidingWindow:
				edges = append(edges, (t.At/(b.period/16)+17)*(b.period/16))
			}
		}
	}
	slices.Sort(edges)
	var all []span
	for _, edge := range edges[1:] {
		if edge > first && edge <= last+1 {
			all = append(all, span{first, edge - 1})
			first = edge
		}
	}
	return all
}

// advance returns the states at a moment, more than one where it is unknown whether a
// slot is still held or a promise is still known.
func (m *model) advance(before *state, now int64) []*state {
	s := before.clone()
	s.now = now
	all := []*state{s}
	for i, limits := range m.limits {
		for j, b := range limits {
			l := &s.sets[i].bands[j]
			switch b.kind {
			case rules.TokenBucket:
				l.tokens = l.tokens.at(now, b)
			case rules.Quota:
				for ; l.count > 0 && l.end <= now; l.end += b.period {
					l.count = max(0, l.count-b.capacity) // debt is paid by the next period
				}
				if l.count == 0 {
					l.end = (now/b.period + 1) * b.period
				}
			case rules.SlidingWindow:
				l.slots = slices.DeleteFunc(l.slots, func(s slot) bool { return s.number < now/(b.period/16)-16 || s.count == 0 })
			}
		}
	}
	for i, limits := range m.limits {
		for j, b := range limits {
			if b.kind == rules.Concurrency {
				all = expire(all, i, j, now)
			}
		}
		for _, s := range all {
			if s.sets[i].promised > now && s.sets[i].maybeFull() {
				other := s.clone()
				other.sets[i].promised = 0
				all = append(all, other)
			}
		}
	}
	return all
}

// maybeFull reports whether nothing may be used. A full bucket is the same as none: what was
// promised is forgotten. That can happen before it is due only after a reset, when takes of
// before it are given back.
func (s *set) maybeFull() bool {
	return !slices.ContainsFunc(s.bands, func(l level) bool {
		return l.tokens.low > 0 || l.count > 0 || l.total() > 0 || len(l.holds) > 0
	})
}

// expire ends the holds of a band that are over.
func expire(all []*state, i, j int, now int64) []*state {
	for _, h := range slices.Clone(all[0].sets[i].bands[j].holds) {
		if h.first > now {
			continue
		}
		for _, s := range all {
			holds := &s.sets[i].bands[j].holds
			k := slices.IndexFunc(*holds, func(other hold) bool { return other.id == h.id })
			if h.last > now { // perhaps
				other := s.clone()
				other.sets[i].bands[j].holds[k].first = now + 1
				all = append(all, other)
			}
			*holds = slices.Delete(*holds, k, k+1)
		}
	}
	return all
}
