package bucket

import (
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/fluxgate/fluxgate/internal/period"
)

const (
	// MaxUnits bounds every number a band works with. Redis computes in
	// doubles, which hold integers exactly up to here; Go uses the same bound
	// so that both give the same answer.
	MaxUnits = 1 << 53

	// MaxWait is the longest wait of a demand. It is part of the format: the
	// debt it allows is reserved in the numbers of every band.
	MaxWait = time.Hour

	// MinPeriod is the shortest refill period of a band.
	MinPeriod = time.Millisecond
	// MaxPeriod is the longest refill period of a band.
	MaxPeriod = 366 * 24 * time.Hour

	// MaxBands is how many bands one bucket set may have.
	MaxBands = 16

	// maxRefill bounds how long the emptiest bucket takes to be full, in
	// microseconds: 71 years. Moments in the future then stay below MaxUnits.
	maxRefill = 1 << 51

	// resolution is how finely a token is divided where the numbers allow it.
	// When gateways with two versions of a band alternate, every write rounds
	// by less than one unit; a millionth of a token keeps that from adding up.
	resolution = 1 << 20
)

// ErrTooFine is returned for a band whose numbers cannot be held exactly
// below MaxUnits at any clock tick.
var ErrTooFine = errors.New("capacity, refill tokens and period do not fit exact 53-bit arithmetic: " +
	"use a smaller capacity or rounder numbers (refill tokens that share factors with the period)")

// ErrTooSlow is returned for a band that would take decades to refill.
var ErrTooSlow = errors.New("an empty bucket would take more than 35 years to refill: use a smaller capacity or more refill tokens")

// Band is one band in exact integers. A token is Unit units; a bucket that
// has handed out tokens holds them as used units, and regains Rate units with
// every tick of the clock. Make it with [NewBand]; the fields are there for
// stores to read.
type Band struct {
	// Kind is how the band counts.
	Kind Kind
	// ID names the band in stored state, in 24 bits: see [NewBand].
	ID uint32
	// Capacity is the most tokens the bucket holds.
	Capacity int64
	// Tick is the length of a clock tick in microseconds: one of [Ticks].
	Tick int64
	// Unit is how many units make one token.
	Unit int64
	// Rate is how many units come back with every tick.
	Rate int64
	// Limit is Capacity in units: what may be used without waiting.
	Limit int64
	// Max is Limit and the largest debt in units.
	Max int64
	// Period and Tokens are the band as it was written: Tokens come back
	// every Period.
	Period time.Duration
	Tokens int64
	// Edges are when the current period of a quota begins and ends and when the
	// next one ends, by the gateway's calendar and clock, in microseconds. The
	// Period of a quota is the longest that there is.
	Edges [3]int64
	// CountsRefused makes a quota count all hits: see [Band.CountRefused].
	CountsRefused bool
}

// Ticks are the lengths of a clock tick, in microseconds by their power of 1,000.
var Ticks = [...]int64{1, 1_000, 1_000_000}

// TickPower is the power of 1,000 that the band's tick has in microseconds.
func (b *Band) TickPower() uint8 {
	switch b.Tick {
	case Ticks[2]:
		return 2
	case Ticks[1]:
		return 1
	}
	return 0
}

// NewBand converts a band to exact integers, or returns why that is impossible.
// id names the band in stored state and must be unique in its bucket set.
//
// It uses the finest clock tick at which every product stays below [MaxUnits].
// A tick above a microsecond must divide the period and must not refill more
// than one token, so that the coarser clock never changes the number of tokens
// handed out.
func NewBand(id uint32, capacity, tokens int64, refill time.Duration) (Band, error) {
	switch {
	case capacity < 1:
		return Band{}, fmt.Errorf("capacity must be at least 1, not %d", capacity)
	case tokens < 1:
		return Band{}, fmt.Errorf("refill tokens must be at least 1, not %d", tokens)
	case refill < MinPeriod || refill > MaxPeriod:
		return Band{}, fmt.Errorf("period must be between %s and %s, not %s",
			period.Format(MinPeriod), period.Format(MaxPeriod), period.Format(refill))
	case refill%time.Microsecond != 0:
		return Band{}, fmt.Errorf("period must be whole microseconds, not %s", period.Format(refill))
	}
	b, err := newBand(id, capacity, tokens, refill.Microseconds())
	if err == nil && b.Max/b.Rate > maxRefill/b.Tick {
		return Band{}, ErrTooSlow
	}
	return b, err
}

// newBand is NewBand without its bounds on the period and on how slow a band is.
func newBand(id uint32, capacity, tokens, micros int64) (Band, error) {
	for _, tick := range Ticks {
		if micros%tick != 0 || tick > 1 && tokens > micros/tick {
			break
		}
		b := Band{ID: id, Capacity: capacity, Tick: tick, Period: time.Duration(micros) * time.Microsecond, Tokens: tokens}
		shared := gcd(tokens, micros/tick)
		if b.fit(micros/tick/shared, tokens/shared) {
			return b, nil
		}
	}
	return Band{}, ErrTooFine
}

