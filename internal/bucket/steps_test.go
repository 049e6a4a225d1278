package bucket

import (
	"slices"
	"testing"
	"time"
)

// start is the first moment of a slot of every window below.
const start = 1_700_000_000 * second

func windowOf(t *testing.T, capacity int64, length time.Duration) Band {
	t.Helper()
	b, err := NewWindow(1, capacity, length)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func quotaOf(t *testing.T, capacity int64, edges ...int64) Band {
	t.Helper()
	b, err := NewQuota(1, capacity, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	b.Edges = [3]int64{start, start + 60*second, start + 120*second}
	copy(b.Edges[:], edges)
	return b
}

func take(s *State, b Band, cost, now int64) {
	var v View
	s.View([]Band{b}, now, &v)
	v.Take([]Band{b}, cost)
	s.Store([]Band{b}, &v)
}

func levelAt(s *State, b Band, now int64) (level int64, steps Steps, fullAfter int64) {
	var v View
	s.View([]Band{b}, now, &v)
	if b.Kind != TokenBucket {
		steps = v.Steps[0]
	}
	return v.Levels[0], steps, v.FullAfterOf([]Band{b}, 0)
}

// The period of a quota is that of the edges, or one as long as the gateway's own where its
// clock is wrong.
func TestBand_Period(t *testing.T) {
	b := Band{Edges: [3]int64{1000, 1100, 1250}}
	for _, c := range []struct{ now, begin, end int64 }{
		{799, 700, 800}, {800, 800, 900}, {899, 800, 900}, {900, 900, 1000}, {999, 900, 1000},
		{1000, 1000, 1100}, {1099, 1000, 1100}, {1100, 1100, 1250}, {1249, 1100, 1250},
		{1250, 1250, 1350}, {1349, 1250, 1350}, {1350, 1350, 1450},
	} {
		if begin, end := b.period(c.now); begin != c.begin || end != c.end || b.EdgeAfter(c.now) != c.end {
			t.Errorf("%d is from %d to %d, want %+v", c.now, begin, end, c)
		}
	}
	none := Band{Edges: [3]int64{1000, 1000, 1000}}
	if begin, end := none.period(1005); begin != 1005 || end != 1006 {
		t.Errorf("a period of no length is from %d to %d", begin, end)
	}
}

// What was used under one kind counts under another.
func TestView_OtherKind(t *testing.T) {
	fast, slow := band(t, 10, 10, 10*time.Second), band(t, 10, 10, time.Hour)
	token := fast.Unit
	window, quota := windowOf(t, 16, 16*time.Second), quotaOf(t, 1000)
	for _, c := range []struct {
		name   string
		stored Band
		cost   int64
		shared bool
		asked  Band
		after  int64 // seconds
		want   int64
	}{
		{"of a quota a token bucket has the same part", quota, 400, false, fast, 0, 4 * token},
		{"and regains at once", quota, 400, false, fast, 1, 3 * token},
		{"until the quota ends", quota, 400, false, slow, 59, 4*slow.Unit - 59*second*slow.Rate},
		{"when nothing is left", quota, 400, false, slow, 60, 0},
		{"of a quota of one that is unused", quotaOf(t, 1), 0, false, fast, 0, 0},
		{"of a window a token bucket has the same part", window, 8, false, slow, 0, 5 * slow.Unit},
		{"until its slot leaves", window, 8, false, slow, 17, 0},
		{"of a token bucket a quota has the same part", fast, 5, false, quota, 0, 500},
		{"of what is used then", fast, 5, false, quota, 1, 400},
		{"unless it was used in another period", slow, 5, false, quotaOf(t, 1000, start+second), 1, 0},
		{"a window has the same part, rounded up", fast, 5, false, windowOf(t, 13, 16*time.Second), 1, 6},
		{"a window has the number that a quota has", quota, 7, false, window, 0, 7},
		{"in the slot of then", quota, 7, false, window, 16, 7},
		{"until that leaves", quota, 7, false, window, 17, 0},
		{"a quota has the number that a window has", window, 7, false, quota, 16, 7},
		{"of what counts then", window, 7, false, quota, 17, 0},
		{"a gateway's share of a quota is in proportion", quotaOf(t, 10), 7, true, quotaOf(t, 5), 0, 4},
		{"also as another kind", quotaOf(t, 10), 7, true, windowOf(t, 5, 16*time.Second), 0, 4},
		{"of a window", windowOf(t, 10, 16*time.Second), 7, true, windowOf(t, 5, 16*time.Second), 0, 4},
		{"of the same quota", quotaOf(t, 10), 7, true, quotaOf(t, 10), 0, 7},
		{"of a token bucket, as far as that has regained", slow, 5, true, fast, 72, (5*token - token/5)},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s State
			take(&s, c.stored, c.cost, start)
			s.Slots[0].Shared = c.shared
			got, _, full := levelAt(&s, c.asked, start+c.after*second)
			if got != c.want {
				t.Errorf("%d of %d units are used, want %d", got, c.asked.Limit, c.want)
			}
			if want := ceilDiv(got, c.asked.Rate); c.asked.Kind == TokenBucket && full != want {
				t.Errorf("full after %d µs, want %d", full, want)
			}
		})
	}
	invalid := State{At: start, Slots: []Slot{{ID: 1, Used: 3, Rate: 1}}}
	if got, _, _ := levelAt(&invalid, fast, start); got != fast.Limit {
		t.Errorf("%d units of a slot without a limit, want all %d", got, fast.Limit)
	}
}

