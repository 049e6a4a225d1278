// Package calendar computes where the periods of a calendar begin and end.
//
// Days, weeks, months and years begin at midnight of a time zone, so that a day
// may have 23 or 25 hours. Seconds, minutes and hours have their usual length and
// begin where the local clock shows it, in zones with half hours too.
package calendar

import (
	"fmt"
	"slices"
	"time"
	_ "time/tzdata" // the same zones on every machine, also without zone files
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

// Zone returns the time zone with a name of the IANA database. Empty means UTC.
func Zone(name string) (*time.Location, error) {
	if name == "Local" { // LoadLocation returns that of this machine
		return nil, fmt.Errorf("unknown time zone %s", name)
	}
	return time.LoadLocation(name)
}

// Edges returns when the period of a moment begins and ends, and when the next
// one ends.
func Edges(p Period, zone *time.Location, at time.Time) [3]time.Time {
	if length := p.fixed(); length > 0 {
		begin, end := clockPeriod(length, zone, at)
		_, next := clockPeriod(length, zone, end)
		return [3]time.Time{begin, end, next}
	}
	// Where midnight does not exist, time.Date returns another moment: the period is
	// found among the edges around it.
	local := at.In(zone)
	edges := make([]time.Time, 0, 6)
	for n := -2; n <= 3; n++ {
		edges = append(edges, p.midnight(local, n))
	}
	end := slices.IndexFunc(edges, func(t time.Time) bool { return t.After(at) })
	return [3]time.Time{edges[end-1], edges[end], edges[end+1]}
}

// fixed is the length of a period that is measured by the clock, not by dates.
func (p Period) fixed() time.Duration {
	if p == Second || p == Minute || p == Hour {
		return p.Longest()
	}
	return 0
}

func clockPeriod(length time.Duration, zone *time.Location, at time.Time) (begin, end time.Time) {
	_, offset := at.In(zone).Zone()
	ahead := time.Duration(offset) * time.Second
	begin = at.Add(ahead).Truncate(length).Add(-ahead)
	return begin, begin.Add(length)
}

// midnight is when the n-th period after that of a local time begins.
func (p Period) midnight(local time.Time, n int) time.Time {
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
	return time.Date(year, month, day, 0, 0, 0, 0, local.Location())
}
