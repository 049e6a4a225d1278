package bucket

import (
	"slices"
	"testing"
	"time"
)

func slotsOf(t *testing.T, id uint32, capacity int64, hold time.Duration) Band {
	t.Helper()
	b, err := NewConcurrency(id, capacity, hold)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Most takes ask for the bands that were written last. They need no memory, nor does a full
// bucket that has room.
func TestStore_Memory(t *testing.T) {
	other := numbered(10, 4, 100)
	other.ID = 2
	bands := []Band{numbered(10, 4, 100), other}
	var v View
	room := make([]Slot, 0, 2)
	s := State{Slots: room}
	for name, state := range map[string]func(){
		"a full bucket":  func() { s = State{Slots: room} },
		"the same bands": func() {},
	} {
		if allocated := testing.AllocsPerRun(10, func() {
			state()
			s.View(bands, start, &v)
			v.Take(bands, 1)
			s.Store(bands, &v)
		}); allocated != 0 {
			t.Errorf("%s: %v allocations", name, allocated)
		}
	}
}

// A view that is used again has no level of before.
func TestView_UsedAgain(t *testing.T) {
	v := View{Levels: [MaxBands]int64{5, 5, 5}}
	bands := []Band{numbered(10, 4, 100), quotaOf(t, 10), slotsOf(t, 3, 1, time.Second)}
	(&State{}).View(bands, start, &v)
	if v.Levels[0] != 0 || v.Levels[1] != 0 || v.Levels[2] != 0 {
		t.Errorf("levels %v of a full bucket", v.Levels[:3])
	}
}

// Which slot a band continues, where neither position nor id says it all.
func TestFind_Continues(t *testing.T) {
	s, old, current := twoVersions(t)
	third := numbered(5, 1, 50)
	renamed := current
	renamed.ID = 9
	other := current
	other.ID = 2
	kept := State{At: 1010, Slots: append(slices.Clone(s.Slots), Slot{ID: 1, Used: 1, Limit: 1, Rate: 1, Since: 1010})}
	for _, c := range []struct {
		name  string
		bands []Band
		want  []int64
	}{
		{"a version continues its own slot", []Band{old}, []int64{84}},
		{"the current one too, at another place", []Band{other, current}, []int64{0, 28}},
		{"a new version continues the current one", []Band{third}, []int64{43}},
		{"a band with another label continues the slot at its place", []Band{renamed}, []int64{28}},
		{"unless that is another band's", []Band{renamed, current}, []int64{0, 28}},
		{"or is kept", []Band{current, renamed}, []int64{28, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var v View
			kept.View(c.bands, 1010, &v)
			if !slices.Equal(v.Levels[:len(c.bands)], c.want) {
				t.Errorf("levels %v, want %v", v.Levels[:len(c.bands)], c.want)
			}
		})
	}
}

// Slots of requests under way belong to the one concurrency band of a rule, whatever its label
// and place, and to no other band.
func TestFind_Holders(t *testing.T) {
	slots, tokens := slotsOf(t, 3, 2, time.Minute), numbered(10, 4, 100)
	var s State
	v := View{Holder: HolderID{1}}
	s.View([]Band{slots, tokens}, start, &v)
	v.Take([]Band{slots, tokens}, 2)
	s.Store([]Band{slots, tokens}, &v)
	renamed := slots
	renamed.ID = 7
	for _, c := range []struct {
		name  string
		bands []Band
		want  []int64
	}{
		{"as written", []Band{slots, tokens}, []int64{1, 20}},
		{"in another order", []Band{tokens, slots}, []int64{20, 1}},
		{"with another label", []Band{tokens, renamed}, []int64{20, 1}},
		{"before them, a band with a new label", []Band{{ID: 8, Tick: 1, Unit: 10, Rate: 4, Limit: 100, Max: 200}, slots}, []int64{20, 1}},
		{"behind them, a band with a new label", []Band{slots, {ID: 8, Tick: 1, Unit: 10, Rate: 4, Limit: 100, Max: 200}}, []int64{1, 20}},
		{"a band with their label", []Band{{ID: 3, Tick: 1, Unit: 10, Rate: 4, Limit: 100, Max: 200}, tokens}, []int64{0, 20}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var v View
			s.View(c.bands, start, &v)
			if !slices.Equal(v.Levels[:len(c.bands)], c.want) {
				t.Errorf("levels %v, want %v", v.Levels[:len(c.bands)], c.want)
			}
		})
	}
}

