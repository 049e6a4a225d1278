package calendar_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/calendar"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := calendar.Zone(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// The edges are given with their offsets, so that nothing is computed by the
// package under test or by time.Date.
func TestEdges_Calendar(t *testing.T) {
	for _, c := range []struct {
		name, zone string
		period     calendar.Period
		at         string
		want       [3]string
	}{
		{"a day in UTC", "", calendar.Day, "2024-05-05T23:59:59.999999Z", [3]string{"2024-05-05T00:00:00Z", "2024-05-06T00:00:00Z", "2024-05-07T00:00:00Z"}},
		{"the first moment of a day", "UTC", calendar.Day, "2024-05-05T00:00:00Z", [3]string{"2024-05-05T00:00:00Z", "2024-05-06T00:00:00Z", "2024-05-07T00:00:00Z"}},
		{"a day of 23 hours in the north", "America/New_York", calendar.Day, "2024-03-10T12:00:00-04:00", [3]string{"2024-03-10T00:00:00-05:00", "2024-03-11T00:00:00-04:00", "2024-03-12T00:00:00-04:00"}},
		{"the day before it", "America/New_York", calendar.Day, "2024-03-09T23:59:59-05:00", [3]string{"2024-03-09T00:00:00-05:00", "2024-03-10T00:00:00-05:00", "2024-03-11T00:00:00-04:00"}},
		{"a day of 25 hours in the north", "Europe/Berlin", calendar.Day, "2024-10-27T23:59:59+01:00", [3]string{"2024-10-27T00:00:00+02:00", "2024-10-28T00:00:00+01:00", "2024-10-29T00:00:00+01:00"}},
		{"a day of 23 hours in the south", "Australia/Sydney", calendar.Day, "2024-10-06T00:00:00+10:00", [3]string{"2024-10-06T00:00:00+10:00", "2024-10-07T00:00:00+11:00", "2024-10-08T00:00:00+11:00"}},
		{"a day of 25 hours in the south", "America/Santiago", calendar.Day, "2024-04-06T23:30:00-04:00", [3]string{"2024-04-06T00:00:00-03:00", "2024-04-07T00:00:00-04:00", "2024-04-08T00:00:00-04:00"}},
		{"a day of 24.5 hours", "Australia/Lord_Howe", calendar.Day, "2024-04-07T01:45:00+10:30", [3]string{"2024-04-07T00:00:00+11:00", "2024-04-08T00:00:00+10:30", "2024-04-09T00:00:00+10:30"}},
		{"a day of 23.5 hours", "Australia/Lord_Howe", calendar.Day, "2024-10-06T12:00:00+11:00", [3]string{"2024-10-06T00:00:00+10:30", "2024-10-07T00:00:00+11:00", "2024-10-08T00:00:00+11:00"}},
		{"an offset of a half hour", "Asia/Kolkata", calendar.Day, "2024-02-28T18:30:00Z", [3]string{"2024-02-29T00:00:00+05:30", "2024-03-01T00:00:00+05:30", "2024-03-02T00:00:00+05:30"}},
		{"an offset of a quarter of an hour", "Asia/Kathmandu", calendar.Day, "2024-01-01T18:14:59Z", [3]string{"2024-01-01T00:00:00+05:45", "2024-01-02T00:00:00+05:45", "2024-01-03T00:00:00+05:45"}},

		{"a day without midnight", "America/Sao_Paulo", calendar.Day, "2018-11-04T12:00:00-02:00", [3]string{"2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00", "2018-11-06T00:00:00-02:00"}},
		{"the last hour before a day without midnight", "America/Sao_Paulo", calendar.Day, "2018-11-03T23:30:00-03:00", [3]string{"2018-11-03T00:00:00-03:00", "2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"}},
		{"a day without midnight east of Greenwich", "Asia/Beirut", calendar.Day, "2024-03-31T01:00:00+03:00", [3]string{"2024-03-31T01:00:00+03:00", "2024-04-01T00:00:00+03:00", "2024-04-02T00:00:00+03:00"}},
		{"two days before one without midnight", "Africa/Cairo", calendar.Day, "2024-04-25T23:59:59+02:00", [3]string{"2024-04-25T00:00:00+02:00", "2024-04-26T01:00:00+03:00", "2024-04-27T00:00:00+03:00"}},
		{"a midnight that is put back by an hour", "America/Sao_Paulo", calendar.Day, "2018-02-17T23:30:00-03:00", [3]string{"2018-02-17T00:00:00-02:00", "2018-02-18T00:00:00-03:00", "2018-02-19T00:00:00-03:00"}},
		{"the first of two midnights, in the west", "America/Havana", calendar.Day, "2024-11-03T00:30:00-05:00", [3]string{"2024-11-03T00:00:00-04:00", "2024-11-04T00:00:00-05:00", "2024-11-05T00:00:00-05:00"}},
		{"the first of two midnights, in the east", "Asia/Amman", calendar.Day, "2021-10-29T00:30:00+03:00", [3]string{"2021-10-29T00:00:00+03:00", "2021-10-30T00:00:00+02:00", "2021-10-31T00:00:00+02:00"}},
		{"yesterday again after a minute of today", "America/St_Johns", calendar.Day, "2010-11-06T23:30:00-03:30", [3]string{"2010-11-07T00:00:00-02:30", "2010-11-08T00:00:00-03:30", "2010-11-09T00:00:00-03:30"}},
		{"before a day that did not exist", "Pacific/Apia", calendar.Day, "2011-12-29T12:00:00-10:00", [3]string{"2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00", "2012-01-01T00:00:00+14:00"}},
		{"a month with a day that did not exist", "Pacific/Apia", calendar.Month, "2011-12-31T12:00:00+14:00", [3]string{"2011-12-01T00:00:00-10:00", "2012-01-01T00:00:00+14:00", "2012-02-01T00:00:00+14:00"}},

		{"a week over new year", "Europe/Berlin", calendar.Week, "2025-01-01T00:00:00+01:00", [3]string{"2024-12-30T00:00:00+01:00", "2025-01-06T00:00:00+01:00", "2025-01-13T00:00:00+01:00"}},
		{"the Sunday of a week with a change", "Europe/Berlin", calendar.Week, "2024-03-31T23:59:59+02:00", [3]string{"2024-03-25T00:00:00+01:00", "2024-04-01T00:00:00+02:00", "2024-04-08T00:00:00+02:00"}},
		{"a Monday", "UTC", calendar.Week, "2024-12-30T00:00:00Z", [3]string{"2024-12-30T00:00:00Z", "2025-01-06T00:00:00Z", "2025-01-13T00:00:00Z"}},
		{"a month from its 31st", "UTC", calendar.Month, "2023-01-31T12:00:00Z", [3]string{"2023-01-01T00:00:00Z", "2023-02-01T00:00:00Z", "2023-03-01T00:00:00Z"}},
		{"February of a leap year", "UTC", calendar.Month, "2024-02-29T12:00:00Z", [3]string{"2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z", "2024-04-01T00:00:00Z"}},
		{"February of 2100", "UTC", calendar.Month, "2100-02-28T12:00:00Z", [3]string{"2100-02-01T00:00:00Z", "2100-03-01T00:00:00Z", "2100-04-01T00:00:00Z"}},
		{"a month with a change", "America/New_York", calendar.Month, "2024-11-30T23:00:00-05:00", [3]string{"2024-11-01T00:00:00-04:00", "2024-12-01T00:00:00-05:00", "2025-01-01T00:00:00-05:00"}},
		{"another year than in UTC", "Asia/Kolkata", calendar.Year, "2023-12-31T20:00:00Z", [3]string{"2024-01-01T00:00:00+05:30", "2025-01-01T00:00:00+05:30", "2026-01-01T00:00:00+05:30"}},

		{"an hour of a half hour zone", "Asia/Kolkata", calendar.Hour, "2024-01-01T10:29:59Z", [3]string{"2024-01-01T15:00:00+05:30", "2024-01-01T16:00:00+05:30", "2024-01-01T17:00:00+05:30"}},
		{"the hour that comes twice", "America/New_York", calendar.Hour, "2024-11-03T01:30:00-05:00", [3]string{"2024-11-03T01:00:00-05:00", "2024-11-03T02:00:00-05:00", "2024-11-03T03:00:00-05:00"}},
		{"the hour before the missing one", "America/New_York", calendar.Hour, "2024-03-10T01:30:00-05:00", [3]string{"2024-03-10T01:00:00-05:00", "2024-03-10T03:00:00-04:00", "2024-03-10T04:00:00-04:00"}},
		{"the hour before a half hour that comes twice", "Australia/Lord_Howe", calendar.Hour, "2024-04-07T01:45:00+11:00", [3]string{"2024-04-07T01:00:00+11:00", "2024-04-07T01:30:00+10:30", "2024-04-07T02:00:00+10:30"}},
		{"the hour before a missing half hour", "Australia/Lord_Howe", calendar.Hour, "2024-10-06T01:00:00+10:30", [3]string{"2024-10-06T01:00:00+10:30", "2024-10-06T02:30:00+11:00", "2024-10-06T03:00:00+11:00"}},
		{"a minute", "Asia/Kathmandu", calendar.Minute, "2024-06-30T12:34:56.789Z", [3]string{"2024-06-30T12:34:00Z", "2024-06-30T12:35:00Z", "2024-06-30T12:36:00Z"}},
		{"a second", "Asia/Kathmandu", calendar.Second, "2024-06-30T12:34:56.789Z", [3]string{"2024-06-30T12:34:56Z", "2024-06-30T12:34:57Z", "2024-06-30T12:34:58Z"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			at, err := time.Parse(time.RFC3339Nano, c.at)
			if err != nil {
				t.Fatal(err)
			}
			got := calendar.Edges(c.period, zone(t, c.zone), at)
			for i, text := range c.want {
				want, err := time.Parse(time.RFC3339Nano, text)
				if err != nil {
					t.Fatal(err)
				}
				if !got[i].Equal(want) {
					t.Errorf("edge %d is %s, want %s", i, got[i].Format(time.RFC3339Nano), text)
				}
			}
		})
	}
}

