package rules

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
)

// wholeNumber reads an integer of any width; a double counts if it is exact.
func wholeNumber(value any) (int64, bool) {
	switch v := value.(type) {
	case int:
		return int64(v), true
	case int32:
		return int64(v), true
	case int64:
		return v, true
	case uint64:
		return int64(v), v <= math.MaxInt64
	case float64:
		return int64(v), v == math.Trunc(v) && math.Abs(v) <= 1<<53
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n, true
		}
		f, err := v.Float64()
		if err != nil {
			return 0, false
		}
		return wholeNumber(f)
	}
	return 0, false
}

// exactSeconds reads a number of seconds above 0, exact to the microsecond.
func exactSeconds(value any) (time.Duration, bool) {
	if n, ok := wholeNumber(value); ok {
		return time.Duration(n) * time.Second, n > 0 && n < math.MaxInt64/int64(time.Second)
	}
	var digits string
	switch v := value.(type) {
	case float64:
		digits = strconv.FormatFloat(v, 'f', -1, 64)
	case json.Number:
		digits = v.String()
	}
	if strings.ContainsAny(digits, "eE") {
		return 0, false
	}
	d, err := time.ParseDuration(digits + "s")
	return d, err == nil && d > 0 && d%time.Microsecond == 0
}
