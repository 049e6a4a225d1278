package rules

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate/internal/printable"
)

// show is a number, or the type of any other value.
func show(value any) string {
	if number, ok := value.(json.Number); ok {
		return printable.Quote(number.String())
	}
	if name := typeOf(value); name != "a number" {
		return name
	}
	return fmt.Sprint(value)
}

// showText is show for a value that may be a string to be shown.
func showText(value any) string {
	if s, ok := value.(string); ok {
		return printable.Quote(s)
	}
	return show(value)
}

func typeOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return "true or false"
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case json.Number, int, int32, int64, uint64, float64:
		return "a number"
	}
	return fmt.Sprintf("a %T", value)
}

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