// A band with another label continues the slot at its place, wherever the concurrency band is,
// and where its slots are stored elsewhere.
func TestFind_PlaceBesideHolders(t *testing.T) {
	slots, tokens, other := slotsOf(t, 3, 2, time.Minute), numbered(10, 4, 100), numbered(7, 4, 100)
	other.ID = 2
	renamed, both := tokens, other
	renamed.ID, both.ID = 8, 9
	elsewhere := State{At: start}
	var v View
	elsewhere.View([]Band{tokens, other}, start, &v)
	v.Take([]Band{tokens, other}, 2)
	elsewhere.Store([]Band{tokens, other}, &v)
	within := State{At: start, Slots: []Slot{elsewhere.Slots[0], {ID: 3, Kind: Concurrency, Steps: &Steps{}}, elsewhere.Slots[1]}}
	for _, bands := range [][]Band{{slots, renamed, both}, {renamed, slots, both}, {renamed, both, slots}} {
		for name, s := range map[string]*State{"elsewhere": &elsewhere, "within": &within} {
			s.View(bands, start, &v)
			got := slices.Clone(v.Levels[:3])
			if slices.Sort(got); !slices.Equal(got, []int64{0, 14, 20}) {
				t.Errorf("%s: levels %v of bands %d, %d, %d", name, v.Levels[:3], bands[0].ID, bands[1].ID, bands[2].ID)
			}
		}
	}
}

// What one version of a band takes, the other has less of, up to an empty bucket. Debt stays
// as it is, and so does another band.
func TestStore_DebitsOtherVersion(t *testing.T) {
	for _, c := range []struct {
		name               string
		before, cost, want int64
	}{
		{"in proportion, rounded up", 50, 1, 50 + 34},
		{"not if it takes nothing", 50, 0, 50},
		{"up to its limit", 90, 1, 100},
		{"debt stays", 150, 1, 150},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, _, current := twoVersions(t)
			s.Slots[0].Used, s.Slots[1].Used = 5, c.before
			s.Slots = append(s.Slots, Slot{ID: 2, Used: 7, Limit: 100, Rate: 1, Since: 1010}, Slot{ID: 3, Kind: Quota, Used: 8, Limit: 10, Since: 1010, Steps: &Steps{End: 5000}})
			take(&s, current, c.cost, 1010)
			if got, want := used(&s), []int64{5 + 11*c.cost, c.want, 7, 8}; !slices.Equal(got, want) {
				t.Errorf("used %v, want %v", got, want)
			}
		})
	}
	fine := numbered(1, 1, 100)
	s := State{At: start, Slots: []Slot{{ID: 1, Used: 5, Limit: 100, Rate: 2}}}
	take(&s, fine, 1, start)
	if got := used(&s); !slices.Equal(got, []int64{6, 6}) {
		t.Errorf("used %v after a single unit, want 6 of both", got)
	}
}

// A take of another band keeps a band under each of the kinds that it had: gateways with one of
// them would find it full.
func TestStore_KeepsEachKind(t *testing.T) {
	other := band(t, 10, 10, time.Second)
	other.ID = 2
	s := State{At: start, Slots: []Slot{
		{ID: 1, Kind: Quota, Used: 8, Limit: 10, Steps: &Steps{End: start + 3600*second}},
		{ID: 1, Used: 7, Limit: 100, Rate: 1, Since: start},
		{ID: 1, Used: 9, Limit: 200, Rate: 1, Since: start},
	}}
	take(&s, other, 1, start)
	if got := used(&s); !slices.Equal(got[1:], []int64{8, 7}) {
		t.Errorf("used %v, want 8 of the quota and 7 of one token bucket", got)
	}
}

