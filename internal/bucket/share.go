package bucket

import "math"

// Share is a part of a limit: Num of Den.
type Share struct{ Num, Den int64 }

const (
	// maxShares bounds the number of parts of a limit, so that they are computed without overflow.
	maxShares = 1_000_000
	// slowest bounds how long a token of a share takes, in microseconds: 35 years, as long as an
	// empty bucket of a rule takes at most.
	slowest = maxRefill / 2
)

// ShareOf returns a fraction as a share: the simplest that is equal to it, such as 1/3 for
// 1.0/3, or the next below. It is at least a millionth.
func ShareOf(fraction float64) Share {
	below, above := Share{0, 1}, Share{1, 1}
	for fraction < 1 {
		middle := Share{below.Num + above.Num, below.Den + above.Den}
		if middle.Den > maxShares && below.Num == 0 {
			return Share{1, maxShares}
		}
		if middle.Den > maxShares {
			return below
		}
		switch is := float64(middle.Num) / float64(middle.Den); {
		case is == fraction:
			return middle
		case is < fraction:
			below = middle
		default:
			above = middle
		}
	}
	return above
}

// OneOf returns the share of one of n.
func OneOf(n int) Share { return Share{1, int64(min(max(1, n), maxShares))} }

// of returns the share of a number, rounded down, and at least 1.
func (s Share) of(n int64) int64 { return max(1, scaled(n, s.Num, s.Den, false)) }

// Share returns the band at a share of its capacity and its rate, for a bucket in this process.
//
// The capacity is rounded down, and at least one token. The rate is that share of the rate, if a
// period of at most [MaxPeriod] has it and all numbers fit below [MaxUnits]. Otherwise it is
// lower, so that no fleet regains more than the band: of one of up to 100,000 parts by less than
// a ten-millionth, of other shares at most by half. Only a rate of less than a token in 35 years
// is raised to that.
//
// [NewBand] makes the same band of the Capacity, Tokens and Period, as receipts have them, if the
// Period is at most MaxPeriod.
func (b Band) Share(s Share) Band {
	if s.Num == s.Den {
		return b
	}
	if b.Kind != TokenBucket {
		part := b
		part.Capacity = s.of(b.Capacity)
		part.Limit, part.Tokens = part.Capacity, part.Capacity
		switch {
		case b.Kind == Concurrency:
			part.Max = part.Limit
		case !b.CountsRefused:
			part.Max = 2 * part.Limit
		}
		return part
	}
	if part, err := b.slower(s.of(b.Capacity), s); err == nil || s.Num == 1 {
		return part // one part fits, because its numbers are at most those of the band
	}
	return b.Share(Share{1, ceilDiv(s.Den, s.Num)})
}

// slower is a token bucket with a capacity, and with a share of the rate of b.
func (b *Band) slower(capacity int64, s Share) (part Band, err error) {
	// The rate is tokens ÷ micros without a common divisor.
	tokens, micros := reduced(b.Tokens, b.Period.Microseconds())
	tokens, den := reduced(tokens, s.Den)
	num, micros := reduced(s.Num, micros)
	tokens *= num
	for micros > math.MaxInt64/den { // of many parts of a long period
		tokens, micros = tokens/2, ceilDiv(micros, 2)
	}
	micros *= den
	longest, shortest := MaxPeriod.Microseconds(), MinPeriod.Microseconds()
	for i := len(Ticks) - 1; i >= 0; i-- { // a multiple of a coarse tick can have any tick
		many := Ticks[i] / gcd(Ticks[i], micros)
		if micros < shortest {
			many *= ceilDiv(shortest, many*micros)
		}
		if micros > longest/many {
			continue
		}
		if part, err = newBand(b.ID, capacity, tokens*many, micros*many); err == nil {
			return part, nil
		}
	}
	for ; longest > 0; longest /= 2 { // shorter periods fit better
		most := scaled(longest, tokens, micros, false)
		if most == 0 {
			break
		}
		exact := scaled(most, micros, tokens, true)
		for _, tick := range Ticks {
			if tick > 1 && exact < tick<<10 {
				break // it would be rounded by too much
			}
			period := ceilDiv(exact, tick) * tick
			many := ceilDiv(shortest, period)
			if part, err = newBand(b.ID, capacity, most*many, period*many); err == nil {
				return part, nil
			}
		}
	}
	return newBand(b.ID, capacity, 1, min(ceilDiv(micros, max(1, tokens)), slowest))
}

// reduced divides two numbers by their greatest common divisor.
func reduced(x, y int64) (int64, int64) {
	common := gcd(x, y)
	return x / common, y / common
}
