package bucket

import (
	"slices"
	"testing"
	"time"
)

// numbered is a token bucket that regains rate units with every microsecond.
func numbered(unit, rate, limit int64) Band {
	return Band{ID: 1, Capacity: limit / unit, Tick: 1, Unit: unit, Rate: rate, Limit: limit, Max: 2 * limit}
}

func used(s *State) (levels []int64) {
	for _, slot := range s.Slots {
		levels = append(levels, slot.Used)
	}
	return levels
}

// twoVersions is a state that two versions of a band have taken from: first 90 of the 100
// units of old at 1000, then 11 of the 33 of current at 1010.
func twoVersions(t *testing.T) (s State, old, current Band) {
	t.Helper()
	old, current = numbered(10, 4, 100), numbered(11, 1, 33)
	var v View
	for _, take := range []struct {
		band          Band
		cost, at      int64
		level         int64
		current, kept int64
	}{
		// The first takes 90 of 100.
		{old, 9, 1000, 0, 90, 0},
		// 40 have come back: 50 of 100 are used, or 17 of 33, rounded up. It takes 11 of 33,
		// which are 34 of 100.
		{current, 1, 1010, 17, 28, 84},
	} {
		bands := []Band{take.band}
		s.View(bands, take.at, &v)
		if v.Levels[0] != take.level {
			t.Fatalf("%d units are used at %d, want %d", v.Levels[0], take.at, take.level)
		}
		v.Take(bands, take.cost)
		s.Store(bands, &v)
		if s.Slots[0].Used != take.current || take.kept > 0 && s.Slots[1].Used != take.kept {
			t.Fatalf("used %v, want %d and %d", used(&s), take.current, take.kept)
		}
	}
	return s, old, current
}

// While two versions of a band take turns, a correction of one corrects the other in
// proportion, rounded against the caller.
func TestSettle_TwoVersions(t *testing.T) {
	_, old, current := twoVersions(t)
	third := numbered(5, 1, 50)
	for _, c := range []struct {
		name          string
		band          Band
		booked        Booking
		actual        int64
		hold          int64
		before        []int64 // what is used at 1010, else 28 and 84
		tokens        int64
		current, kept int64
	}{
		// At 1012 the levels are 26 and 76. Of the 90 of the old version 48 have come back.
		// When the current began, 50 were left of them, which are 16, and 10 came back since the take.
		{"what has come back does not come back again", old, Booking{Cost: 9, At: 1000}, 4, 0, nil, 4, 26 - (16 + 10 - 12), 76 - (90 - 48)},
		{"a part", old, Booking{Cost: 9, At: 1000}, 7, 0, nil, 2, 26 - 6, 76 - 20},
		{"less than a token", old, Booking{Cost: 9, At: 1000}, 8, 0, nil, 1, 26 - 3, 76 - 10},
		{"until the last request that waits", old, Booking{Cost: 9, At: 1000}, 4, 3, nil, 3, 26 - (16 + 10 - 13), 76 - (90 - 52)},
		{"due later", old, Booking{Cost: 9, At: 1000, Due: []int64{1005}}, 4, 0, nil, 5, 26 - 16, 76 - 50},
		{"taken after they split", old, Booking{Cost: 9, At: 1010}, 4, 0, nil, 5, 26, 76 - 50},
		{"taken in the future, because the clock stepped back", old, Booking{Cost: 9, At: 1013}, 4, 0, nil, 0, 28, 84},
		{"nothing to correct", old, Booking{Cost: 9, At: 1000}, 9, 0, nil, 0, 28, 84},
		{"a take of the current version", current, Booking{Cost: 1, At: 1010}, 0, 0, nil, 0, 26 - 9, 76},
		{"a version that is gone", third, Booking{Cost: 9, At: 1000}, 4, 0, nil, 0, 28, 84},
		{"charged", old, Booking{Cost: 9, At: 1000}, 10, 0, nil, -1, 26 + 4, 76 + 10},
		{"charged to the largest debt, the other to its limit", old, Booking{Cost: 9, At: 1000}, 29, 0, nil, -12, 33, 200},
		{"charged by the other alone", old, Booking{Cost: 9, At: 1000}, 10, 0, []int64{28, 208}, 0, 26 + 4, 200},
		{"charged by the current version", current, Booking{Cost: 1, At: 1010}, 2, 0, nil, -1, 26 + 11, 76 + 24},
		{"charged to a version that is gone", third, Booking{Cost: 9, At: 1000}, 11, 0, nil, -2, 33, 76 + 20},
		{"one unit of the other alone", old, Booking{Cost: 9, At: 1000}, 4, 0, []int64{3, 8}, 0, 0, 0},
		{"nothing is used any more", old, Booking{Cost: 9, At: 1000}, 4, 0, []int64{2, 8}, 0, 2, 8},
		{"nothing more can be charged", old, Booking{Cost: 9, At: 1000}, 10, 0, []int64{35, 208}, 0, 35, 208},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, _, _ := twoVersions(t)
			for k, units := range c.before {
				s.Slots[k].Used = units
			}
			s.Hold = c.hold
			// Slots of another band, and of the same id that counts otherwise, stay as they are.
			other := numbered(10, 4, 100)
			s.Slots = append(s.Slots, Slot{ID: 2, Used: 70, Limit: other.Limit, Rate: other.Rate},
				Slot{ID: 1, Kind: Quota, Used: 5, Limit: 10, Since: 1010, Steps: &Steps{End: 5000}})
			before := used(&s)
			tokens, changed := s.Settle([]Band{c.band}, c.booked, c.actual, 1012)
			elsewhere := []int64{70, 5}
			if changed {
				elsewhere[0] -= 8
			}
			got := used(&s)
			if tokens != c.tokens || got[0] != c.current || got[1] != c.kept || got[2] != elsewhere[0] || got[3] != elsewhere[1] {
				t.Errorf("%d tokens, used %v; want %d, %d and %d of the two versions, and %v elsewhere", tokens, got, c.tokens, c.current, c.kept, elsewhere)
			}
			if !changed && s.At != 1010 || changed && s.At != 1012 || !changed && got[0] != before[0] {
				t.Errorf("changed %t: of %d", changed, s.At)
			}
		})
	}
}

