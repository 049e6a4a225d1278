package cli

import "strings"

// sparkLevels are the heights of a sparkline. The first one is for zero only, so
// that a few requests can be seen beside many.
var sparkLevels = []rune("▁▂▃▄▅▆▇█")

// sparkline draws values, oldest first, in at most width characters, and returns
// the highest. Where there are more values than characters, one shows the highest
// of several. Unknown values are spaces.
func sparkline(values []*float64, width int) (line string, peak float64) {
	for _, v := range values {
		if v != nil {
			peak = max(peak, *v)
		}
	}
	if width < 1 {
		return "", peak
	}
	step := max(1, (len(values)+width-1)/width)
	var b strings.Builder
	// The first character may show fewer values, so that the last is always the newest.
	for start := -((step - len(values)%step) % step); start < len(values); start += step {
		b.WriteRune(sparkLevel(values[max(0, start):start+step], peak))
	}
	return b.String(), peak
}

func sparkLevel(values []*float64, peak float64) rune {
	level := ' '
	highest := 0.0
	for _, v := range values {
		if v != nil {
			level, highest = sparkLevels[0], max(highest, *v)
		}
	}
	if highest > 0 {
		level = sparkLevels[1+min(6, int(highest/peak*7))]
	}
	return level
}
