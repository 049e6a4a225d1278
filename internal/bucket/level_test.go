package bucket

import "testing"

// Units of one limit in those of another, without overflow.
func TestScaled(t *testing.T) {
	for _, c := range []struct {
		name            string
		units, to, from int64
		up, down        int64
	}{
		{"nothing", 0, 7, 3, 0, 0},
		{"less than nothing", -5, 7, 3, 0, 0},
		{"nothing of an invalid limit", 0, 7, 0, 0, 0},
		{"one", 1, 6, 3, 2, 2},
		{"a third over", 1, 4, 3, 2, 1},
		{"two thirds over", 1, 5, 3, 2, 1},
		{"a product of 105 bits", MaxUnits - 1, MaxUnits, MaxUnits, MaxUnits - 1, MaxUnits - 1},
		{"just too much", MaxUnits, MaxUnits + 2, MaxUnits, MaxUnits, MaxUnits},
		{"too much for 64 bits", 1 << 62, 4, 1, MaxUnits, MaxUnits},
	} {
		if up, down := scaled(c.units, c.to, c.from, true), scaled(c.units, c.to, c.from, false); up != c.up || down != c.down {
			t.Errorf("%s: %d · %d ÷ %d is %d rounded up and %d down, want %d and %d", c.name, c.units, c.to, c.from, up, down, c.up, c.down)
		}
	}
}

// When something fits or is full, at the edges of ticks, and the level that this means.
func TestBand_Moments(t *testing.T) {
	// A token is 10 units, and 3 units come back with every tick.
	fine := Band{Capacity: 5, Tick: 1, Unit: 10, Rate: 3, Limit: 50, Max: 80}
	coarse := fine
	coarse.Tick = 1_000
	const now = 1_700_000_000_000_400 // 400 µs after an edge
	for _, c := range []struct {
		name           string
		level          int64
		wait, positive int64 // ticks until two tokens fit, and until there is more than 0
		full           int64
		remaining      int64
		owed           int64
	}{
		{"nothing is used", 0, 0, 0, 0, 5, 0},
		{"one unit is used", 1, 0, 0, 1, 4, 0},
		{"two tokens are left", 30, 0, 0, 10, 2, 0},
		{"a unit less is left", 31, 1, 0, 11, 1, 0},
		{"a unit is left", 49, 7, 0, 17, 0, 0},
		{"all is used", 50, 7, 1, 17, 0, 0},
		{"a unit is owed", 51, 7, 1, 17, 0, 1},
		{"a token is owed", 60, 10, 4, 20, 0, 1},
		{"more is owed", 61, 11, 4, 21, 0, 2},
	} {
		micros := func(ticks int64) int64 { return max(0, ticks*1_000-400) } // from now to the edge of a coarse tick
		for _, got := range []struct {
			what       string
			fine, want int64
			coarse     int64
		}{
			{"two tokens fit", fine.Wait(c.level, 2, now), c.wait, coarse.Wait(c.level, 2, now)},
			{"there is more than 0", fine.PositiveAfter(c.level, now), c.positive, coarse.PositiveAfter(c.level, now)},
			{"it is full", fine.FullAfter(c.level, now), c.full, coarse.FullAfter(c.level, now)},
		} {
			if got.fine != got.want || got.coarse != micros(got.want) {
				t.Errorf("%s: %s after %d µs, or %d with ticks of 1 ms; want %d and %d", c.name, got.what, got.fine, got.coarse, got.want, micros(got.want))
			}
		}
		if fine.Remaining(c.level) != c.remaining || fine.Owed(c.level) != c.owed {
			t.Errorf("%s: %d left and %d owed, want %d and %d", c.name, fine.Remaining(c.level), fine.Owed(c.level), c.remaining, c.owed)
		}
		// As full again as that is this level, rounded up to a tick.
		if level := min(80, 3*c.full); fine.LevelOf(c.full, now) != level || coarse.LevelOf(micros(c.full), now) != level {
			t.Errorf("%s: levels %d and %d of what is full after %d ticks, want %d", c.name, fine.LevelOf(c.full, now), coarse.LevelOf(micros(c.full), now), c.full, level)
		}
	}
	if got := coarse.LevelOf(601, now); got != 6 {
		t.Errorf("level %d of what is full one µs after an edge, want that of the next edge", got)
	}
	if got := fine.LevelOf(1_000, now); got != 80 {
		t.Errorf("level %d, want the largest debt at most", got)
	}
	if got := fine.Remaining(50 + 9); got != 0 {
		t.Errorf("%d left of a band in debt", got)
	}
	if one := (&Band{Unit: 1, Limit: 5}); one.Remaining(7) != 0 || one.Remaining(4) != 1 || one.Owed(4) != 0 || one.Owed(7) != 2 {
		t.Error("a band of units of 1 has other numbers")
	}
}

// What a band regains, in tokens of another band.
func TestBand_Regained(t *testing.T) {
	b := Band{Tick: 1_000, Unit: 10, Rate: 4, Limit: 50}
	for _, c := range []struct{ micros, unit, want int64 }{
		{999, 10, 0},        // no tick
		{1_000, 10, 4},      // 4 units are 4 tenths of a token
		{1_000, 5, 2},       // or 2 of those with 5 units
		{3_999, 10, 12},     // three ticks
		{1_000_000, 10, 50}, // a capacity at most
		{1_000_000, 1 << 53, 5 << 53},
	} {
		if got := b.Regained(c.micros, c.unit); got != c.want {
			t.Errorf("%d µs: %d, want %d", c.micros, got, c.want)
		}
	}
}

// Tokens of another size take other units of the same band.
func TestBand_WithUnit(t *testing.T) {
	b := Band{ID: 3, Kind: Quota, Capacity: 12, Tick: 1, Unit: 1, Rate: 1, Limit: 12, Max: 24}
	for unit, capacity := range map[int64]int64{0: 12, 1: 12, 2: 6, 5: 2, 13: 0} {
		want := b
		want.Unit, want.Capacity = unit, capacity
		if got := b.WithUnit(unit); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	bands := []Band{b.WithUnit(5)}
	bands[0].Edges = [3]int64{0, 1_000, 2_000}
	v := View{Now: 10}
	v.step(bands, 0, nil, 10)
	v.Take(bands, 1)
	if v.Levels[0] != 5 || v.WaitOf(bands, 0, 1) != 0 || v.WaitOf(bands, 0, 2) != 990 {
		t.Errorf("%d units are used, and another two tokens fit after %d µs", v.Levels[0], v.WaitOf(bands, 0, 2))
	}
}
