package bucket

import (
	"math/big"
	"math/rand/v2"
	"testing"
	"time"
)

// rate is the tokens that a token bucket regains in a microsecond.
func rate(b *Band) *big.Rat { return big.NewRat(b.Rate, b.Unit*b.Tick) }

func of(x *big.Rat, num, den int64) *big.Rat { return new(big.Rat).Mul(x, big.NewRat(num, den)) }

// checkShare checks the share of a token bucket from above and from below.
func checkShare(t *testing.T, b *Band, s Share) {
	t.Helper()
	part := b.Share(s)
	whole := s
	if s.Num > 1 && part.Capacity < s.of(b.Capacity) {
		whole = Share{1, ceilDiv(s.Den, s.Num)}
	}
	if want := max(1, new(big.Int).Div(new(big.Int).Mul(big.NewInt(b.Capacity), big.NewInt(whole.Num)), big.NewInt(whole.Den)).Int64()); part.Capacity != want {
		t.Fatalf("%+v at %v: a capacity of %d, want %d", *b, s, part.Capacity, want)
	}
	is, most := rate(&part), of(rate(b), s.Num, s.Den)
	if floor := big.NewRat(1, slowest); most.Cmp(floor) < 0 {
		most = floor
	}
	if is.Cmp(most) > 0 {
		t.Fatalf("%+v at %v: the rate of %+v is above its share", *b, s, part)
	}
	least := of(most, 1, 2)
	switch period := s.Den * b.Period.Microseconds(); {
	case s.Num > 1 || s.Den > 100_000:
	case b.Capacity >= s.Den && period <= MaxPeriod.Microseconds():
		least = most
	default:
		least = of(most, 9_999_999, 10_000_000)
	}
	if is.Cmp(least) < 0 {
		t.Fatalf("%+v at %v: the rate of %+v is below its share by %s", *b, s, part, new(big.Rat).Quo(is, most).FloatString(9))
	}
	if part.Limit != part.Capacity*part.Unit || part.Max <= part.Limit || part.Max+part.Rate > MaxUnits {
		t.Fatalf("%+v at %v: numbers of %+v do not fit", *b, s, part)
	}
	if part.ID != b.ID || part.Period < MinPeriod {
		t.Fatalf("%+v at %v is %+v", *b, s, part)
	}
	again, err := NewBand(b.ID, part.Capacity, part.Tokens, part.Period)
	slow := part.Max/part.Rate > (maxRefill-maxRefill/1_000_000)/part.Tick
	if part.Period <= MaxPeriod && !slow && (err != nil || again != part) {
		t.Fatalf("%+v at %v: receipts have %+v, %v instead of %+v", *b, s, again, err, part)
	}
}

// The share of a token bucket is never above its part, and not far below, for all numbers that
// rules accept.
func TestShare_Properties(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	// numbers of every magnitude, round ones and odd ones
	number := func(bits int) int64 {
		n := random.Int64N(1<<random.IntN(bits)) + 1
		if random.IntN(2) == 0 {
			n = 1
			for range random.IntN(13) {
				n *= 10
			}
			n *= 1 + random.Int64N(20)
		}
		return n
	}
	periods := []time.Duration{
		MinPeriod, time.Second, time.Minute, time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour, 365 * 24 * time.Hour, MaxPeriod,
	}
	bands, kept := 0, 0
	for bands < 20_000 {
		period := periods[random.IntN(len(periods))]
		if random.IntN(3) == 0 {
			period = min(MaxPeriod, MinPeriod+time.Duration(number(45))*time.Microsecond)
		}
		capacity := number(53)
		tokens := capacity
		if random.IntN(3) == 0 {
			tokens = number(53)
		}
		b, err := NewBand(7, capacity, tokens, period)
		if kept++; err != nil {
			continue
		}
		bands++
		for range 8 {
			checkShare(t, &b, OneOf(1+random.IntN(1_000)))
		}
		den := 1 + random.Int64N(1_000)
		checkShare(t, &b, Share{1 + random.Int64N(den), den})
		checkShare(t, &b, ShareOf(random.Float64()))
	}
	t.Logf("%d of %d random bands are valid", bands, kept)
}