// Where the units of a window are as time passes, and when all have left.
func TestWindow_Slots(t *testing.T) {
	window := windowOf(t, 100, 16*time.Second)
	var s State
	take(&s, window, 3, start)
	take(&s, window, 4, start+2*second)
	take(&s, window, 0, start+2*second)
	double, half := windowOf(t, 100, 32*time.Second), windowOf(t, 100, 8*time.Second)
	for _, c := range []struct {
		name   string
		asked  Band
		after  int64 // microseconds
		counts map[int]int64
		full   int64 // seconds after start
	}{
		{"at once", window, 2 * second, map[int]int64{0: 4, 2: 3}, 19},
		{"at the end of the slot", window, 3*second - 1, map[int]int64{0: 4, 2: 3}, 19},
		{"in the next", window, 3 * second, map[int]int64{1: 4, 3: 3}, 19},
		{"before the first leaves", window, 17*second - 1, map[int]int64{14: 4, 16: 3}, 19},
		{"when it leaves", window, 17 * second, map[int]int64{15: 4}, 19},
		{"before the last leaves", window, 19*second - 1, map[int]int64{16: 4}, 19},
		{"when it leaves", window, 19 * second, nil, 0},
		{"in slots of twice the length", double, 2 * second, map[int]int64{0: 4, 1: 3}, 36},
		{"in slots of half the length", half, 2 * second, map[int]int64{0: 4, 3: 3}, 0},
		{"which count by the last moment", half, 3 * second, map[int]int64{1: 4, 5: 3}, 0},
		{"after the clock stepped back, in the slot after the current", window, -100 * second, map[int]int64{0: 4, 2: 3}, -100 + 18},
	} {
		t.Run(c.name, func(t *testing.T) {
			level, steps, full := levelAt(&s, c.asked, start+c.after)
			var want [windowSlots + 1]int64
			var sum int64
			for k, units := range c.counts {
				want[k] = units
				sum += units
			}
			if level != sum || steps.Counts != want {
				t.Errorf("%d used in slots %v, want %d in %v", level, steps.Counts, sum, want)
			}
			if c.full != 0 && full != c.full*second-c.after {
				t.Errorf("full after %d µs, want %d", full, c.full*second-c.after)
			}
			if c.full != 0 && steps.usedAt(start+c.full*second) != 0 || sum > 0 && steps.usedAt(start+c.after+full-1) == 0 {
				t.Error("what has left still counts, or the other way around")
			}
		})
	}
	if got := s.FullAfter(); got != 17*second {
		t.Errorf("kept for %d µs, want the 17 s until the last slot leaves", got)
	}
	take(&s, window, 0, start+6*second)
	if got := s.FullAfter(); got != 13*second {
		t.Errorf("kept for %d µs, want the 13 s until the last slot leaves", got)
	}
	take(&s, window, 1, start+6*second)
	if got := s.FullAfter(); got != 17*second {
		t.Errorf("kept for %d µs, want 17 s for a single unit too", got)
	}
	s.Adopt(start - 100*second)
	if got := s.FullAfter(); got != 18*second {
		t.Errorf("kept for %d µs after the clock stepped back, want 18 s", got)
	}
	s.Slots[0].Steps.Newest += 5 // invalid state
	if level, steps, _ := levelAt(&s, window, start-100*second); level != 8 || steps.Counts[0] != 1 {
		t.Errorf("%d used in slots %v of a state from the future", level, steps.Counts)
	}
	shared := State{At: start + 2*second, Slots: []Slot{s.Slots[0]}}
	shared.Slots[0].Shared, shared.Slots[0].Steps = true, &Steps{Newest: start/second + 2, Length: second, Counts: [17]int64{4, 0, 3}}
	if level, steps, _ := levelAt(&shared, windowOf(t, 50, 16*time.Second), start+2*second); level != 4 || steps.Counts[0] != 2 || steps.Counts[2] != 2 {
		t.Errorf("%d used in slots %v of a gateway's share, want each in proportion and rounded up", level, steps.Counts)
	}
}

