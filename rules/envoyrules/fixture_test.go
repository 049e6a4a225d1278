package envoyrules_test

import (
	"fmt"
	"strconv"
	"strings"
)

func itoa(i int) string { return strconv.Itoa(i) }

// nestedLimits returns descriptors at the second level.
func nestedLimits(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  - {key: b, value: v%d, rate_limit: {unit: day, requests_per_unit: 1}}\n", i)
	}
	return b.String()
}
