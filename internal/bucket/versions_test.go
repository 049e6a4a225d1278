package bucket

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Two versions of a band take turns, and give back what they took: no interval sees more of
// either than it would hand out alone.
func TestStore_VersionsConform_NoRace(t *testing.T) {
	histories := 20_000
	if testing.Short() {
		histories = 1_000
	}
	var taken, refused, returned int64
	for seed := range uint64(histories) {
		r := rand.New(rand.NewPCG(seed, 11))
		var versions [2][]Band
		for i := range versions {
			b := band(t, 1+r.Int64N(6), 1+r.Int64N(4), []time.Duration{time.Millisecond, 7 * time.Millisecond, time.Second}[r.IntN(3)])
			versions[i] = []Band{b}
		}
		var state State
		now := int64(1_700_000_000_000_000)
		var events [2][]event
		type receipt struct {
			version, event int
			booked         Booking
		}
		var open []receipt
		for range 60 {
			b := &versions[r.IntN(2)][0]
			now += r.Int64N(1 + r.Int64N(2*b.Unit/b.Rate*b.Tick))
			if len(open) > 0 && r.IntN(3) == 0 {
				k := r.IntN(len(open))
				of := open[k]
				open = append(open[:k], open[k+1:]...)
				actual := r.Int64N(of.booked.Cost + 1)
				tokens, _ := state.Settle(versions[of.version], of.booked, actual, now)
				returned += tokens
				events[of.version][of.event].tokens = actual
				continue
			}
			i := r.IntN(2)
			bands := versions[i]
			var v View
			state.View(bands, now, &v)
			cost := 1 + r.Int64N(bands[0].Capacity)
			if v.Wait(bands, cost) > 0 {
				refused++
				continue
			}
			v.Take(bands, cost)
			state.Store(bands, &v)
			taken++
			open = append(open, receipt{i, len(events[i]), Booking{Cost: cost, At: now}})
			events[i] = append(events[i], event{now, cost})
		}
		for i := range versions {
			if !conforms(versions[i][0], events[i]) {
				t.Fatalf("history %d: version %d hands out more than capacity + R·T/D", seed, i)
			}
		}
	}
	t.Logf("%d takes, %d refused, %d tokens came back", taken, refused, returned)
	if returned*20 < taken {
		t.Error("hardly anything came back: the rule is safe but useless")
	}
}

// Two windows with different periods take turns and are settled: no interval of its period
// sees more of either than it would admit alone. With the same label both count all takes.
func TestStore_WindowsConform(t *testing.T) {
	var admitted, refused, returned int64
	for seed := range uint64(5_000) {
		r := rand.New(rand.NewPCG(seed, 12))
		var versions [2][]Band
		for i := range versions {
			b, err := NewWindow(1+uint32(i)*uint32(seed%2), 1+r.Int64N(6), []time.Duration{16 * time.Millisecond, 160 * time.Millisecond, 4 * time.Second}[r.IntN(3)])
			if err != nil {
				t.Fatal(err)
			}
			versions[i] = []Band{b}
		}
		var state State
		var logs [2][]taken
		now := int64(1_700_000_000_000_000)
		for range 60 {
			i := r.IntN(2)
			bands := versions[i]
			now += r.Int64N(1 + bands[0].Period.Microseconds()/4)
			cost := 1 + r.Int64N(bands[0].Capacity)
			var v View
			if state.View(bands, now, &v); v.Wait(bands, cost) > 0 {
				refused++
				continue
			}
			v.Take(bands, cost)
			state.Store(bands, &v)
			admitted++
			for j := range logs {
				if j == i || seed%2 == 0 && len(logs[j]) > 0 {
					logs[j] = append(logs[j], taken{now, cost})
				}
			}
			if used := inWindow(logs[i], now, bands[0].Period.Microseconds()); used > bands[0].Capacity {
				t.Fatalf("history %d: version %d admits %d of %d in %v", seed, i, used, bands[0].Capacity, bands[0].Period)
			}
			if r.IntN(3) > 0 {
				continue
			}
			actual := r.Int64N(cost + 1)
			tokens, _ := state.Settle(bands, Booking{Cost: cost, At: now}, actual, now)
			returned += tokens
			for j := range logs {
				if k := len(logs[j]) - 1; k >= 0 && logs[j][k].at == now {
					logs[j][k].cost = min(logs[j][k].cost, actual)
				}
			}
		}
	}
	t.Logf("%d takes, %d refused, %d tokens came back", admitted, refused, returned)
	if returned*20 < admitted {
		t.Error("hardly anything came back")
	}
}

