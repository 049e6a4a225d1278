package model

import (
	"sync"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// periodAt is the period of a quota that a moment of the store's clock is in: a part of the calendar of its
// zone. Days, weeks and months begin at midnight; no zone of a history changes its offset at midnight.
func periodAt(b *rules.Band, clock int64) (begin, end int64) {
	zone := zoneOf(b.Timezone)
	at := time.UnixMicro(clock).In(zone)
	year, month, day := at.Date()
	date := func(months, days int) int64 {
		return time.Date(year, month+time.Month(months), day+days, 0, 0, 0, 0, zone).UnixMicro()
	}
	switch b.Period {
	case "day":
		return date(0, 0), date(0, 1)
	case "week": // from Monday
		since := (int(at.Weekday()) + 6) % 7
		return date(0, -since), date(0, 7-since)
	case "month":
		day = 1
		return date(0, 0), date(1, 0)
	}
	length := time.Hour.Microseconds() // those of histories have no zone
	switch b.Period {
	case "second":
		length = time.Second.Microseconds()
	case "minute":
		length = time.Minute.Microseconds()
	}
	begin = clock - clock%length
	return begin, begin + length
}

var loadedZones sync.Map

func zoneOf(name string) *time.Location {
	if zone, ok := loadedZones.Load(name); ok {
		return zone.(*time.Location)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		panic(err)
	}
	loadedZones.Store(name, zone)
	return zone
}

// checkCalendar checks that the periods of quotas are those of the store's clock (I8): a store gets the edges of
// periods from gateways, of which some have wrong clocks.
func (s *spec) checkCalendar() {
	if s.any(ClockStepped) { // a gateway may know the former clock
		return
	}
	for i := range s.facts {
		f := &s.facts[i]
		if f.Kind != StoreTook && f.Kind != StorePeeked || s.alone(f) { // it may run late
			continue
		}
		for j := range f.Buckets {
			b := &f.Buckets[j]
			for k := range b.Exact {
				s.checkEdges(f, b, &b.Exact[k])
			}
		}
	}
}

func (s *spec) checkEdges(f *Fact, b *BucketFact, e *store.ExactBand) {
	for n := range s.bands[b.Rule] {
		numbers := &s.bands[b.Rule][n].Band
		if own := &s.bands[b.Rule][n].exact; numbers.Kind != rules.Quota || own.ID != e.ID || own.Limit != e.Limit || own.Period != e.Period {
			continue
		}
		begin, end := periodAt(numbers, f.Clock)
		if from, to := periodOf(e.Edges, f.Clock); from == begin && to == end {
			return
		}
	}
	if s.bandOf(b.Rule, e) != nil && s.bandOf(b.Rule, e).kind() == rules.Quota {
		begin, end := periodOf(e.Edges, f.Clock)
		s.violateOnce(LineClock, b.Bucket, f.At, "bucket %s counts at %v in a period from %v to %v, which the calendar of the store's clock does not have", b.Bucket,
			time.UnixMicro(f.Clock).UTC(), time.UnixMicro(begin).UTC(), time.UnixMicro(end).UTC())
	}
}
