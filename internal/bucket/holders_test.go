package bucket

import (
	"maps"
	"slices"
	"testing"
	"time"
)

// A request that finds all slots held waits until the first of them ends, at most a second. The
// bucket is full when the last has ended, which renewing moves, but never to an earlier moment.
func TestHolders_Ends(t *testing.T) {
	now := int64(1_700_000_000_000_000)
	slots := func(hold time.Duration) []Band {
		b, err := NewConcurrency(7, 2, hold)
		if err != nil {
			t.Fatal(err)
		}
		return []Band{b}
	}
	var s State
	var v View
	look := func(bands []Band, at int64) {
		s.View(bands, at, &v)
	}
	for i, hold := range []time.Duration{3 * time.Second, 500 * time.Millisecond} {
		look(slots(hold), now)
		v.Holder = HolderID{byte(i + 1)}
		v.Take(slots(hold), 1)
		s.Store(slots(hold), &v)
	}
	bands := slots(time.Second)
	for _, c := range []struct {
		after, wait, full time.Duration
		used              int64
	}{
		{0, 500 * time.Millisecond, 3 * time.Second, 2},
		{100 * time.Millisecond, 400 * time.Millisecond, 2900 * time.Millisecond, 2},
		{500 * time.Millisecond, 0, 2500 * time.Millisecond, 1},
		{3 * time.Second, 0, 0, 0},
	} {
		at := now + c.after.Microseconds()
		held := State{At: s.At, Slots: []Slot{s.Slots[0]}}
		steps := *s.Slots[0].Steps
		steps.Holders = &Holders{until: maps.Clone(steps.Holders.until)} // looking forgets those that have ended
		held.Slots[0].Steps = &steps
		held.View(bands, at, &v)
		v.Holder = HolderID{9}
		if v.Levels[0] != c.used || v.WaitOf(bands, 0, 1) != c.wait.Microseconds() || v.FullAfterOf(bands, 0) != c.full.Microseconds() {
			t.Errorf("after %v: %d used, wait %d µs, full after %d µs; want %+v", c.after, v.Levels[0], v.WaitOf(bands, 0, 1), v.FullAfterOf(bands, 0), c)
		}
	}
	look(bands, now)
	if !v.Extend(bands, HolderID{1}) || v.FullAfterOf(bands, 0) != (3*time.Second).Microseconds() {
		t.Errorf("renewed for a second: full after %d µs, want the 3 s it had", v.FullAfterOf(bands, 0))
	}
	long := slots(10 * time.Second)
	if !v.Extend(long, HolderID{2}) || v.FullAfterOf(long, 0) != (10*time.Second).Microseconds() {
		t.Errorf("renewed for 10 s: full after %d µs", v.FullAfterOf(long, 0))
	}
	if v.Extend(bands, HolderID{3}) {
		t.Error("a request that holds none was renewed")
	}
}

