package simulate

import (
	"math"
	"strconv"
	"strings"
	"time"
)

const (
	second = 1_000_000 // in microseconds
	// maxMicros is the end of the year 2199. A time beyond it, or before 1970, is a
	// mistake.
	maxMicros = 7_258_118_400*second - 1
)

// commonTime reads 10/Oct/2000:13:55:36 -0700.
func commonTime(s string) (micros int64, ok bool) {
	t, err := time.Parse("02/Jan/2006:15:04:05 -0700", s)
	return inRange(t.UnixMicro(), err == nil)
}

// isoTime reads 2026-11-16T15:00:00.123Z and its forms: a space for the T, a comma before
// the fraction, an offset such as +09:00 or +0900. Without a zone it is UTC.
func isoTime(s string) (micros int64, ok bool) {
	if len(s) < 19 {
		return 0, false
	}
	if s[10] == ' ' {
		s = s[:10] + "T" + s[11:]
	}
	layout := time.RFC3339
	switch zone := strings.IndexAny(s[19:], "Z+-"); {
	case zone < 0:
		layout = "2006-01-02T15:04:05"
	case len(s)-19-zone == len("+0900"):
		layout = "2006-01-02T15:04:05Z0700"
	}
	t, err := time.Parse(layout, s)
	return inRange(t.UnixMicro(), err == nil)
}

// unixTime reads seconds since 1970, with a fraction, or milli-, micro- or nanoseconds.
func unixTime(s string) (micros int64, ok bool) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || v < 0 {
		return 0, false
	}
	switch { // the limits are the year 5138 in the smaller unit
	case v < 1e11:
		v *= second
	case v < 1e14:
		v *= 1e3
	case v < 1e17:
	default:
		v /= 1e3
	}
	if v > maxMicros {
		return 0, false
	}
	return inRange(int64(math.Round(v)), true)
}

// anyTime reads a time in one of these forms.
func anyTime(s string) (micros int64, ok bool) {
	if len(s) == 26 && s[2] == '/' {
		return commonTime(s)
	}
	if len(s) >= 19 && s[4] == '-' {
		return isoTime(s)
	}
	return unixTime(s)
}

func inRange(micros int64, ok bool) (int64, bool) {
	if !ok || micros < 0 || micros > maxMicros {
		return 0, false
	}
	return micros, true
}