// A gateway's own level replaces that of the shared store.
func TestStore_ReplacesShared(t *testing.T) {
	s := State{At: start, Slots: []Slot{{ID: 1, Used: 50, Limit: 100, Rate: 4, Shared: true}}}
	share := numbered(5, 2, 50)
	take(&s, share, 1, start)
	if len(s.Slots) != 1 || s.Slots[0].Used != 25+5 || s.Slots[0].Shared {
		t.Errorf("slots %+v", s.Slots)
	}
}

// A band that is not asked for is kept, also if another one with its numbers is. How many are
// kept is bounded.
func TestStore_KeepsOthers(t *testing.T) {
	named := func(id uint32) Band {
		b := band(t, 100, 1, time.Hour)
		b.ID = id
		return b
	}
	var s State
	var v View
	for _, ids := range [][]uint32{{1, 2}, {2, 3}} {
		bands := []Band{named(ids[0]), named(ids[1])}
		s.View(bands, start, &v)
		v.Take(bands, 1)
		s.Store(bands, &v)
	}
	if len(s.Slots) != 3 || s.Slots[2].ID != 1 || s.Slots[2].Used != named(1).Unit {
		t.Errorf("slots %+v", s.Slots)
	}
	for id := range uint32(40) {
		bands := []Band{band(t, 200+int64(id), 1, time.Hour)} // other numbers
		bands[0].ID = 100 + id
		s.View(bands, start, &v)
		v.Take(bands, 1)
		s.Store(bands, &v)
	}
	if len(s.Slots) != 1+16 {
		t.Errorf("%d slots are kept", len(s.Slots)-1)
	}
}

// Requests that hold slots are kept whatever other bands are, also those with the same id, and
// the other way round.
func TestStore_KeepsHolders(t *testing.T) {
	slots, long, short := slotsOf(t, 1, 2, 2*time.Hour), windowOf(t, 30, 16*time.Second), windowOf(t, 30, 1600*time.Millisecond)
	long.ID, short.ID = 1, 1
	var s State
	var v View
	hold := func(id byte, at int64) {
		s.View([]Band{slots}, at, &v)
		v.Holder = HolderID{id}
		v.Take([]Band{slots}, 1)
		s.Store([]Band{slots}, &v)
	}
	held := func(what string, want int64) {
		t.Helper()
		if got, _, _ := levelAt(&s, slots, s.At); got != want {
			t.Errorf("%s: %d slots are held, want %d", what, got, want)
		}
	}
	hold(1, start)
	take(&s, long, 1, start+1)
	take(&s, short, 1, start+2)
	held("two windows", 1)
	hold(2, start+3)
	if level, _, _ := levelAt(&s, long, start+3); level != 2 {
		t.Errorf("%d of the window are used, want 2", level)
	}
	for id := range uint32(40) {
		b := numbered(10, 1, 1_000_000_000)
		b.ID = 100 + id
		take(&s, b, 10_000, start+4)
	}
	held("40 other bands", 2)
	// A window is kept since the first take that did not ask for it, not for the slots.
	s = State{}
	hold(1, start)
	take(&s, long, 1, start+1)
	if hold(2, start+2); s.Slots[1].Since != start+2 {
		t.Errorf("the window is kept since %d, want 2", s.Slots[1].Since-start)
	}
}