// A record that no take asks for is kept until it is empty, for an hour, or until another
// version of its band comes.
func TestStore_Kept(t *testing.T) {
	start := int64(1_700_000_000_000_000)
	hour := func(capacity int64) Band { return band(t, capacity, 1, time.Hour) }
	other := band(t, 10, 10, time.Second)
	other.ID = 2
	take := func(s *State, now, cost int64, bands ...Band) {
		t.Helper()
		var v View
		s.View(bands, now, &v)
		v.Take(bands, cost)
		s.Store(bands, &v)
	}
	kept := func(s *State) (ids []int64) {
		for _, slot := range s.Slots {
			if slot.Since > 0 {
				ids = append(ids, slot.Limit/hour(1).Unit)
			}
		}
		return ids
	}
	var s State
	take(&s, start, 50, hour(100))
	take(&s, start+1, 1, other)
	if got := kept(&s); len(got) != 1 || s.FullAfter() != KeptFor.Microseconds() {
		t.Errorf("kept %v for %d µs", got, s.FullAfter())
	}
	var v View
	s.View([]Band{hour(100)}, start+1, &v)
	if left := hour(100); left.Remaining(v.Levels[0]) != 50 {
		t.Errorf("%d left of the band that was not asked for", left.Remaining(v.Levels[0]))
	}
	take(&s, start+2, 1, hour(200), other) // its next version
	take(&s, start+3, 1, hour(300), other) // and another
	if got := kept(&s); len(got) != 1 || got[0] != 200 {
		t.Errorf("kept versions %v, want that of 200", got)
	}
	take(&s, start+3+KeptFor.Microseconds(), 1, hour(300), other)
	if got := kept(&s); len(got) != 0 {
		t.Errorf("kept %v for more than an hour", got)
	}
	take(&s, start+4+KeptFor.Microseconds(), 1, hour(300))
	take(&s, start+4+KeptFor.Microseconds()+2*second, 1, hour(300))
	if got := kept(&s); len(got) != 0 {
		t.Errorf("kept %v, which are full", got)
	}
}

