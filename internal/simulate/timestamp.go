package simulate

import (
	"math"
	"strconv"
)

// Times are read without package time: its parser would take most of the time of a line.

const (
	second = 1_000_000 // in microseconds
	// maxMicros is the end of the year 2199. A time beyond it, or before 1970, is a
	// mistake.
	maxMicros = 7_258_118_400*second - 1
)

// digits reads a number of digits only, at most nine of them.
func digits(s string) (n int, ok bool) {
	if s == "" || len(s) > 9 {
		return 0, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = 10*n + int(s[i]-'0')
	}
	return n, true
}

// months are those of the common log format.
const months = "JanFebMarAprMayJunJulAugSepOctNovDec"

// commonTime reads 10/Oct/2000:13:55:36 -0700.
func commonTime(s string) (micros int64, ok bool) {
	if len(s) != 26 || s[2] != '/' || s[6] != '/' || s[11] != ':' || s[20] != ' ' {
		return 0, false
	}
	month := 0
	for month < 12 && months[3*month:3*month+3] != s[3:6] {
		month++
	}
	day, ok1 := digits(s[:2])
	year, ok2 := digits(s[7:11])
	micros, ok3 := moment(year, month+1, day, s[12:20])
	zone, ok4 := offset(s[21:])
	return inRange(micros-zone, ok1 && ok2 && ok3 && ok4)
}

// isoTime reads 2026-11-16T15:00:00.123Z and its forms: a space for the T, a comma before
// the fraction, an offset such as +09:00. Without a zone it is UTC.
func isoTime(s string) (micros int64, ok bool) {
	if len(s) < 19 || s[4] != '-' || s[7] != '-' || s[10] != 'T' && s[10] != 't' && s[10] != ' ' {
		return 0, false
	}
	year, ok1 := digits(s[:4])
	month, ok2 := digits(s[5:7])
	day, ok3 := digits(s[8:10])
	micros, ok4 := moment(year, month, day, s[11:19])
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return 0, false
	}
	rest := s[19:]
	if rest != "" && (rest[0] == '.' || rest[0] == ',') {
		length := 1
		for unit := int64(second / 10); length < len(rest) && rest[length] >= '0' && rest[length] <= '9'; length++ {
			micros += int64(rest[length]-'0') * unit
			unit /= 10
		}
		if length == 1 {
			return 0, false
		}
		rest = rest[length:]
	}
	if rest == "" || rest == "Z" || rest == "z" {
		return inRange(micros, true)
	}
	zone, ok := offset(rest)
	return inRange(micros-zone, ok)
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

// moment is a date and a clock such as 13:55:36 as microseconds since 1970.
func moment(year, month, day int, clock string) (micros int64, ok bool) {
	hour, ok1 := digits(clock[:2])
	minute, ok2 := digits(clock[3:5])
	sec, ok3 := digits(clock[6:8])
	if !ok1 || !ok2 || !ok3 || clock[2] != ':' || clock[5] != ':' || hour > 23 || minute > 59 || sec > 60 { // 60 is a leap second
		return 0, false
	}
	if month < 1 || month > 12 || day < 1 || day > daysIn(year, month) {
		return 0, false
	}
	seconds := int64(days(year, month, day))*86400 + int64(hour*3600+minute*60+sec)
	return seconds * second, true
}

// offset reads +hhmm or +hh:mm, in microseconds.
func offset(s string) (micros int64, ok bool) {
	if len(s) == 6 && s[3] == ':' {
		return offsetOf(s[0], s[1:3], s[4:6])
	}
	if len(s) == 5 {
		return offsetOf(s[0], s[1:3], s[3:5])
	}
	return 0, false
}

func offsetOf(sign byte, hours, minutes string) (micros int64, ok bool) {
	h, ok1 := digits(hours)
	m, ok2 := digits(minutes)
	if !ok1 || !ok2 || h > 23 || m > 59 || sign != '+' && sign != '-' {
		return 0, false
	}
	micros = int64(h*3600+m*60) * second
	if sign == '-' {
		micros = -micros
	}
	return micros, true
}

func daysIn(year, month int) int {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// days is how many days after 1970-01-01 a date is. Years begin in March, so that the
// leap day is their last.
func days(year, month, day int) int {
	if month <= 2 {
		year--
		month += 12
	}
	return 365*year + year/4 - year/100 + year/400 + (153*(month-3)+2)/5 + day - 1 - 719468
}