// A kept slot is forgotten an hour after a take first did not ask for it, by the clock of
// then: a clock that steps back moves that moment.
func TestState_KeptSince(t *testing.T) {
	hour := band(t, 100, 1, time.Hour)
	other := band(t, 10, 10, time.Second)
	other.ID = 2
	var s State
	take(&s, hour, 50, start)
	take(&s, other, 1, start)
	take(&s, other, 1, start+10*second)
	if got := s.Slots[1].Since; got != start || s.FullAfter() != 3590*second {
		t.Errorf("kept since %d, for %d µs", got-start, s.FullAfter())
	}
	s.Adopt(start - 20*second)
	if got := s.Slots[1].Since; got != start-30*second || s.FullAfter() != 3590*second {
		t.Errorf("kept since %d, for %d µs after the clock stepped back", got-start, s.FullAfter())
	}
	take(&s, other, 1, start+1000*second)
	if got := s.Slots[1].Since; got != start-30*second {
		t.Errorf("kept since %d after another take", got-start)
	}
	s.Adopt(1)
	if got := s.Slots[1].Since; got != 1 {
		t.Errorf("kept since %d, want a moment", got)
	}
	// Both versions of a band have been kept for as long.
	old, current := numbered(10, 1, 1_000_000_000), numbered(11, 1, 1_000_000_001)
	s = State{}
	take(&s, old, 50_000_000, start)
	take(&s, current, 1, start+1)
	take(&s, old, 1, start+2)
	if got := s.Slots[1].Since; got != start+1 {
		t.Errorf("kept since %d, want since they took turns", got-start)
	}
}

// A state is remembered until nothing is used, at the edge of a tick.
func TestState_FullAfter(t *testing.T) {
	coarse := numbered(10, 4, 100)
	coarse.Tick = 1_000
	for _, c := range []struct {
		name       string
		band       Band
		cost, want int64
	}{
		{"unused tokens", coarse, 0, 0},
		{"unused quota", quotaOf(t, 10), 0, 0},
		{"unused window", windowOf(t, 10, 16*time.Second), 0, 0},
		{"one of a quota", quotaOf(t, 10), 1, 60*second - 400},
		{"one of a window", windowOf(t, 10, 16*time.Second), 1, 17*second - 400},
		{"tokens", numbered(10, 4, 100), 1, 3},
		{"tokens with a tick of 1 ms", coarse, 1, 3_000 - 400},
	} {
		var s State
		if take(&s, c.band, c.cost, start+400); s.FullAfter() != c.want {
			t.Errorf("%s: full after %d µs, want %d", c.name, s.FullAfter(), c.want)
		}
	}
}

// An overdraft is debited up to the largest debt, whatever is left, and holds no slot.
func TestOverdraw(t *testing.T) {
	bands := []Band{numbered(10, 4, 100), quotaOf(t, 30), slotsOf(t, 3, 1, time.Second)}
	bands[1].ID = 2
	for _, c := range []struct {
		name        string
		levels      []int64
		cost        int64
		want        []int64
		tokens      int64
		changed     bool
		positive    int64 // microseconds until the first has more than 0
		afterPeriod bool  // the second has when its period ends
	}{
		{"from full", []int64{0, 0}, 3, []int64{30, 3}, 3, true, 0, false},
		{"the last", []int64{99, 29}, 1, []int64{109, 30}, 1, true, 0, false},
		{"of what is empty", []int64{100, 30}, 1, []int64{110, 31}, 1, true, 1, true},
		{"to the largest debt of one", []int64{175, 0}, 5, []int64{200, 5}, 2, true, 19, false},
		{"of one at its largest debt", []int64{200, 58}, 5, []int64{200, 60}, 0, true, 26, true},
		{"of both at their largest debt", []int64{200, 60}, 5, []int64{200, 60}, 0, false, 26, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var v View
			(&State{}).View(bands, start, &v)
			copy(v.Levels[:], c.levels)
			period := int64(0)
			if c.afterPeriod {
				period = 60 * second
			}
			if c.levels[1] > 59 {
				period = 120 * second
			}
			if v.PositiveAfter(bands, 0) != c.positive || v.PositiveAfter(bands, 1) != period || v.PositiveAfter(bands, 2) != 0 {
				t.Errorf("positive after %d, %d and %d µs", v.PositiveAfter(bands, 0), v.PositiveAfter(bands, 1), v.PositiveAfter(bands, 2))
			}
			tokens, changed := v.Overdraw(bands, c.cost)
			if tokens != c.tokens || changed != c.changed || !slices.Equal(v.Levels[:3], append(c.want, 0)) {
				t.Errorf("%d tokens, changed %t, levels %v; want %+v", tokens, changed, v.Levels[:3], c)
			}
		})
	}
}
