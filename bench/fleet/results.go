package fleet

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate/bench/svg"
	"github.com/fluxgate/fluxgate/rules"
)

// Results are those of several scenarios.
type Results []Result

// broken reports whether the store was overloaded: one request of 1,000 was not decided.
func (r *Result) broken() bool { return r.Failed > 0.001 }

// fields are the numbers of a result, with the names that they have in the file.
func (r *Result) fields() (names []string, values []any) {
	return []string{
			"mode", "gateways", "requests_per_second", "demand_of_limit", "replaced_per_second", "measured",
			"masters", "store_decisions_per_second", "shared_limit_per_second", "busiest_master_per_second", "from_memory", "not_decided",
			"utilisation", "lowest_utilisation", "over", "over_caller", "p50", "p99",
		}, []any{
			&r.Mode, &r.Gateways, &r.Rate, &r.Load, &r.Replaced, &r.Measured,
			&r.Masters, &r.Decisions, &r.Shared, &r.Busiest, &r.Memory, &r.Failed,
			&r.Utilisation, &r.Lowest, &r.Over, &r.OverCaller, &r.P50, &r.P99,
		}
}

// Write writes the results as CSV.
func (r Results) Write(w io.Writer) error {
	out := csv.NewWriter(w)
	names, _ := new(Result).fields()
	rows := [][]string{names}
	for i := range r {
		_, values := r[i].fields()
		row := make([]string, len(values))
		for j, v := range values {
			if number, ok := v.(*float64); ok {
				row[j] = strconv.FormatFloat(*number, 'g', 5, 64)
			} else {
				row[j] = fmt.Sprint(reflect.ValueOf(v).Elem())
			}
		}
		rows = append(rows, row)
	}
	return out.WriteAll(rows)
}

// Read reads what Write has written.
func Read(from io.Reader) (Results, error) {
	rows, err := csv.NewReader(from).ReadAll()
	if err != nil {
		return nil, err
	}
	r := make(Results, len(rows)-1)
	for i := range r {
		_, values := r[i].fields()
		for j, v := range values {
			text := rows[i+1][j]
			if d, ok := v.(*time.Duration); ok {
				*d, err = time.ParseDuration(text)
			} else {
				_, err = fmt.Sscan(text, v)
			}
			if err != nil {
				return nil, fmt.Errorf("line %d, column %d: %w", i+2, j+1, err)
			}
		}
	}
	return r, nil
}

// Table is the results in Markdown.
func (r Results) Table() string {
	var b strings.Builder
	b.WriteString("| mode | gateways | requests/s | demand ÷ limit | masters | store decisions/s | of the shared limit | busiest master | from memory | not decided | utilisation | lowest in 250 ms | beyond the limit | p50 | p99 |\n")
	b.WriteString("|---|" + strings.Repeat("---:|", 14) + "\n")
	for i := range r {
		r := &r[i]
		mode := string(r.Mode)
		if r.Replaced > 0 {
			mode += fmt.Sprintf(", %d gateways replaced a second", r.Replaced)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %.0f %% | %d | %s | %s | %.0f %% | %.0f %% | %.1f %% | %.1f %% | %.1f %% | %s | %s | %s |\n",
			mode, thousands(r.Gateways), thousands(r.Rate), 100*r.Load, r.Masters, thousands(int(r.Decisions+0.5)), thousands(int(r.Shared+0.5)), 100*r.Busiest/capacity,
			100*r.Memory, 100*r.Failed, 100*r.Utilisation, 100*r.Lowest, max(r.Over, r.OverCaller), r.P50, r.P99)
	}
	return b.String()
}

func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Positions of the plot, in pixels.
const left, right, top, bottom = 92.0, 560.0, 92.0, 300.0

// Plot shows what the shared limit costs the store with the largest fleet, by mode.
func (r Results) Plot() string {
	d := svg.New(358, "What one limit for all callers costs the store, with 1,000 gateways")
	d.Text(20, 54, "soft", "start", "decisions per second")
	x := func(rate int) float64 { return left + (right-left)*decades(float64(rate), 10_000)/3 }
	y := func(n float64) float64 { return bottom - (bottom-top)*decades(n, 1_000)/2.5 }
	for rate := 10_000; rate <= 10_000_000; rate *= 10 {
		d.Line("grid", x(rate), top, x(rate), bottom)
		d.Text(x(rate), bottom+20, "soft", "middle", thousands(rate))
	}
	d.Text((left+right)/2, bottom+42, "soft", "middle", "requests per second")
	for n := 1_000; n <= 100_000; n *= 10 {
		d.Line("grid", left, y(float64(n)), right, y(float64(n)))
		d.Text(left-8, y(float64(n))+5, "soft", "end", thousands(n))
	}
	d.Line("limit", left, y(100_000), right, y(100_000))
	d.Text(right+8, y(100_000)+5, "", "start", "capacity of a master")
	for i, mode := range []rules.Consistency{rules.ConsistencyStrict, rules.ConsistencyAuto, rules.ConsistencyLeased} {
		var points []string
		var last *Result
		for j := range r {
			if of := &r[j]; of.Mode == mode && of.Gateways == 1_000 && of.Load < 1 && of.Replaced == 0 {
				points, last = append(points, svg.Px(x(of.Rate))+","+svg.Px(y(of.Shared))), of
			}
		}
		if last == nil {
			continue
		}
		d.Add(`<polyline class="%s" points="%s"/>`, []string{"no", "curve", "edge"}[i], strings.Join(points, " "))
		name := string(mode)
		if last.broken() {
			name += " is overloaded"
		}
		d.Text(x(last.Rate)+8, y(last.Shared)+[]float64{5, 5, 20}[i], "", "start", name)
	}
	return d.End()
}

func decades(n, from float64) float64 { return max(0, math.Log10(n/from)) }