// When so many tokens fit a window.
func TestWindow_Wait(t *testing.T) {
	window := windowOf(t, 10, 16*time.Second)
	var s State
	for _, after := range []int64{0, 2, 3} {
		take(&s, window, 3, start+after*second)
	}
	var v View
	s.View([]Band{window}, start+4*second, &v)
	for cost, seconds := range map[int64]int64{1: 0, 2: 13, 4: 13, 5: 15, 7: 15, 8: 16, 10: 16} {
		if got := v.WaitOf([]Band{window}, 0, cost); got != seconds*second {
			t.Errorf("%d fit after %d µs, want %d s", cost, got, seconds)
		}
	}
}

// The period of a quota ends by what is stored. What was used beyond every limit of it is paid
// by the next, and by no later one.
func TestQuota_PeriodEnds(t *testing.T) {
	quota := quotaOf(t, 100)
	other := quotaOf(t, 100, start-10*second, start+30*second, start+70*second) // a calendar of another zone
	lower, long := quotaOf(t, 10), quotaOf(t, 100)
	long.Period = time.Hour
	for _, c := range []struct {
		name       string
		used       int64
		asked      Band
		after      int64 // seconds
		level, end int64
		full       int64
	}{
		{"within", 90, quota, 59, 90, 60, 60},
		{"all of it", 100, quota, 59, 100, 60, 60},
		{"beyond the limit", 130, quota, 59, 130, 60, 120},
		{"the next pays", 130, quota, 60, 30, 120, 120},
		{"up to its limit", 200, quota, 60, 100, 120, 120},
		{"the next pays nothing", 90, quota, 60, 0, 120, 60},
		{"nor does the one after the next", 130, quota, 120, 0, 180, 120},
		{"another calendar does not end it", 90, other, 40, 90, 60, 60},
		{"a lower limit makes no debt", 90, lower, 1, 90, 60, 60},
		{"nor in the next", 90, lower, 60, 0, 120, 60},
		{"the next pays at most its own limit", 130, lower, 60, 10, 120, 120},
		{"the next has the length of its calendar", 130, long, 1, 130, 60, 120},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s State
			var v View
			s.View([]Band{quota}, start, &v)
			v.Overdraw([]Band{quota}, c.used)
			s.Store([]Band{quota}, &v)
			want := int64(60) * second
			if c.used > 100 {
				want *= 2
			}
			if s.FullAfter() != want {
				t.Errorf("kept for %d µs, want %d", s.FullAfter(), want)
			}
			level, steps, full := levelAt(&s, c.asked, start+c.after*second)
			s.View([]Band{c.asked}, start+c.after*second, &v)
			kept := full
			if debt := steps.End == start+60*second && c.used > 100; debt { // the next period may be the longest
				kept = steps.End - start - c.after*second + steps.Longest
			}
			if forgotten := v.ForgottenAfter([]Band{c.asked}, 0, v.FullAfterOf([]Band{c.asked}, 0)); forgotten != kept {
				t.Errorf("forgotten after %d µs, want %d", forgotten, kept)
			}
			if level != c.level || steps.End != start+c.end*second || full != (c.full-c.after)*second {
				t.Errorf("%d used until %d, full after %d µs; want %+v", level, steps.End-start, full, c)
			}
		})
	}
	var s State
	var v View
	take(&s, quota, 90, start)
	take(&s, lower, 0, start)
	if level, _, _ := levelAt(&s, lower, start+60*second); level != 0 {
		t.Errorf("%d used in the next period, though 100 were allowed in the former", level)
	}
	s = State{}
	s.View([]Band{quota}, start, &v)
	v.Overdraw([]Band{quota}, 150)
	for cost, seconds := range map[int64]int64{0: 60, 50: 60, 51: 120, 100: 120} {
		if got := v.WaitOf([]Band{quota}, 0, cost); got != seconds*second {
			t.Errorf("%d fit after %d µs, want %d s", cost, got, seconds)
		}
	}
}