// A correction of the first of two versions, where the take that was made since has the
// faster rate.
func TestSettle_SlowVersion(t *testing.T) {
	fast, slow := numbered(10, 4, 100), numbered(11, 1, 33)
	var s State
	var v View
	for _, take := range []struct {
		band     Band
		cost, at int64
	}{{slow, 2, 1000}, {fast, 1, 1010}} {
		s.View([]Band{take.band}, take.at, &v)
		v.Take([]Band{take.band}, take.cost)
		s.Store([]Band{take.band}, &v)
	}
	// 22 of 33 are 67 of 100, of which 40 have come back at 1010, and another 10 were taken.
	// These are 4 of 33, beside 12 that are left of 22.
	if got := used(&s); got[0] != 37 || got[1] != 16 {
		t.Fatalf("used %v", got)
	}
	// At 1012 they are 29 and 14. Of 22 units 12 have come back, and of 66 by the faster rate 48.
	tokens, changed := s.Settle([]Band{slow}, Booking{Cost: 2, At: 1000}, 0, 1012)
	if got := used(&s); !changed || tokens != 0 || got[0] != 29-18 || got[1] != 14-10 {
		t.Errorf("%d tokens, used %v", tokens, got)
	}
}

// A charge to a full bucket begins it.
func TestSettle_ChargesFullBucket(t *testing.T) {
	const now = 1_700_000_000_000_000
	quota, window := countBands(t, now)
	for name, b := range map[string]Band{"token bucket": numbered(10, 4, 100), "quota": quota, "window": window} {
		t.Run(name, func(t *testing.T) {
			for actual, want := range map[int64]int64{2: 1, 3: 2, 1_000_000: (b.Max + b.Unit - 1) / b.Unit} {
				var s State
				bands := []Band{b}
				if tokens, changed := s.Settle(bands, Booking{Cost: 1, At: now}, actual, now); tokens != -want || !changed {
					t.Errorf("charged %d, want %d", -tokens, want)
				}
				var v View
				s.View(bands, now, &v)
				if len(s.Slots) != 1 || v.Levels[0] != want*b.Unit {
					t.Errorf("%d units are used in %d slots, want %d", v.Levels[0], len(s.Slots), want*b.Unit)
				}
			}
		})
	}
}

