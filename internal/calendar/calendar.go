// Package calendar computes where the periods of a calendar begin and end.
//
// Days, weeks, months and years begin at the first moment of a date in a time zone,
// mostly midnight, so that a day may have 23 or 25 hours. Seconds, minutes and hours
// begin where the local clock shows it, in zones with half hours too, and where the
// zone changes its offset: they are shorter than usual if that is within one.
package calendar

import (
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"
	_ "time/tzdata" // for machines without zone files
)

// Period is a period of the calendar.
type Period string

// The periods. Weeks begin on Monday.
const (
	Second Period = "second"
	Minute Period = "minute"
	Hour   Period = "hour"
	Day    Period = "day"
	Week   Period = "week"
	Month  Period = "month"
	Year   Period = "year"
)

// Periods are all of them, the shortest first.
var Periods = []Period{Second, Minute, Hour, Day, Week, Month, Year}

// Longest is at least as long as every period of its kind.
func (p Period) Longest() time.Duration {
	switch p {
	case Second:
		return time.Second
	case Minute:
		return time.Minute
	case Hour:
		return time.Hour
	case Day:
		return 2 * 24 * time.Hour // zones that changed sides of the date line
	case Week:
		return 8 * 24 * time.Hour
	case Month:
		return 32 * 24 * time.Hour
	case Year:
		return 367 * 24 * time.Hour
	}
	return 0
}

// zones are the zones that were loaded. There are as many as IANA has names.
var zones sync.Map

// Zone returns the time zone with a name of the IANA database. Empty means UTC.
func Zone(name string) (*time.Location, error) {
	if name == "" {
		return time.UTC, nil
	}
	// Local, localtime and posixrules are other zones on other machines. All names of
	// the database begin with a capital letter.
	if name == "Local" || name[0] < 'A' || name[0] > 'Z' {
		return nil, fmt.Errorf("unknown time zone %s", name)
	}
	if zone, ok := zones.Load(name); ok {
		return zone.(*time.Location), nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, err
	}
	loaded, _ := zones.LoadOrStore(name, zone)
	return loaded.(*time.Location), nil
}

// Edges returns when the period of a moment begins and ends, and when the next
// one ends.
func Edges(p Period, zone *time.Location, at time.Time) [3]time.Time {
	local := at.In(zone)
	if length := p.fixed(); length > 0 {
		begin, end := clockPeriod(length, local)
		_, next := clockPeriod(length, end)
		return [3]time.Time{begin, end, next}
	}
	// A clock that is put back at midnight shows a date again whose successor has
	// begun, and a skipped date begins together with its successor.
	edges := make([]time.Time, 0, 4)
	for n := range 4 {
		edges = append(edges, firstMoment(p.date(local, n), zone))
	}
	edges = slices.CompactFunc(edges, time.Time.Equal)
	end := slices.IndexFunc(edges, at.Before)
	return [3]time.Time{edges[end-1], edges[end], edges[end+1]}
}

// fixed is the length of a period that is measured by the clock, not by dates.
func (p Period) fixed() time.Duration {
	if p == Second || p == Minute || p == Hour {
		return p.Longest()
	}
	return 0
}

// clockPeriod is the part of a period of the clock in which the zone has one offset.
func clockPeriod(length time.Duration, local time.Time) (begin, end time.Time) {
	local = local.Truncate(time.Second)
	ahead := offset(local)
	begin = local.Add(ahead).Truncate(length).Add(-ahead)
	end, _ = change(local, begin.Add(length))
	if later, changed := change(begin, local); changed {
		begin = later
	}
	return begin, end
}

// date is the date, in UTC, on which the n-th period after that of a local time
// begins.
func (p Period) date(local time.Time, n int) time.Time {
	year, month, day := local.Date()
	switch p {
	case Week:
		sinceMonday := (int(local.Weekday()) + 6) % 7
		day += 7*n - sinceMonday
	case Month:
		month, day = month+time.Month(n), 1
	case Year:
		year, month, day = year+n, time.January, 1
	default:
		day += n
	}
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

// firstMoment is when a zone first shows a date or a later one. time.Date returns
// any moment where midnight does not exist or comes twice.
func firstMoment(date time.Time, zone *time.Location) time.Time {
	t := date.Add(-24 * time.Hour).In(zone) // before it, whatever the offset
	for {
		midnight := date.Add(-offset(t)).In(zone)
		if !midnight.After(t) {
			return t // it was skipped
		}
		var changed bool
		if t, changed = change(t, midnight); !changed {
			return t
		}
	}
}

// change is when the zone changes its offset after a moment, at the latest at
// another, or that one. ZoneBounds has wrong bounds at the end of a leap year.
func change(from, to time.Time) (at time.Time, changed bool) {
	before := offset(from)
	if offset(to) == before {
		return to, false
	}
	seconds := sort.Search(int(to.Sub(from)/time.Second), func(n int) bool {
		return offset(from.Add(time.Duration(n)*time.Second)) != before
	})
	return from.Add(time.Duration(seconds) * time.Second), true
}

// offset is how far a local clock is ahead of UTC.
func offset(local time.Time) time.Duration {
	_, seconds := local.Zone()
	return time.Duration(seconds) * time.Second
}