// What comes back of a quota or a window is what still counts.
func TestSettle_CountsGivenBack(t *testing.T) {
	quota, window := quotaOf(t, 100), windowOf(t, 100, 16*time.Second)
	end := start + 60*second
	for _, c := range []struct {
		name   string
		band   Band
		booked Booking
		actual int64
		after  int64 // seconds
		tokens int64
		counts map[int]int64
	}{
		{"quota", quota, Booking{Cost: 5, At: start, Due: []int64{end}}, 2, 4, 3, nil},
		{"one token of a quota", quota, Booking{Cost: 5, At: start, Due: []int64{end}}, 4, 4, 1, nil},
		{"quota, at most what is used", quota, Booking{Cost: 50, At: start, Due: []int64{end}}, 2, 4, 7, nil},
		{"quota of the former period", quota, Booking{Cost: 5, At: start, Due: []int64{start}}, 2, 4, 0, nil},
		{"window", window, Booking{Cost: 5, At: start}, 2, 4, 3, map[int]int64{3: 2, 4: 2}},
		{"one token of a window", window, Booking{Cost: 5, At: start}, 4, 4, 1, map[int]int64{3: 2, 4: 4}},
		{"window, at most what its slot has", window, Booking{Cost: 50, At: start}, 2, 4, 5, map[int]int64{3: 2}},
		{"window, the newest slot", window, Booking{Cost: 2, At: start + second}, 0, 1, 2, map[int]int64{1: 5}},
		{"window, the last moment", window, Booking{Cost: 5, At: start}, 2, 16, 3, map[int]int64{15: 2, 16: 2}},
		{"window, too late", window, Booking{Cost: 5, At: start}, 2, 17, 0, map[int]int64{16: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s State
			take(&s, c.band, 5, start)
			take(&s, c.band, 2, start+second)
			before := s.At
			tokens, changed := s.Settle([]Band{c.band}, c.booked, c.actual, start+c.after*second)
			if tokens != c.tokens || changed != (c.tokens > 0) || !changed && s.At != before {
				t.Fatalf("%d came back, changed %t; want %d", tokens, changed, c.tokens)
			}
			level, steps, _ := levelAt(&s, c.band, start+c.after*second)
			want, sum := [windowSlots + 1]int64{}, 7-c.tokens
			if c.counts != nil {
				sum = 0
			}
			for k, units := range c.counts {
				want[k] = units
				sum += units
			}
			if level != sum || steps.Counts != want {
				t.Errorf("%d used in slots %v, want %d in %v", level, steps.Counts, sum, want)
			}
		})
	}
}

// What a gateway sets for its own bucket, from what the shared store reported.
func TestView_SetUsed(t *testing.T) {
	bucket, quota, window := band(t, 10, 10, 10*time.Second), quotaOf(t, 10), windowOf(t, 10, 16*time.Second)
	slots, err := NewConcurrency(1, 3, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name              string
		band              Band
		tokens, fullAfter int64
		level, end        int64
	}{
		{"token bucket", bucket, 0, 3 * second, 3 * bucket.Unit, 0},
		{"quota that ends as reported", quota, 3, 20 * second, 3, 20 * second},
		{"one token of it", quota, 1, 20 * second, 1, 20 * second},
		{"all of it", quota, 10, 20 * second, 10, 20 * second},
		{"in debt, whose end is not known", quota, 11, 80 * second, 11, 60 * second},
		{"in debt, at most the largest", quota, 99, 80 * second, 20, 60 * second},
		{"unused, whose end is not known", quota, 0, 0, 0, 60 * second},
		{"tokens of two units", quota.WithUnit(2), 3, 20 * second, 6, 20 * second},
		{"window", window, 3, 5 * second, 3, 0},
		{"slots, which are held where they were taken", slots, 3, second, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := View{Now: start}
			v.SetUsed([]Band{c.band}, 0, &State{}, c.tokens, c.fullAfter)
			if v.Levels[0] != c.level {
				t.Errorf("%d units are used, want %d", v.Levels[0], c.level)
			}
			if c.end > 0 && v.Steps[0].End != start+c.end {
				t.Errorf("the period ends after %d µs, want %d", v.Steps[0].End-start, c.end)
			}
			if c.band.Kind == Window && !slices.Equal(v.Steps[0].Counts[:2], []int64{3, 0}) {
				t.Errorf("slots %v", v.Steps[0].Counts)
			}
		})
	}
}