// The slots of a concurrency band.
func TestHolders(t *testing.T) {
	slots, err := NewConcurrency(3, 2, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	bands := []Band{band(t, 10, 10, time.Hour), slots}
	now, minute := int64(1_700_000_000_000_000), time.Minute.Microseconds()
	var s State
	take := func(id byte, now int64) bool {
		var v View
		s.View(bands, now, &v)
		v.Holder = HolderID{id}
		if v.Wait(bands, 1) > 0 {
			return false
		}
		v.Take(bands, 1)
		s.Store(bands, &v)
		return true
	}
	extend := func(id byte, now int64) bool {
		var v View
		s.View(bands, now, &v)
		held := v.Extend(bands, HolderID{id})
		s.Store(bands, &v)
		return held
	}
	if !take(1, now) || !take(2, now+1) || take(3, now+2) {
		t.Fatal("two slots are not two slots")
	}
	if tokens, changed := s.Settle(bands, Booking{Cost: 1, At: now, Holder: HolderID{1}}, 1, now+3); tokens != 0 || !changed {
		t.Errorf("releasing: %d tokens, changed %t", tokens, changed)
	}
	if _, changed := s.Settle(bands, Booking{Cost: 1, At: now, Holder: HolderID{1}}, 1, now+4); changed {
		t.Error("a slot was released twice")
	}
	if !take(3, now+5) || take(4, now+6) {
		t.Error("one slot is free, not more")
	}
	if !extend(2, now+minute) || extend(1, now+minute) {
		t.Error("a slot that is held is renewed, and no other")
	}
	if take(5, now+4+minute) || !take(5, now+5+minute) {
		t.Error("a lost slot is back after its hold")
	}
	if s.FullAfter() < minute {
		t.Errorf("remembered for %d µs only", s.FullAfter())
	}
	bands[1].Period = time.Second // a lower hold
	if !extend(2, now+6+minute) || take(6, now+2*second+minute) {
		t.Error("a lower hold cuts slots of requests under way")
	}
	if !s.Adopt(now) || take(6, now+minute-7) { // the clock steps back: all ends move with it
		t.Error("a clock that steps back frees slots")
	}
	if !take(6, now+minute) {
		t.Error("a clock that stepped back holds slots for longer")
	}
	for _, bad := range []struct {
		capacity int64
		hold     time.Duration
	}{{0, time.Second}, {maxHolders + 1, time.Second}, {1, minHold - time.Millisecond}, {1, maxHold + time.Millisecond}, {1, time.Second + time.Microsecond}} {
		if _, err := NewConcurrency(1, bad.capacity, bad.hold); err == nil {
			t.Errorf("accepted %+v", bad)
		}
	}
}

// Quotas carry the number that is used, and debt is what exceeds every limit of a period.
func TestQuota(t *testing.T) {
	now, minute := int64(1_700_000_000_000_000), time.Minute.Microseconds()
	quota := func(capacity int64) []Band {
		b, err := NewQuota(7, capacity, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		b.Edges = [3]int64{now, now + minute, now + 2*minute}
		return []Band{b}
	}
	var s State
	level := func(capacity, at int64) int64 {
		var v View
		bands := quota(capacity)
		s.View(bands, at, &v)
		return v.Levels[0]
	}
	var v View
	s.View(quota(500), now, &v)
	v.Take(quota(500), 400)
	s.Store(quota(500), &v)
	for _, capacity := range []int64{500, 5_000, 100, 1} {
		if got := level(capacity, now+1); got != 400 {
			t.Errorf("400 are used: %d of %d", got, capacity)
		}
	}
	if got := level(100, now+minute); got != 0 {
		t.Errorf("%d of 100 are used in the next period", got)
	}
	if tokens, _ := s.Settle(quota(500), Booking{Cost: 400, At: now, Due: []int64{now + minute}}, 700, now+2); tokens != -300 {
		t.Errorf("charged %d, want 300", -tokens)
	}
	if tokens, _ := s.Settle(quota(5_000), Booking{Cost: 400, At: now, Due: []int64{now + minute}}, 300, now+3); tokens != 100 {
		t.Errorf("%d came back, want 100", tokens)
	}
	if got := level(500, now+4); got != 600 {
		t.Errorf("%d are used, want 600", got)
	}
	if full := s.FullAfter(); full != minute-3 { // 5,000 is a limit of this period
		t.Errorf("remembered for %d µs", full)
	}
	for _, capacity := range []int64{0, maxCount + 1} {
		if _, err := NewQuota(1, capacity, time.Minute); err == nil {
			t.Errorf("accepted a capacity of %d", capacity)
		}
	}
}

// A take under a shorter window that is settled later does not shorten the window, nor keep to
// the debt of a lower capacity.
func TestSettle_WindowAfterChange(t *testing.T) {
	now := int64(1_700_000_000_000_000)
	window := func(capacity int64, length time.Duration) []Band {
		b, err := NewWindow(7, capacity, length)
		if err != nil {
			t.Fatal(err)
		}
		return []Band{b}
	}
	short, long := window(5, 1600*time.Millisecond), window(30, time.Minute)
	var s State
	var v View
	for _, bands := range [][]Band{short, long} {
		s.View(bands, now, &v)
		v.Take(bands, 1)
		s.Store(bands, &v)
	}
	for _, actual := range []int64{9, 40} { // two takes of before the change
		now += second
		if tokens, _ := s.Settle(short, Booking{Cost: 1, At: now - second}, actual, now); tokens != 1-actual {
			t.Errorf("settling 1 at %d charged %d", actual, -tokens)
		}
	}
	now += 10 * second
	s.View(long, now, &v)
	if v.Levels[0] != 2+8+39 {
		t.Errorf("%d are used in the longer window, want 49", v.Levels[0])
	}
	if tokens, _ := s.Settle(short, Booking{Cost: 1, At: now}, 100, now); tokens != -11 {
		t.Errorf("charged %d, want the 11 until the debt of the higher capacity", -tokens)
	}
	never := short[0]
	never.Max = never.Limit
	if tokens, _ := s.Settle([]Band{never}, Booking{At: now}, 1, now); tokens != 0 {
		t.Errorf("a charge that must not be debt charged %d", -tokens)
	}
}

// A charge under a longer window, of which there was no take yet, counts as long as that: after an
// outage in which the rule changed. If there is no room, nothing begins.
func TestSettle_ChargesLongerWindow(t *testing.T) {
	short, long := []Band{windowOf(t, 5, 1600*time.Millisecond)}, []Band{windowOf(t, 30, time.Minute)}
	var s State
	var v View
	s.View(short, start, &v)
	v.Take(short, 2)
	s.Store(short, &v)
	full := long[0]
	full.Limit, full.Max = 2, 2
	if _, changed := s.Settle([]Band{full}, Booking{At: start}, 9, start); changed || len(s.Slots) != 1 {
		t.Errorf("changed %t, with %d windows, want one that is as it was", changed, len(s.Slots))
	}
	for _, after := range []int64{0, 2 * second} {
		if tokens, _ := s.Settle(long, Booking{At: start + after}, 9, start+after); tokens != -9 {
			t.Errorf("charged %d, want 9", -tokens)
		}
	}
	for _, c := range []struct {
		bands []Band
		after time.Duration
		used  int64
	}{
		{short, 2 * time.Second, 9},
		{long, 2 * time.Second, 2 + 9 + 9},
		{short, 4 * time.Second, 0},
		{long, 50 * time.Second, 2 + 9 + 9},
	} {
		if s.View(c.bands, start+c.after.Microseconds(), &v); v.Levels[0] != c.used {
			t.Errorf("%d of %d are used after %v, want %d", v.Levels[0], c.bands[0].Limit, c.after, c.used)
		}
	}
}
