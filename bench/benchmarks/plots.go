package benchmarks

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fluxgate/fluxgate/bench/svg"
)

// plot has a row for each contender and a column of bars for each of its measures.
type plot struct {
	title   string
	columns []column
}

// column is one measure, from zero to the largest value.
type column struct {
	name, subtitle string
	workload       *workload
	measure        string
}

// plots are the pictures by the names of their files.
var plots = map[string]plot{
	"throughput.svg": {"Decisions per second", speedColumns(measureRate)},
	"latency.svg":    {"99th percentile of the time for a decision, in milliseconds", speedColumns(measureP99)},
	"redis-cpu.svg":  {"Processor time of Redis for a decision, in microseconds", speedColumns(measureCPU)},
	"correctness.svg": {"Tokens that are decided wrongly", []column{
		{"over-admitted", "of a burst of 100", saturated, measureOver},
		{"refused though due", "in 3 seconds, 400 due", saturated, measureDue},
		{"leaked", "by 200 rejected requests", paired, measureLeaked},
	}},
}

func speedColumns(measure string) []column {
	return []column{
		{"many callers", "100,000 keys, allowed", cold, measure},
		{"one hot key", "allowed", hot, measure},
		{"a blocked caller", "refused", blocked, measure},
	}
}

// Positions in a picture, in pixels.
const (
	plotTop, rowHeight, groupGap = 92.0, 28.0, 26.0
	firstColumn, columnWidth     = 176.0, 178.0
	longestBar                   = 104.0
)

func (p plot) draw(r results) (string, error) {
	groups := []struct {
		title string
		names []string
	}{{"in the process", libraries}, {"by a server", serverNames}}
	height := plotTop + 2*groupGap + rowHeight*float64(len(contenderNames)) + 6
	d := svg.New(height, p.title)
	tops := map[string]float64{}
	y := plotTop
	for _, g := range groups {
		d.Line("grid", 20, y-4, svg.Width-20, y-4)
		d.Text(20, y+13, "soft", "start", g.title)
		y += groupGap - 6
		for _, name := range g.names {
			tops[name] = y
			d.Text(32, y+17, "", "start", name)
			y += rowHeight
		}
		y += 6
	}
	for i, c := range p.columns {
		x := firstColumn + columnWidth*float64(i)
		d.Text(x, 58, "", "start", c.name)
		d.Text(x, 76, "soft", "start", c.subtitle)
		if err := c.draw(d, r, x, tops); err != nil {
			return "", err
		}
	}
	return d.End(), nil
}

func (c column) draw(d *svg.Drawing, r results, x float64, tops map[string]float64) error {
	values := make([]float64, len(contenderNames))
	for i, name := range contenderNames {
		value, err := r.summary(c.workload, name, c.measure)
		if err != nil {
			return err
		}
		values[i] = value
	}
	longest := slices.Max(values)
	for i, name := range contenderNames {
		class := "soft"
		if strings.HasPrefix(name, "FluxGate") {
			class = "yes"
		}
		end := x
		if values[i] > 0 {
			end += 6 + max(2, longestBar*values[i]/longest)
			d.Bar(class, x, end-4.5, tops[name]+1)
		}
		d.Text(end, tops[name]+17, "plain", "start", number(values[i]))
	}
	return nil
}

// number shows three digits, and all of a whole number: 148,000, 12.3, 0.045.
func number(v float64) string {
	if v == 0 {
		return "0"
	}
	digits := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	scale := math.Pow(10, float64(digits))
	text := strconv.FormatFloat(math.Round(v*scale)/scale, 'f', max(0, digits), 64)
	if strings.Contains(text, ".") {
		return strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