// countBands are a quota of 10 for each minute, which begins now, and a window of 10 in 16
// seconds.
func countBands(t *testing.T, now int64) (quota, window Band) {
	t.Helper()
	quota, err := NewQuota(1, 10, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	quota.Edges = [3]int64{now, now + 60*second, now + 120*second}
	if window, err = NewWindow(1, 10, 16*time.Second); err != nil {
		t.Fatal(err)
	}
	return quota, window
}

// A correction does not compare with what a rule counts in another way by now, nor is one
// made where the take has left no state.
func TestSettle_NothingToCorrect(t *testing.T) {
	const now = 1_700_000_000_000_000
	quota, window := countBands(t, now)
	tokens := numbered(10, 4, 100)
	slots, err := NewConcurrency(1, 3, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	other := tokens
	other.ID = 2
	for _, c := range []struct {
		name            string
		stored, settled Band
		actual          int64
	}{
		{"charge: tokens, then a quota", tokens, quota, 7},
		{"charge: a quota, then tokens", quota, tokens, 7},
		{"charge: a quota, then a window", quota, window, 7},
		{"refund: tokens, then a quota", tokens, quota, 0},
		{"refund: a quota, then tokens", quota, tokens, 0},
		{"refund: a window, then a quota", window, quota, 0},
		{"a slot that nobody holds", slots, slots, 5},
		{"a slot of a rule that had none", tokens, slots, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s State
			var v View
			s.View([]Band{c.stored}, now, &v)
			v.Take([]Band{c.stored}, 3)
			s.Store([]Band{c.stored}, &v)
			if tokens, changed := s.Settle([]Band{c.settled}, Booking{Cost: 5, At: now, Due: []int64{now + 60*second}, Holder: HolderID{1}}, c.actual, now+1); tokens != 0 || changed || s.At != now {
				t.Errorf("%d tokens, changed %t", tokens, changed)
			}
		})
	}
	// A band whose position is that of another band has no state.
	var s State
	var v View
	s.View([]Band{tokens, other}, now, &v)
	v.Take([]Band{tokens, other}, 3)
	s.Store([]Band{tokens, other}, &v)
	renamed := tokens
	renamed.ID = 9
	if back, changed := s.Settle([]Band{renamed, tokens}, Booking{Cost: 3, At: now}, 0, now); back != 0 || !changed || s.Slots[0].Used != 0 || s.Slots[1].Used != 30 {
		t.Errorf("%d tokens came back, used %v", back, used(&s))
	}
}

// The largest debt of a quota is that of the largest limit in its period, and a band that
// must not have debt has none.
func TestSettle_QuotaDebt(t *testing.T) {
	const now = 1_700_000_000_000_000
	small, _ := countBands(t, now)
	large := small
	large.Capacity, large.Limit, large.Max = 100, 100, 200
	strict := small
	strict.Max = strict.Limit
	for _, c := range []struct {
		name      string
		settled   Band
		after     int64
		charged   int64
		remaining int64
	}{
		{"in the period of the larger limit", small, 1, 200 - 9, 0},
		{"in the next", small, 60 * second, 20, 0},
		{"without debt, at a larger limit", strict, 1, 1, 0},
		{"without debt, in the next", strict, 60 * second, 10, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s State
			var v View
			s.View([]Band{large}, now, &v)
			v.Take([]Band{large}, 9)
			s.Store([]Band{large}, &v)
			tokens, changed := s.Settle([]Band{c.settled}, Booking{Cost: 1, At: now}, 1_000, now+c.after)
			if -tokens != c.charged || !changed {
				t.Errorf("charged %d, want %d", -tokens, c.charged)
			}
		})
	}
}