// An overdraft waits until a quota or a window has a token left.
func TestPositiveAfter_Steps(t *testing.T) {
	now, minute := int64(1_700_000_040_000_000), time.Minute.Microseconds()
	quota, err := NewQuota(7, 3, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	quota.Edges = [3]int64{now - now%minute, now - now%minute + minute, now - now%minute + 2*minute}
	window, err := NewWindow(8, 3, 16*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	bands := []Band{quota, window}
	var s State
	var v View
	s.View(bands, now, &v)
	v.Take(bands, 2)
	if v.PositiveAfter(bands, 0) != 0 || v.PositiveAfter(bands, 1) != 0 {
		t.Error("a token is left, and an overdraft waits")
	}
	v.Take(bands, 1)
	if got, want := v.PositiveAfter(bands, 0), quota.Edges[1]-now; got != want {
		t.Errorf("a quota has a token after %d µs, want %d", got, want)
	}
	if got, want := v.PositiveAfter(bands, 1), (17 * time.Second).Microseconds(); got != want {
		t.Errorf("a window has a token after %d µs, want %d", got, want)
	}
}

// A request holds one slot, whatever it costs. One without a holder, or without a cost, holds
// none and waits for none.
func TestHolders_Price(t *testing.T) {
	bands := []Band{slotsOf(t, 1, 2, 3*time.Second), numbered(10, 4, 1000)}
	bands[1].ID = 2
	var s State
	var v View
	s.View(bands, start, &v)
	v.Take(bands, 5) // a demand without a holder
	s.Store(bands, &v)
	if s.View(bands, start, &v); v.Levels[0] != 0 || v.Steps[0].First != 0 || v.Steps[0].Last != 0 || v.Levels[1] != 50 {
		t.Errorf("levels %v, ends %d and %d without a holder", v.Levels[:2], v.Steps[0].First, v.Steps[0].Last)
	}
	s.Adopt(start - 1) // no holder has an end that moves
	s.View(bands, start, &v)
	for i := range 2 {
		v.Holder = HolderID{byte(i + 1)}
		if wait, grant := v.WaitOf(bands, 0, 7), v.Grant(bands, 1, 7); wait != 0 || grant != 7 {
			t.Errorf("request %d waits %d µs and is granted %d of 7", i, wait, grant)
		}
		v.Take(bands, 7)
		if v.Levels[0] != int64(i+1) || v.FullAfterOf(bands, 0) != 3*second {
			t.Errorf("%d slots are held for %d µs after request %d", v.Levels[0], v.FullAfterOf(bands, 0), i)
		}
	}
	if v.Holder = (HolderID{3}); v.WaitOf(bands, 0, 1) != 1 {
		t.Errorf("waits %d µs for those who came at the same moment, want 1", v.WaitOf(bands, 0, 1))
	}
	s.Store(bands, &v)
	s.View(bands, start, &v)
	for _, c := range []struct {
		name       string
		holder     HolderID
		cost, wait int64
		grant      int64
	}{
		{"with a holder", HolderID{3}, 7, second, 1}, // at most a second
		{"without a cost", HolderID{3}, 0, 0, 1},
		{"without a holder", HolderID{}, 7, 0, 7},
	} {
		if v.Holder = c.holder; v.WaitOf(bands, 0, c.cost) != c.wait || v.Grant(bands, 1, 7) != c.grant {
			t.Errorf("%s: waits %d µs and is granted %d, want %+v", c.name, v.WaitOf(bands, 0, c.cost), v.Grant(bands, 1, 7), c)
		}
	}
	if !Affordable(bands, 100) || Affordable(bands, 101) {
		t.Error("what is affordable follows from the slots")
	}
	// A slot comes back once, and not when it has ended anyway.
	settle := func(id byte, at int64) (changed bool) {
		_, changed = s.Settle(bands, Booking{Cost: 7, At: start, Holder: HolderID{id}}, 7, at)
		return changed
	}
	if !settle(1, start+1) || settle(1, start+1) || settle(2, start+3*second) {
		t.Error("a slot came back twice")
	}
	// Nothing is left of slots that have ended.
	if s.View(bands, start+3*second, &v); v.Levels[0] != 0 || v.Steps[0].First != 0 || v.Steps[0].Last != 0 {
		t.Errorf("%d slots until %d and %d", v.Levels[0], v.Steps[0].First, v.Steps[0].Last)
	}
}

// A settlement that only releases a slot leaves the other bands as they were written, as Redis
// does: under other numbers, what is left of them depends on when they were.
func TestSettle_ReleasesAlone(t *testing.T) {
	slots, err := NewConcurrency(9, 2, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := NewBand(1, 10, 10, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	const start = 1_000_000_000
	bands := []Band{tokens, slots}
	var s State
	v := View{Holder: HolderID{1}}
	s.View(bands, start, &v)
	v.Take(bands, 3)
	s.Store(bands, &v)
	used := s.Slots[0].Used
	if _, changed := s.Settle(bands, Booking{Cost: 3, At: start, Holder: HolderID{1}}, 3, start+100_000); !changed || s.At != start || s.Slots[0].Used != used {
		t.Errorf("changed %t, written at %d with %d used, want %d and %d", changed, s.At, s.Slots[0].Used, start, used)
	}
	if s.View(bands, start+100_000, &v); v.Levels[1] != 0 {
		t.Errorf("%d slots are held", v.Levels[1])
	}
}

// A settlement that only releases a slot, after the clock stepped back, leaves the slots of others
// for as long as they had them: they end before the moment at which the state was written.
func TestSettle_ReleasesAfterStepBack(t *testing.T) {
	bands := []Band{slotsOf(t, 1, 3, 5*time.Second), numbered(10, 4, 1000)}
	bands[1].ID = 2
	var s State
	for id := range byte(2) {
		v := View{Holder: HolderID{id + 1}}
		s.View(bands, start, &v)
		v.Take(bands, 1)
		s.Store(bands, &v)
	}
	now := start - 10*second
	if _, changed := s.Settle(bands, Booking{Cost: 1, At: start, Holder: HolderID{1}}, 1, now); !changed {
		t.Error("the slot was not released")
	}
	if full := s.At + s.FullAfter(); full < now+5*second {
		t.Errorf("full %d µs after the settlement, want at least %d", full-now, 5*second)
	}
	for after, held := range map[int64]int64{0: 1, 5*second - 1: 1, 5 * second: 0} {
		state := State{At: s.At, Slots: slices.Clone(s.Slots)}
		k := slices.IndexFunc(state.Slots, func(slot Slot) bool { return slot.Kind == Concurrency })
		state.Slots[k].Steps = &Steps{Holders: s.Slots[k].Steps.Holders.shifted(0)} // looking forgets those that have ended
		var v View
		if state.View(bands, now+after, &v); v.Levels[0] != held {
			t.Errorf("%d slots are held after %d µs, want %d", v.Levels[0], after, held)
		}
	}
}