// zones have changes at midnight, of half hours, of whole days and of seconds.
var zones = []string{
	"", "Europe/Berlin", "Europe/London", "Europe/Dublin", "America/New_York", "America/St_Johns", "America/Havana", "America/Sao_Paulo",
	"America/Santiago", "America/Asuncion", "America/Caracas", "America/Juneau", "America/Scoresbysund", "Antarctica/Troll", "Africa/Cairo",
	"Africa/Casablanca", "Africa/Monrovia", "Asia/Amman", "Asia/Beirut", "Asia/Gaza", "Asia/Kathmandu", "Asia/Kolkata", "Asia/Manila",
	"Asia/Pyongyang", "Asia/Tehran", "Australia/Eucla", "Australia/Lord_Howe", "Pacific/Apia", "Pacific/Chatham", "Pacific/Kiritimati", "Pacific/Kwajalein",
}

// Every moment is in one period: periods follow each other without gaps, and every
// moment of one has the same edges.
func TestEdges_Random(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	from := time.Date(1850, 1, 1, 0, 0, 0, 0, time.UTC)
	within := time.Date(2150, 1, 1, 0, 0, 0, 0, time.UTC).Unix() - from.Unix()
	for range 60_000 {
		z, p := zone(t, zones[rng.IntN(len(zones))]), calendar.Periods[rng.IntN(len(calendar.Periods))]
		at := time.Unix(from.Unix()+rng.Int64N(within), rng.Int64N(1e9))
		if _, change := at.In(z).ZoneBounds(); !change.IsZero() && rng.IntN(2) == 0 {
			at = change.Add(time.Duration(rng.Int64N(int64(4*time.Hour))) - 2*time.Hour)
		}
		checkEdges(t, p, z, at, at.Add(time.Duration(rng.Float64()*float64(p.Longest()))))
		if t.Failed() {
			return
		}
	}
}

