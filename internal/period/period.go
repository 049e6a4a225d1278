// Package period formats and parses periods such as 100ms and 1d.
package period

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// units are the units of periods, from large to small.
var units = []struct {
	suffix string
	length time.Duration
}{
	{"d", day}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}, {"us", time.Microsecond},
}

// Format formats a period in the largest unit that divides it.
func Format(d time.Duration) string {
	if d == 0 {
		return "0s"
	}
	for _, unit := range units {
		if d%unit.length == 0 {
			return strconv.FormatInt(int64(d/unit.length), 10) + unit.suffix
		}
	}
	return strconv.FormatInt(int64(d), 10) + "ns"
}

// Parse parses what Format returns and everything that [time.ParseDuration] accepts. A
// day has 24 hours.
func Parse(s string) (time.Duration, error) {
	days, ok := strings.CutSuffix(s, "d")
	if !ok {
		return time.ParseDuration(s)
	}
	n, err := strconv.ParseInt(days, 10, 32)
	if d := time.Duration(n) * day; err == nil && d/day == time.Duration(n) {
		return d, nil
	}
	return 0, fmt.Errorf("not a number of days: %q", s)
}