// The shares of numbers at the bounds of what rules accept.
func TestShare_Extremes(t *testing.T) {
	year := MaxPeriod
	for _, c := range []struct {
		capacity, tokens int64
		period           time.Duration
	}{
		{1, 1, year}, {35, 1, year}, {35, 2, year - time.Microsecond}, {999, 30, year}, {1, 1, MinPeriod}, {1, 2_501_999, time.Second},
		{1, 2_501_999, 10 * time.Second}, {1, 2_501_999, time.Hour}, {(1<<52 - 2) / 131_071, 4, 131_071 * time.Microsecond},
		{1 << 40, 1, 1024 * time.Microsecond}, {100_003, 100_003, year}, {1 << 40, 1 << 40, (1 << 20) * time.Microsecond},
		{10_000_000_000, 10_000_000_000, 30 * 24 * time.Hour}, {1_000_007, 31, 1_000 * time.Second}, {1 << 40, 2_501_000, MinPeriod},
		{142_000_003, 31_622_400, year}, {5_000_003, 29, 1009 * time.Second},
	} {
		b, err := NewBand(7, c.capacity, c.tokens, c.period)
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		for n := 1; n <= 1_000; n++ {
			checkShare(t, &b, OneOf(n))
			checkShare(t, &b, Share{int64(n), 1_000})
		}
		for _, n := range []int{10_000, maxShares / 10, maxShares, 1 << 40} {
			checkShare(t, &b, OneOf(n))
		}
	}
}

// Kinds that count have a share of their capacity, and are otherwise the same.
func TestShare_Counts(t *testing.T) {
	quota, _ := NewQuota(1, 1_000_000_000_000_000, MaxPeriod)
	quota.Edges = [3]int64{1, 2, 3}
	window, _ := NewWindow(2, 7, time.Hour)
	slots, _ := NewConcurrency(3, 100_000, time.Minute)
	for _, b := range []Band{quota, window, slots, quota.CountRefused()} {
		for n := 1; n <= 1_000; n++ {
			want := b
			want.Capacity = max(1, b.Capacity/int64(n))
			want.Limit, want.Tokens = want.Capacity, want.Capacity
			switch {
			case b.Kind == Concurrency:
				want.Max = want.Capacity
			case !b.CountsRefused:
				want.Max = 2 * want.Capacity
			}
			if got := b.Share(OneOf(n)); got != want {
				t.Fatalf("one of %d of %+v is %+v, want %+v", n, b, got, want)
			}
		}
	}
}

// A fraction is the share that it was written as.
func TestShareOf(t *testing.T) {
	for den := int64(1); den <= 1_000; den++ {
		for num := int64(1); num <= den; num++ {
			n, d := reduced(num, den)
			if got := ShareOf(float64(num) / float64(den)); got != (Share{n, d}) {
				t.Fatalf("%d/%d is read as %v", num, den, got)
			}
		}
	}
	random := rand.New(rand.NewPCG(3, 4))
	for range 10_000 {
		fraction := random.Float64()
		s := ShareOf(fraction)
		if is := float64(s.Num) / float64(s.Den); s.Den > maxShares || is > max(fraction, 1./maxShares) || is < fraction-2./maxShares {
			t.Fatalf("%v is read as %v", fraction, s)
		}
	}
	for fraction, want := range map[float64]Share{
		1: {1, 1}, 0.1: {1, 10}, 0.000001: {1, maxShares}, 1e-300: {1, maxShares}, 1. / 3: {1, 3}, 0.999999999: {maxShares - 1, maxShares},
		0.123456: {1_929, 15_625},
	} {
		if got := ShareOf(fraction); got != want {
			t.Errorf("%v is read as %v, want %v", fraction, got, want)
		}
	}
}
