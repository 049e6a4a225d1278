package bucket

import (
	"maps"
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
