package bucket

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// event is the tokens of a take, handed out at the tick it is due.
type event struct {
	due, tokens int64
}

// conforms reports whether no interval sees more than capacity + R·T/D: the
// same as a bucket of that size never overflowing when it is filled by the
// events in the order they are due.
func conforms(b Band, events []event) bool {
	events = slices.Clone(events)
	slices.SortFunc(events, func(x, y event) int { return cmp.Compare(x.due, y.due) })
	var used, at int64
	for _, e := range events {
		used = (&Slot{Used: used, Rate: b.Rate, Tick: b.TickPower()}).level(at, e.due)
		at = e.due
		if used += e.tokens * b.Unit; used > b.Limit {
			return false
		}
	}
	return true
}

// giveBackAll is the naive rule: give back everything.
func giveBackAll(s *State, bands []Band, booked Booking, actual, now int64) {
	var v View
	s.View(bands, now, &v)
	for i := range bands {
		v.Levels[i] = max(0, v.Levels[i]-(booked.Cost-actual)*bands[i].Unit)
	}
	s.Store(bands, &v)
}

func giveBackByRule(s *State, bands []Band, booked Booking, actual, now int64) {
	s.Settle(bands, booked, actual, now)
}

type withdraw func(s *State, bands []Band, booked Booking, actual, now int64)

// play runs one random history of takes, waits, give-backs and cancelled
// waits, and of overdrafts beside them, on one bucket and reports whether the
// takes conform.
func play(r *rand.Rand, giveBack withdraw, overdrafts bool) (conforming bool, restored, cancelled int64) {
	capacity := 1 + r.Int64N(5)
	// A period of up to a few ms with ticks of a µs, or of seconds with
	// coarse ticks, so that roundings of the due tick happen all the time.
	b, err := NewBand(0, capacity, 1+r.Int64N(4), time.Millisecond+time.Duration(r.IntN(50))*time.Microsecond)
	if err != nil {
		panic(err)
	}
	if r.IntN(2) == 0 { // more than a tick's worth, less than a token's
		b.Unit, b.Rate, b.Tick = 1+r.Int64N(7), 1+r.Int64N(7), Ticks[r.IntN(2)]
		b.Limit = b.Capacity * b.Unit
		b.Max = 1000 * b.Limit
	}
	bands := []Band{b}
	step := max(1, b.Unit/b.Rate*b.Tick)
	var state State
	now := int64(1_000_000)
	var events []event
	var open []int // indices of events that may still be withdrawn
	receipts := map[int]Booking{}
	var overdrawn []Booking
	for range 60 {
		now += r.Int64N(1 + r.Int64N(2*step*capacity))
		var v View
		state.View(bands, now, &v)
		if len(open) > 0 && r.IntN(3) == 0 {
			k := r.IntN(len(open))
			i := open[k]
			open = slices.Delete(open, k, k+1)
			booked := receipts[i]
			actual := int64(0)
			if r.IntN(2) == 0 {
				actual = r.Int64N(booked.Cost + 1)
			}
			before := v.Levels[0]
			giveBack(&state, bands, booked, actual, now)
			state.View(bands, now, &v)
			restored += before - v.Levels[0]
			cancelled += (booked.Cost - actual) * b.Unit
			events[i].tokens = actual
			continue
		}
		cost := 1 + r.Int64N(capacity)
		if overdrafts && r.IntN(4) == 0 {
			// An overdraft is no event: only takes are bound by the capacity.
			if tokens, changed := v.Overdraw(bands, cost); changed {
				state.Store(bands, &v)
				overdrawn = append(overdrawn, Booking{Cost: tokens, At: now})
			}
			continue
		}
		if n := len(overdrawn); n > 0 && r.IntN(6) == 0 {
			state.Settle(bands, overdrawn[n-1], r.Int64N(overdrawn[n-1].Cost+1), now)
			overdrawn = overdrawn[:n-1]
			continue
		}
		wait := v.Wait(bands, cost)
		if wait > 0 && (r.IntN(2) == 0 || wait > 20*step*capacity) {
			continue
		}
		v.Take(bands, cost)
		state.Store(bands, &v)
		open = append(open, len(events))
		receipts[len(events)] = Booking{Cost: cost, At: now, Due: []int64{now + wait}}
		events = append(events, event{now + wait, cost})
	}
	return conforms(b, events), restored, cancelled
}

// No interval hands out too many tokens, whatever is given back.
func TestSettle_NoIntervalAboveLimit_NoRace(t *testing.T) {
	histories := 20_000
	if testing.Short() {
		histories = 1_000
	}
	var restored, cancelled int64
	for seed := range uint64(histories) {
		ok, back, of := play(rand.New(rand.NewPCG(seed, 7)), giveBackByRule, seed%2 == 1)
		if !ok {
			t.Fatalf("history %d hands out more than capacity + R·T/D", seed)
		}
		restored += back
		cancelled += of
	}
	t.Logf("%d histories conform; %d %% of what was withdrawn came back", histories, 100*restored/cancelled)
	if restored*10 < cancelled {
		t.Error("less than a tenth came back: the rule is safe but useless")
	}
	broken := 0
	for seed := range uint64(histories) {
		if ok, _, _ := play(rand.New(rand.NewPCG(seed, 7)), giveBackAll, false); !ok {
			broken++
		}
	}
	t.Logf("giving everything back breaks %d of the same histories", broken)
	if broken < histories/10 {
		t.Error("these histories would not notice a wrong rule")
	}
}
