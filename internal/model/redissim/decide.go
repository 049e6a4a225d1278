package redissim

import (
	"maps"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/bucketmath"
)

// value is what a server has of a bucket set under its key.
type value struct {
	state bucket.State
	full  int64 // when it expires
}

func (v *value) used(bands []store.ExactBand, now int64) []int64 {
	var view bucket.View
	v.state.View(bands, now, &view)
	used := make([]int64, len(bands))
	for i := range bands {
		used[i] = bands[i].Capacity - bands[i].Remaining(view.Levels[i]) + bands[i].Owed(view.Levels[i])
	}
	return used
}

// state is that of a key, full if there is none.
func (n *node) state(key string, now int64) *bucket.State {
	if v := n.values[key]; v != nil && v.full > now {
		return &v.state
	}
	return &bucket.State{}
}

func (n *node) keep(key string, state *bucket.State) {
	if after := state.FullAfter(); after > 0 {
		n.values[key] = &value{*state, state.At + after}
	} else {
		delete(n.values, key)
	}
}

// held is how many hold a slot, and when the first and the last of them lose it.
func (n *node) held(key string, now int64) (count, first, last int64) {
	maps.DeleteFunc(n.holders[key], func(_ store.HolderID, until int64) bool { return until <= now })
	if len(n.holders[key]) == 0 {
		delete(n.holders, key)
		return 0, 0, 0
	}
	ends := slices.Sorted(maps.Values(n.holders[key]))
	return int64(len(ends)), ends[0], ends[len(ends)-1]
}

func (n *node) hold(key string, id store.HolderID, until int64) {
	if n.holders[key] == nil {
		n.holders[key] = map[store.HolderID]int64{}
	}
	n.holders[key][id] = max(until, n.holders[key][id])
}

// run is the decision script: it decides the requests one after the other, and then settles.
func (c *call) run(n *node, now int64, log *Call) string {
	var a answer
	a.double(float64(now))
	entry := 0
	for i := range c.requests {
		r := &c.requests[i]
		r.decide(n, now, &a, log.Entries[entry:entry+len(r.demands)])
		entry += len(r.demands)
	}
	for i := range c.settlements {
		s := &c.settlements[i]
		log.Entries[entry+i].Age = time.Duration(now-int64(s.when)) * time.Microsecond
		s.settle(n, now, &a)
	}
	return a.String()
}

// decide decides one request, and appends its answer.
func (r *request) decide(n *node, now int64, a *answer, log []Entry) {
	demands := make([]store.Demand, len(r.demands))
	views, before, packed := make([]bucket.View, len(demands)), make([][]int64, len(demands)), make([]string, len(demands))
	var out store.Outcome
	for i := range r.demands {
		demands[i] = r.demands[i].Demand
		demands[i].Min = min(demands[i].Min, demands[i].Cost)
	}
	out.Prepare(demands)
	for i := range demands {
		d, result, l := &demands[i], &out.Results[i], r.demands[i].list
		state := n.state(r.demands[i].key, now)
		if r.op != opPeek && state.Adopt(now) {
			n.keep(r.demands[i].key, state)
		}
		packed[i] = pack(state)
		if result.Granted = d.Cost; len(d.Bands) > 0 {
			state.View(d.Bands, now, &views[i])
			before[i] = slices.Clone(views[i].Levels[:len(d.Bands)])
			bucketmath.Evaluate(d, &views[i], result)
		}
		if l.slots != nil && !d.Overdraft && d.Cost > 0 && d.Holder != (store.HolderID{}) && result.Status == store.OK {
			if held, _, _ := n.held(r.demands[i].holders, now); held >= l.slots.Limit {
				result.Status = store.Rejected
			}
		}
	}
	out.Decide(demands)
	admitted := byte(0)
	if out.Admission != store.NotAdmitted {
		admitted = 1
	}
	_ = a.WriteByte(admitted)
	for i := range demands {
		d, result, asked := &demands[i], &out.Results[i], &r.demands[i]
		_ = a.WriteByte(byte(result.Status))
		if asked.list.mixed {
			a.text(packed[i])
		} else {
			for _, level := range before[i] {
				a.double(float64(level))
			}
		}
		if asked.list.slots != nil {
			held, first, last := n.held(asked.holders, now)
			if held < asked.list.slots.Limit {
				first = 0
			}
			a.double(float64(held))
			a.double(float64(first))
			a.double(float64(last))
		}
		if r.op == opPeek {
			continue
		}
		log[i].Granted = result.Granted
		if len(d.Bands) > 0 && bucketmath.Take(d, &views[i], result) {
			state := *n.state(asked.key, now)
			state.Slots = slices.Clone(state.Slots)
			state.Store(d.Bands, &views[i])
			n.keep(asked.key, &state)
		}
		if asked.list.slots != nil && !d.Overdraft && result.Granted > 0 && d.Holder != (store.HolderID{}) {
			n.hold(asked.holders, d.Holder, now+asked.list.slots.Period.Microseconds())
		}
	}
}

// renews is the actual cost that only renews slots.
const renews = -1

// settle corrects a take, and appends its answer.
func (s *settlement) settle(n *node, now int64, a *answer) {
	until, has := n.holders[s.holders][s.holder]
	has = s.list.slots != nil && has && until > now && s.holder != (store.HolderID{})
	if s.actual == renews {
		tokens := 1.0
		if s.list.slots != nil && !has {
			tokens = 0
		} else if has {
			n.hold(s.holders, s.holder, now+s.list.slots.Period.Microseconds())
		}
		a.double(tokens)
		return
	}
	if has {
		delete(n.holders[s.holders], s.holder)
	}
	tokens := s.cost - s.actual
	state := *n.state(s.key, now)
	if values := s.list.values; len(values) > 0 {
		var due []int64
		for _, place := range s.list.places {
			due = append(due, s.due[place])
		}
		state.Slots = slices.Clone(state.Slots)
		moved, changed := state.Settle(values, bucket.Booking{Cost: int64(s.cost), At: int64(s.when), Due: due, Holder: s.holder}, int64(s.actual), now)
		if tokens = float64(moved); changed {
			n.keep(s.key, &state)
		}
	}
	a.double(tokens)
	if s.list.mixed {
		a.text(pack(&state))
	}
}
