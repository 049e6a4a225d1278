package rules

import (
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/internal/calendar"
	"github.com/fluxgate/fluxgate/internal/period"
)

// BandKind is how a limit (band) counts.
type BandKind string

// The kinds of bands. Documents with another kind are rejected, so that older
// servers never misread newer rules.
const (
	// TokenBucket gets RefillTokens back every Refill, evenly.
	TokenBucket BandKind = "token-bucket"
	// Quota gets all tokens back when its Period of the calendar ends.
	Quota BandKind = "quota"
	// SlidingWindow allows at most Capacity in any interval of the length Refill.
	SlidingWindow BandKind = "sliding-window"
	// Concurrency admits at most Capacity concurrent requests. A request holds a slot
	// until its receipt is settled, or for Hold if that never happens.
	Concurrency BandKind = "concurrency"
)

// Period is a period of the calendar, such as a month.
type Period = calendar.Period

// Band is a limit of a rule: a bucket that holds at most Capacity tokens. Kind is
// how they come back. A new bucket is full.
type Band struct {
	// Label names the band within its rule. The position names a band without
	// a label.
	Label string
	// Capacity is the maximum number of tokens in the bucket: the largest burst.
	Capacity int64
	// RefillTokens is the number of tokens that come back every Refill. 0 means Capacity.
	// It is for a TokenBucket only.
	RefillTokens int64
	// Refill is the period, from 1ms to 366 days. That of a SlidingWindow must be
	// a multiple of 16µs, and a Quota has none.
	Refill time.Duration
	// Kind is how the band counts. Empty means TokenBucket.
	Kind BandKind
	// Period is the period of a Quota, in the calendar of Timezone: a name of the
	// IANA time zone database, or empty for UTC.
	Period   Period
	Timezone string
	// Hold is how long a request that is never settled holds a slot of a Concurrency band.
	Hold time.Duration
	// WarnAt are percentages of the capacity of a Quota or a SlidingWindow. When a bucket has
	// used one of them, the engine adds a warning to the store.
	WarnAt Percents

	// currency is that of the capacity and the refill as they were written. Bands of rules have none.
	currency string
}

// Percents are up to four percentages, the lowest first. Those that are 0 are not used.
type Percents [4]int

// String writes the percentages, such as 80%, 100%.
func (p Percents) String() string { return strings.Join(p.texts(), ", ") }

func (p Percents) texts() (texts []string) {
	for _, percent := range p {
		if percent != 0 {
			texts = append(texts, strconv.Itoa(percent)+"%")
		}
	}
	return texts
}

// PerSecond is a band of n tokens a second, with a burst of n.
func PerSecond(n int64) Band { return Band{Capacity: n, Refill: time.Second} }

// PerMinute is a band of n tokens a minute.
func PerMinute(n int64) Band { return Band{Capacity: n, Refill: time.Minute} }

// PerHour is a band of n tokens an hour.
func PerHour(n int64) Band { return Band{Capacity: n, Refill: time.Hour} }

// PerDay is a band of n tokens in 24 hours.
func PerDay(n int64) Band { return Band{Capacity: n, Refill: 24 * time.Hour} }

// Burst returns the band with the capacity n at the same rate: PerMinute(60).Burst(10) gets a
// token back every second, and holds at most 10.
func (b Band) Burst(n int64) Band {
	b.Capacity, b.RefillTokens = n, b.Tokens()
	return b
}

// Tokens returns RefillTokens, or its default.
func (b Band) Tokens() int64 {
	if b.RefillTokens == 0 {
		return b.Capacity
	}
	return b.RefillTokens
}

// Name returns the label, or a name from the numbers, such as 100-per-1m.
func (b Band) Name() string {
	if b.Label != "" {
		return b.Label
	}
	if b.Kind == Concurrency {
		return strconv.FormatInt(b.Capacity, 10) + "-at-once"
	}
	if b.Kind == Quota {
		return strconv.FormatInt(b.Capacity, 10) + "-per-" + string(b.Period)
	}
	return strconv.FormatInt(b.Tokens(), 10) + "-per-" + period.Format(b.Refill)
}

// Exact converts the band at a position of its rule to exact integers. The error
// says which of its numbers cannot be exact.
func (b Band) Exact(position int) (bucket.Band, error) {
	switch b.Kind {
	case Quota:
		return bucket.NewQuota(b.id(position), b.Capacity, b.Period.Longest())
	case SlidingWindow:
		return bucket.NewWindow(b.id(position), b.Capacity, b.Refill)
	case Concurrency:
		return bucket.NewConcurrency(b.id(position), b.Capacity, b.Hold)
	}
	return bucket.NewBand(b.id(position), b.Capacity, b.Tokens(), b.Refill)
}

// id names the band in stored state, in 24 bits: by label, so that consumption
// follows a band that moves within its rule, else by position.
func (b Band) id(position int) uint32 {
	if b.Label == "" {
		return uint32(position)
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(b.Label)) // never fails
	return h.Sum32()>>8 | 1<<23
}

// Exact converts a band of the rule at its position.
func (r *Rule) Exact(b Band, position int) (bucket.Band, error) {
	exact, err := b.Exact(position)
	if r.CountRefused {
		exact = exact.CountRefused()
	}
	return exact, err
}
