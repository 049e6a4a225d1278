package bucket

import (
	"errors"
	"testing"
	"time"
)

func band(t testing.TB, capacity, tokens int64, period time.Duration) Band {
	t.Helper()
	b, err := NewBand(1, capacity, tokens, period)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// single is a bucket set of one band under test.
type single struct {
	state State
	bands []Band
}

func (s *single) take(cost, now int64) bool {
	var v View
	s.state.View(s.bands, now, &v)
	if v.Wait(s.bands, cost) > 0 {
		return false
	}
	v.Take(s.bands, cost)
	s.state.Store(s.bands, &v)
	return true
}

const second = int64(1_000_000)

func TestTake_Admitted7200Seconds(t *testing.T) {
	for _, c := range []struct {
		name         string
		capacity     int64
		period       time.Duration
		every        int64
		want, within int64
	}{
		{"100 a minute asked every 0.5 s", 100, time.Minute, second / 2, 12_100, 1},
		{"10 a second asked every 90 ms", 10, time.Second, 90_000, 72_010, 1},
		{"1,000 an hour asked every 3 s", 1_000, time.Hour, 3 * second, 2_400, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := single{bands: []Band{band(t, c.capacity, c.capacity, c.period)}}
			start := int64(1_700_000_000_123_457)
			var admitted int64
			for now := start; now < start+7_200*second; now += c.every {
				if s.take(1, now) {
					admitted++
				}
			}
			t.Logf("admitted %d", admitted)
			if asked := 7_200 * second / c.every; c.want > asked+c.within {
				// With fewer requests than refills every request passes.
				t.Fatalf("the case asks %d times and wants %d", asked, c.want)
			}
			if admitted < c.want-c.within || admitted > c.want+c.within {
				t.Errorf("admitted %d, want %d ± %d", admitted, c.want, c.within)
			}
		})
	}
}

// A week's quota used on day one is still used on day two.
func TestTake_WeeklyQuota(t *testing.T) {
	s := single{bands: []Band{band(t, 100, 100, 7*24*time.Hour)}}
	now := int64(1_700_000_000_000_000)
	for range 100 {
		if !s.take(1, now) {
			t.Fatal("refused within the quota")
		}
	}
	day := 24 * 3600 * second
	// One seventh has come back after a day, and not a token more.
	passed := 0
	for s.take(1, now+day) {
		passed++
	}
	if passed != 14 {
		t.Errorf("%d tokens after a day, want ⌊100/7⌋ = 14", passed)
	}
	if full, want := s.state.FullAfter(), 7*day-day*5/7; full < want || full > 7*day {
		t.Errorf("full again after %d µs", full)
	}
}

// A clock that stepped back counts as no time.
func TestView_ClockStepsBack(t *testing.T) {
	s := single{bands: []Band{band(t, 2, 1, time.Second)}}
	now := int64(1_700_000_000_000_000)
	s.take(2, now)
	back := now - 3600*second
	if s.take(1, back) {
		t.Error("a step back made a token")
	}
	if !s.state.Adopt(back) || s.state.Adopt(back) {
		t.Error("the new clock is adopted once")
	}
	if s.take(1, back+second-1) {
		t.Error("a token came early")
	}
	if !s.take(1, back+second) {
		t.Error("time does not run on from the new clock")
	}
}

func TestView_IdleYear(t *testing.T) {
	s := single{bands: []Band{band(t, 1_000_000, 1_000_000, time.Millisecond)}}
	now := int64(1_700_000_000_000_000)
	s.take(1_000_000, now)
	if !s.take(1_000_000, now+10*366*24*3600*second) {
		t.Error("not full after ten years")
	}
}

// Bands are matched by id, then by position.
func TestView_MatchesBands(t *testing.T) {
	mk := func(id uint32) Band {
		b := band(t, 10, 10, time.Hour)
		b.ID = id
		return b
	}
	now := int64(1_700_000_000_000_000)
	var state State
	v := View{Now: now}
	written := []Band{mk(1), mk(2)}
	v.Levels[0], v.Levels[1] = 100, 200
	state.Store(written, &v)
	for _, c := range []struct {
		name string
		ids  []uint32
		want []int64
	}{
		{"as written", []uint32{1, 2}, []int64{100, 200}},
		{"in another order", []uint32{2, 1}, []int64{200, 100}},
		{"a new band in front is full", []uint32{3, 1, 2}, []int64{0, 100, 200}},
		{"a renamed band keeps its place", []uint32{1, 9}, []int64{100, 200}},
		{"a removed band is gone", []uint32{2}, []int64{200}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var bands []Band
			for _, id := range c.ids {
				bands = append(bands, mk(id))
			}
			var got View
			state.View(bands, now, &got)
			for i, want := range c.want {
				if got.Levels[i] != want {
					t.Errorf("band %d: %d, want %d", c.ids[i], got.Levels[i], want)
				}
			}
		})
	}
}

// Bands that cannot be exact are refused.
func TestNewBand_Inexact(t *testing.T) {
	for _, c := range []struct {
		name             string
		capacity, tokens int64
		period           time.Duration
		want             error
		tick             int64
	}{
		{"one per millisecond", 1, 1, time.Millisecond, nil, 1},
		{"10^9 per 366 days", 1e9, 1e9, 366 * 24 * time.Hour, nil, 1},
		{"100,003 per year needs milliseconds", 100_003, 100_003, 366 * 24 * time.Hour, nil, 1_000},
		{"a prime that shares no factor", 999_999_937, 999_999_937, 366 * 24 * time.Hour, ErrTooFine, 0},
		{"a coarser tick that brings more than a token", 1e12 + 39, 7_654_321, 3607 * time.Second, ErrTooFine, 0},
		{"two a day into a bucket of millions", 240_428_762, 2, 24 * time.Hour, ErrTooSlow, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := NewBand(0, c.capacity, c.tokens, c.period)
			if !errors.Is(err, c.want) {
				t.Fatalf("error %v, want %v", err, c.want)
			}
			if err == nil && b.Tick != c.tick {
				t.Errorf("tick %d µs, want %d", b.Tick, c.tick)
			}
		})
	}
	for _, c := range []struct {
		capacity, tokens int64
		period           time.Duration
	}{{0, 1, time.Second}, {1, 0, time.Second}, {-1, 1, time.Second}, {1, 1, 0}, {1, 1, time.Microsecond}, {1, 1, 400 * 24 * time.Hour}, {1, 1, time.Second + 1}} {
		if _, err := NewBand(0, c.capacity, c.tokens, c.period); err == nil {
			t.Errorf("accepted %+v", c)
		}
	}
}