// fit sets unit, rate, limit and max for a token of unit units, divided more
// finely where there is room, and reports whether they stay below MaxUnits.
func (b *Band) fit(unit, rate int64) bool {
	limit, ok := product(b.Capacity, unit)
	if !ok {
		return false
	}
	debt, ok := product(MaxWait.Microseconds()/b.Tick+1, rate)
	if !ok {
		return false
	}
	// A charge may owe a whole capacity even if no request waits.
	debt = max(debt, limit)
	if limit+debt+rate > MaxUnits {
		return false
	}
	finer := max(1, min((resolution+unit-1)/unit, MaxUnits/(limit+debt+rate)))
	b.Unit, b.Rate = unit*finer, rate*finer
	b.Limit, b.Max = limit*finer, (limit+debt)*finer
	return true
}

// product multiplies two positive numbers, unless the result passes MaxUnits.
func product(x, y int64) (int64, bool) {
	hi, lo := bits.Mul64(uint64(x), uint64(y))
	return int64(lo), hi == 0 && lo <= MaxUnits
}

func gcd(x, y int64) int64 {
	for y != 0 {
		x, y = y, x%y
	}
	return x
}

// ceilDiv is x ÷ y rounded up, for x ≥ 0 and y > 0.
func ceilDiv(x, y int64) int64 { return (x + y - 1) / y }

// Kind is how a band counts.
type Kind uint8

// The kinds, by their numbers in stored state.
const (
	// TokenBucket regains tokens evenly.
	TokenBucket Kind = iota
	// Quota regains all tokens when a period of the calendar ends.
	Quota
	// Window counts by sixteenths of its period, and regains the tokens of one
	// when all of it is older than the period.
	Window
	// Concurrency counts requests that are under way. Each holds a slot until it is
	// settled, or for the Period if it is lost.
	Concurrency
)

// IsConcurrency reports whether a band counts requests that are under way.
func IsConcurrency(b Band) bool { return b.Kind == Concurrency }

// IsQuota reports whether a band regains when a period ends.
func IsQuota(b Band) bool { return b.Kind == Quota }

// NewConcurrency converts a limit of requests at the same time, each of which may
// be lost for hold.
func NewConcurrency(id uint32, capacity int64, hold time.Duration) (Band, error) {
	if capacity < 1 || capacity > maxHolders {
		return Band{}, fmt.Errorf("capacity must be between 1 and %d, not %d", maxHolders, capacity)
	}
	if hold < minHold || hold > maxHold || hold%time.Millisecond != 0 {
		return Band{}, fmt.Errorf("hold must be whole milliseconds between %s and %s, not %s",
			period.Format(minHold), period.Format(maxHold), period.Format(hold))
	}
	return Band{
		Kind: Concurrency, ID: id, Capacity: capacity, Tick: 1, Unit: 1, Rate: 1,
		Limit: capacity, Max: capacity, Period: hold, Tokens: capacity,
	}, nil
}

const (
	// maxHolders bounds how many holders a band remembers.
	maxHolders = 100_000
	minHold    = 100 * time.Millisecond
	maxHold    = 24 * time.Hour
)

// NewQuota converts a quota. Its edges must be set before it is used.
func NewQuota(id uint32, capacity int64, longest time.Duration) (Band, error) {
	return newCount(Quota, id, capacity, longest)
}

// CountRefused is a quota that counts as envoyproxy/ratelimit does: hits that pass the limit
// are counted too, and are no debt: each period begins at 0. State has no trace of it.
func (b Band) CountRefused() Band {
	b.CountsRefused, b.Max = true, maxHits
	return b
}

// maxHits bounds what is counted in a period. Hits and what they are settled at can be twice
// as many, and stay below MaxUnits.
const maxHits = MaxUnits / 4

// NewWindow converts a sliding window.
func NewWindow(id uint32, capacity int64, length time.Duration) (Band, error) {
	if length < MinPeriod || length > MaxPeriod || length%(windowSlots*time.Microsecond) != 0 {
		return Band{}, fmt.Errorf("the period of a sliding window must be between %s and %s and a multiple of 16µs, not %s",
			period.Format(MinPeriod), period.Format(MaxPeriod), period.Format(length))
	}
	return newCount(Window, id, capacity, length)
}

// windowSlots is how many slots a window's period has.
const windowSlots = 16

// newCount is a band that counts what was taken, and regains by steps.
func newCount(kind Kind, id uint32, capacity int64, length time.Duration) (Band, error) {
	if capacity < 1 || capacity > maxCount {
		return Band{}, fmt.Errorf("capacity must be between 1 and %d, not %d", maxCount, capacity)
	}
	return Band{
		Kind: kind, ID: id, Capacity: capacity, Tick: 1, Unit: 1, Rate: 1,
		Limit: capacity, Max: 2 * capacity, Period: length, Tokens: capacity,
	}, nil
}

// maxCount bounds the capacity of bands that count: in millionths of a dollar a
// billion dollars.
const maxCount = 1_000_000_000_000_000

// Cut is a cost of at least 1 and at most what the smallest band holds. Bands of requests at the
// same time do not count costs.
func Cut(cost int64, bands []Band) int64 {
	for i := range bands {
		if !IsConcurrency(bands[i]) {
			cost = min(cost, bands[i].Capacity)
		}
	}
	return max(1, cost)
}