func checkEdges(t *testing.T, p calendar.Period, z *time.Location, at, later time.Time) {
	t.Helper()
	is := calendar.Edges(p, z, at)
	period := fmt.Sprintf("%s of %s in %s: %s", p, at.In(z).Format(time.RFC3339Nano), z, is)
	if at.Before(is[0]) || !at.Before(is[1]) || !is[1].Before(is[2]) {
		t.Errorf("%s: not in order", period)
	}
	if is[1].Sub(is[0]) > p.Longest() || is[2].Sub(is[1]) > p.Longest() {
		t.Errorf("%s: longer than %s", period, p.Longest())
	}
	if next := calendar.Edges(p, z, is[1]); !next[0].Equal(is[1]) || !next[1].Equal(is[2]) {
		t.Errorf("%s: the next are %s", period, next)
	}
	if last := calendar.Edges(p, z, is[1].Add(-1)); last != is {
		t.Errorf("%s: those of its last moment are %s", period, last)
	}
	if other := calendar.Edges(p, z, later); later.Before(is[1]) && other != is || !later.Before(is[1]) && other[0].Before(is[1]) {
		t.Errorf("%s: those of %s are %s", period, later, other)
	}
}

// Names that mean another zone on another machine are unknown.
func TestZone_Unknown(t *testing.T) {
	for _, name := range []string{"Local", "localtime", "posixrules", "Mars/Olympus", "../UTC", "/etc/localtime", "CEST", "+02:00"} {
		if z, err := calendar.Zone(name); err == nil {
			t.Errorf("%q is %s", name, z)
		}
	}
	for _, name := range []string{"", "UTC", "Etc/GMT+5", "America/Argentina/Buenos_Aires"} {
		if again := zone(t, name); again != zone(t, name) {
			t.Errorf("%q is loaded twice", name)
		}
	}
}

func BenchmarkEdges(b *testing.B) {
	z := zone(b, "Europe/Berlin")
	for b.Loop() {
		calendar.Edges(calendar.Month, z, time.Unix(1_700_000_000, 0))
	}
}
