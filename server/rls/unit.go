package rls

import (
	"errors"
	"math"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/fluxgate/fluxgate/rules"
)

// unit is a unit of time of the protocol.
type unit struct {
	period rules.Period
	// length is that of periods that always have the same.
	length time.Duration
	answer pb.RateLimitResponse_RateLimit_Unit
}

// units are in the order of envoy.type.v3.RateLimitUnit, which has no week.
var units = []unit{
	{},
	{"second", time.Second, pb.RateLimitResponse_RateLimit_SECOND},
	{"minute", time.Minute, pb.RateLimitResponse_RateLimit_MINUTE},
	{"hour", time.Hour, pb.RateLimitResponse_RateLimit_HOUR},
	{"day", 24 * time.Hour, pb.RateLimitResponse_RateLimit_DAY},
	{"month", 0, pb.RateLimitResponse_RateLimit_MONTH},
	{"year", 0, pb.RateLimitResponse_RateLimit_YEAR},
	{"week", 7 * 24 * time.Hour, pb.RateLimitResponse_RateLimit_WEEK},
}

const overrideUnits = 7

// band is the limit as a band: a quota, as in envoyproxy/ratelimit, or a sliding window
// for several units, which no calendar has.
func (o *override) band() (rules.Band, error) {
	if o.unit == 0 || o.unit >= overrideUnits {
		return rules.Band{}, errors.New("the unit of the limit is unknown")
	}
	u := units[o.unit]
	if o.multiplier <= 1 {
		return rules.Band{Kind: rules.Quota, Capacity: int64(o.requests), Period: u.period}, nil
	}
	if u.length == 0 {
		return rules.Band{}, errors.New("the limit is for several months or years")
	}
	if time.Duration(o.multiplier) > math.MaxInt64/u.length {
		return rules.Band{}, errors.New("the limit is for too many units")
	}
	return rules.Band{Kind: rules.SlidingWindow, Capacity: int64(o.requests), Refill: time.Duration(o.multiplier) * u.length}, nil
}

// unitOf is the unit in which a band counts, unknown if there is none, and how many
// requests it admits in each.
func unitOf(b *rules.Band) (pb.RateLimitResponse_RateLimit_Unit, int64) {
	for i := range units[1:] {
		u := &units[i+1]
		in := u.length > 0 && b.Refill == u.length && b.Kind != rules.Concurrency
		if b.Kind == rules.Quota {
			in = b.Period == u.period
		}
		if in {
			return u.answer, b.Tokens()
		}
	}
	return pb.RateLimitResponse_RateLimit_UNKNOWN, b.Capacity
}
