package simulate

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// commonLayout is the time of the combined format.
const commonLayout = "02/Jan/2006:15:04:05 -0700"

// layouts are the forms of a time in JSON lines. A fraction may follow the seconds. Without a
// zone it is UTC.
var layouts = []string{
	time.RFC3339, commonLayout, "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05",
	"2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05Z0700", time.DateTime,
}

// setTime sets the time from one of the layouts or from a number.
func (e *entry) setTime(text string) error {
	if !strings.Contains(text, ":") {
		return e.setUnixTime(text)
	}
	for _, layout := range layouts {
		if at, err := time.Parse(layout, text); err == nil {
			return e.setAt(at)
		}
	}
	return errTime
}

// setUnixTime sets the time from seconds since 1970, or from milli-, micro- or nanoseconds.
func (e *entry) setUnixTime(text string) error {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v < math.MaxInt64) {
		return errTime
	}
	for v >= 1e11 { // as seconds it is the year 5138
		v /= 1e3
	}
	return e.setAt(time.UnixMicro(int64(math.Round(v * 1e6))))
}

// setAt refuses a time before 1970 or after 2199, which is a mistake.
func (e *entry) setAt(at time.Time) error {
	if e.at = at.UTC(); e.at.Year() < 1970 || e.at.Year() > 2199 {
		return errTime
	}
	return nil
}
