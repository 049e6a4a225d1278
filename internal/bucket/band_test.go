package bucket

import (
	"errors"
	"testing"
	"time"
)

// The numbers of a band are the same in every version of the product: they are stored, and
// gateways of two versions share buckets.
func TestNewBand_Numbers(t *testing.T) {
	for _, c := range []struct {
		name             string
		capacity, tokens int64
		period           time.Duration
		want             Band
	}{
		{"a token is divided into a million units at least", 100, 100, time.Minute,
			Band{Tick: 1, Unit: 2 * 600_000, Rate: 2, Limit: 2 * 60_000_000, Max: 2 * (60_000_000 + 3_600_000_001)}},
		{"and not more finely than that", 10, 1, 1024 * time.Microsecond,
			Band{Tick: 1, Unit: 1 << 20, Rate: 1024, Limit: 10 << 20, Max: 1024 * (10*1024 + 3_600_000_001)}},
		{"unless it has more units anyway", 1, 1, 7 * time.Second,
			Band{Tick: 1, Unit: 7_000_000, Rate: 1, Limit: 7_000_000, Max: 7_000_000 + 3_600_000_001}},
		{"the largest debt is a whole capacity at least", 2_000, 1_000, time.Hour,
			Band{Tick: 1, Unit: 3_600_000, Rate: 1, Limit: 7_200_000_000, Max: 14_400_000_000}},
		{"as finely as 53 bits allow", 1 << 40, 1, 1024 * time.Microsecond,
			Band{Tick: 1, Unit: 3 * 1024, Rate: 3, Limit: 3 << 50, Max: 3 << 51}},
		{"ticks of a millisecond", 100_003, 100_003, 366 * 24 * time.Hour,
			Band{Tick: 1_000, Unit: 31_622_400_000, Rate: 100_003, Limit: 100_003 * 31_622_400_000, Max: 2 * 100_003 * 31_622_400_000}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.want.ID, c.want.Capacity, c.want.Tokens, c.want.Period = 5, c.capacity, c.tokens, c.period
			if b, err := NewBand(5, c.capacity, c.tokens, c.period); err != nil || b != c.want {
				t.Errorf("%+v, %v\nwant %+v", b, err, c.want)
			}
		})
	}
}

// The bounds of what is accepted: the arithmetic is exact up to them.
func TestNewBand_Bounds(t *testing.T) {
	const year = 366 * 24 * time.Hour
	invalid := errors.New("any other")
	for _, c := range []struct {
		name             string
		capacity, tokens int64
		period           time.Duration
		want             error
	}{
		{"the smallest", 1, 1, time.Millisecond, nil},
		{"no capacity", 0, 1, time.Millisecond, invalid},
		{"no tokens", 1, 0, time.Millisecond, invalid},
		{"a shorter period", 1, 1, time.Millisecond - time.Microsecond, invalid},
		{"the longest period", 1, 1, year, nil},
		{"a longer period", 1, 1, year + time.Microsecond, invalid},
		{"parts of a microsecond", 1, 1, time.Millisecond + time.Nanosecond, invalid},
		{"more tokens than microseconds", 10_000, 10_000, time.Millisecond, nil},
		{"53 bits", (1<<52 - 2) / 131_071, 4, 131_071 * time.Microsecond, nil},
		{"more than 53 bits with the refill of a tick", (1<<52 - 2) / 131_071, 6, 131_071 * time.Microsecond, ErrTooFine},
		{"a capacity of more than 53 bits", 1 << 62, 4, time.Second, ErrTooFine},
		{"a debt of more than 53 bits", 1, 1<<53 - 1, time.Second, ErrTooFine},
		{"full after 71 years", 1 << 40, 1, 1024 * time.Microsecond, nil},
		{"full after more than 71 years", 1<<40 + 1, 1, 1024 * time.Microsecond, ErrTooSlow},
		{"full after more than 71 years of milliseconds", 5e12, 1_000, time.Second, ErrTooSlow},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := NewBand(1, c.capacity, c.tokens, c.period)
			if err != nil && !errors.Is(err, ErrTooFine) && !errors.Is(err, ErrTooSlow) {
				err = invalid
			}
			if !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
		})
	}
}

// Bands that count have one unit a token, and are bounded too.
func TestNewCounts_Bounds(t *testing.T) {
	const year = 366 * 24 * time.Hour
	band := func(b Band, err error) *Band {
		if err != nil && b == (Band{}) {
			return nil
		}
		return &b
	}
	for _, c := range []struct {
		name           string
		kind           Kind
		capacity, debt int64
		period         time.Duration
		accepted       bool
	}{
		{"one slot", Concurrency, 1, 0, time.Second, true},
		{"no slots", Concurrency, 0, 0, time.Second, false},
		{"most slots", Concurrency, 100_000, 0, time.Second, true},
		{"more slots", Concurrency, 100_001, 0, time.Second, false},
		{"shortest hold", Concurrency, 1, 0, 100 * time.Millisecond, true},
		{"shorter hold", Concurrency, 1, 0, 99 * time.Millisecond, false},
		{"longest hold", Concurrency, 1, 0, 24 * time.Hour, true},
		{"longer hold", Concurrency, 1, 0, 24*time.Hour + time.Millisecond, false},
		{"hold of parts of a millisecond", Concurrency, 1, 0, time.Second + time.Microsecond, false},
		{"smallest quota", Quota, 1, 1, time.Minute, true},
		{"no quota", Quota, 0, 0, time.Minute, false},
		{"largest quota", Quota, 1e15, 1e15, time.Minute, true},
		{"larger quota", Quota, 1e15 + 1, 0, time.Minute, false},
		{"shortest window", Window, 7, 7, 63 * 16 * time.Microsecond, true},
		{"shorter window", Window, 7, 7, 62 * 16 * time.Microsecond, false},
		{"longest window", Window, 7, 7, year, true},
		{"longer window", Window, 7, 7, year + 16*time.Microsecond, false},
		{"window that has no 16 slots", Window, 7, 7, time.Second + time.Microsecond, false},
		{"window of no capacity", Window, 0, 0, time.Second, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := map[Kind]func() *Band{
				Concurrency: func() *Band { return band(NewConcurrency(5, c.capacity, c.period)) },
				Quota:       func() *Band { return band(NewQuota(5, c.capacity, c.period)) },
				Window:      func() *Band { return band(NewWindow(5, c.capacity, c.period)) },
			}[c.kind]()
			want := Band{
				Kind: c.kind, ID: 5, Capacity: c.capacity, Tick: 1, Unit: 1, Rate: 1,
				Limit: c.capacity, Max: c.capacity + c.debt, Period: c.period, Tokens: c.capacity,
			}
			if (got != nil) != c.accepted || got != nil && *got != want {
				t.Errorf("%+v, want %+v: %t", got, want, c.accepted)
			}
		})
	}
}