// Units are bounded, whatever the number of tokens.
func TestBand_Units(t *testing.T) {
	b := Band{Unit: 3}
	for tokens, want := range map[int64]int64{0: 0, 5: 15, MaxUnits / 3: MaxUnits / 3 * 3, MaxUnits/3 + 1: MaxUnits, 1<<63 - 1: MaxUnits} {
		if got := b.units(tokens); got != want {
			t.Errorf("%d tokens are %d units, want %d", tokens, got, want)
		}
	}
}

// A correction that changes nothing leaves the state as it is, also after the clock stepped
// back: the slots of requests under way would lose their time twice otherwise.
func TestSettle_ClockStepsBack(t *testing.T) {
	slots, err := NewConcurrency(1, 1, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	bands := []Band{slots}
	now := int64(1_700_000_000_000_000)
	var s State
	v := View{Holder: HolderID{1}}
	s.View(bands, now, &v)
	v.Take(bands, 1)
	s.Store(bands, &v)
	back := now - 30*second
	if _, changed := s.Settle(bands, Booking{Cost: 1, At: now, Holder: HolderID{2}}, 1, back); changed {
		t.Error("a slot was released that nobody holds")
	}
	s.Adopt(back)
	v = View{Holder: HolderID{3}}
	for after, want := range map[int64]int64{60*second - 1: 1, 60 * second: 0} {
		looked := State{At: s.At, Slots: []Slot{{ID: 1, Kind: Concurrency, Steps: &Steps{Holders: s.Slots[0].Steps.Holders.shifted(0)}}}}
		if looked.View(bands, back+after, &v); v.Levels[0] != want {
			t.Errorf("%d slots are held %d µs after the clock stepped back, want %d", v.Levels[0], after, want)
		}
	}
	// A correction that changes something counts by the new clock.
	back -= 30 * second
	if _, changed := s.Settle(append(bands, numbered(10, 4, 100)), Booking{Cost: 1, At: back, Holder: HolderID{2}}, 2, back); !changed || s.At != back {
		t.Errorf("charged at %d", s.At)
	}
	if s.View(bands, back+60*second-1, &v); v.Levels[0] != 1 {
		t.Error("a clock that stepped back freed a slot")
	}
	if s.View(bands, back+60*second, &v); v.Levels[0] != 0 {
		t.Error("a clock that stepped back holds a slot for longer")
	}
}

// A settlement corrects the slot of its own label, or begins one while there is room. It never
// takes over the slot at its position, which may have begun after the take.
func TestSettle_OtherLabel(t *testing.T) {
	const now = 1_700_000_120_000_000
	quota, window := countBands(t, now)
	for name, own := range map[string]Band{"token bucket": numbered(10, 4, 100), "quota": quota, "window": window} {
		t.Run(name, func(t *testing.T) {
			labelled := own
			labelled.ID = 1 << 23
			var s State
			var v View
			s.View([]Band{labelled}, now, &v)
			v.Take([]Band{labelled}, 3)
			s.Store([]Band{labelled}, &v)
			booked := Booking{Cost: 3, At: now, Due: []int64{now + 60*second}}
			if back, changed := s.Settle([]Band{own}, booked, 0, now); back != 0 || changed {
				t.Errorf("%d tokens came back", back)
			}
			if tokens, changed := s.Settle([]Band{own}, booked, 5, now); tokens != -2 || !changed || len(s.Slots) != 2 {
				t.Fatalf("%d tokens, %d slots; want a slot of its own, charged by 2", tokens, len(s.Slots))
			}
			if s.Slots[0].Used != 3*own.Unit || s.Slots[1].Used != 2*own.Unit || s.Slots[1].ID != own.ID {
				t.Errorf("used %v", used(&s))
			}
			holders := Slot{ID: 9, Kind: Concurrency, Steps: &Steps{Holders: &Holders{}}}
			for room := range 2 {
				full := State{At: now, Slots: append(slices.Repeat(s.Slots[:1], MaxBands+maxKept-room), holders)}
				if tokens, _ := full.Settle([]Band{own}, booked, 5, now); tokens != int64(-2*room) {
					t.Errorf("room for %d slots: charged %d", room, -tokens)
				}
			}
		})
	}
}
