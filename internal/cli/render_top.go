package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/printable"
)

// topAnswers are the numbers that top shows.
type topAnswers struct {
	Live    *admin.Live    `json:"live"`
	Fleet   *admin.Fleet   `json:"fleet"`
	Callers *admin.Callers `json:"callers"`
}

// topLine is a line of top. All of it has one colour, because colours are added
// after it was cut.
type topLine struct {
	colour colour
	text   string
}

// lines draws the answers. A height of 0 has no bound. Notes are shown before the health.
func (a *topAnswers) lines(width, height int, notes []topLine) []topLine {
	var lines []topLine
	add := func(texts ...string) {
		for _, text := range texts {
			lines = append(lines, topLine{text: text})
		}
	}
	add(flow(width, append([]string{"fluxgate top"}, a.servers()...)...)...)
	add(flow(width, a.rates()...)...)
	for _, l := range slices.Concat(notes, a.health()) {
		lines = append(lines, topLine{l.colour, cut(l.text, width)})
	}
	add("")
	add(a.history("allowed", a.Live.Series.Allowed, width), a.history("limited", a.Live.Series.Limited, width))
	add("")
	rules, callers := a.rules(width), a.callers(width)
	if height > 0 {
		free := max(0, height-len(lines)-1)
		n := min(len(rules), max(free/2, free-len(callers)))
		rules, callers = rules[:n], callers[:min(len(callers), free-n)]
	}
	add(rules...)
	add("")
	add(callers...)
	if height > 0 {
		lines = lines[:min(len(lines), height)]
	}
	return lines
}

// maxVersions is how many versions the header lists.
const maxVersions = 3

// servers are how many servers there are, which versions they have, and the time.
func (a *topAnswers) servers() []string {
	on := map[string]int{}
	var versions []string
	for i := range a.Fleet.Servers {
		version := word(a.Fleet.Servers[i].Version)
		if on[version]++; on[version] == 1 {
			versions = append(versions, version)
		}
	}
	items := []string{count(len(a.Fleet.Servers), "server")}
	switch {
	case len(versions) == 1:
		items = append(items, "version "+versions[0])
	case len(versions) > maxVersions:
		items = append(items, fmt.Sprintf("%d versions", len(versions)))
	default:
		for _, version := range versions {
			items = append(items, fmt.Sprintf("%d of version %s", on[version], version))
		}
	}
	return append(items, a.Live.End.UTC().Format("15:04:05 UTC"))
}

// rates are the numbers of the fleet.
func (a *topAnswers) rates() []string {
	t := &a.Fleet.Total
	var p50, p99 *float64
	for i := range a.Fleet.Servers {
		s := &a.Fleet.Servers[i]
		p50, p99 = slower(p50, s.P50Ms), slower(p99, s.P99Ms)
	}
	return []string{
		"allowed " + rate(t.Allowed) + "/s", "limited " + rate(t.Limited) + "/s", "denied " + rate(t.Denied) + "/s",
		"degraded " + rate(t.Degraded) + "/s", "p50 " + milliseconds(p50) + ", p99 " + milliseconds(p99) + " ms",
	}
}

func slower(a, b *float64) *float64 {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}

// history is a series as a sparkline. In 80 columns there is room for 60 values.
func (a *topAnswers) history(name string, values []*float64, width int) string {
	line, peak := sparkline(values, width-len("allowed ")-len(" max 9999/s"))
	text := fmt.Sprintf("%-7s %s max %s/s", name, line, rate(peak))
	span := " in " + duration(time.Duration(len(values)*a.Live.StepSeconds)*time.Second)
	if len(values) > 0 && cells(text+span) <= width {
		text += span
	}
	return cut(text, width)
}

// nameWidth is to how many columns the name of a rule or a caller is cut if so many are
// left, so that numbers stay on the screen.
func nameWidth(left int) int { return min(maxCell, max(20, left)) }

func (a *topAnswers) rules(width int) []string {
	t := table{columns: []string{"RULE, PER SECOND", "LIMITED", "ALLOWED", "DENIED", "DEGRADED", "SHADOW", "WAITING"}}
	longest := nameWidth(width - len("  LIMITED  ALLOWED  DENIED  DEGRADED  SHADOW  WAITING"))
	for i := range a.Live.Rules {
		r := &a.Live.Rules[i]
		t.add(cutStart(word(r.RuleSet+"/"+r.Rule), longest),
			rate(r.Limited), rate(r.Allowed), rate(r.Denied), rate(r.Degraded), rate(r.Shadow), rate(r.Waiting))
	}
	if len(t.rows) == 0 {
		return []string{cut("No requests in the last 10 seconds.", width)}
	}
	return t.lines(width)
}

func (a *topAnswers) callers(width int) []string {
	last := duration(a.Live.End.Sub(a.Callers.Since))
	t := table{columns: []string{"LIMITED CALLER", "RULE", "IN " + last, "PER SECOND"}}
	longest := nameWidth((width - len("    IN 1m35s    PER SECOND")) / 2)
	for i := range a.Callers.Callers {
		c := &a.Callers.Callers[i]
		rule := c.RuleSet + "/" + c.Rule
		if c.Shadow {
			rule += " (shadow)"
		}
		t.add(cut(word(callerName(c)), longest), cutStart(word(rule), longest), fmt.Sprint(c.Count), rate(c.PerSecond))
	}
	if len(t.rows) == 0 {
		return []string{cut(fmt.Sprintf("No caller was limited in the last %s.", last), width)}
	}
	return t.lines(width)
}

// callerName is the identity if the server shows it, else the first digits of the
// key: --output json has all.
func callerName(c *admin.Caller) string {
	const digits = 12
	if c.Identity != "" {
		return c.Identity
	}
	if len(c.Key) > digits {
		return "key " + c.Key[:digits] + "…"
	}
	return "key " + c.Key
}

// rate is a number of at most a few characters.
func rate(n float64) string {
	units := []string{"", "k", "M", "G", "T"}
	switch {
	case n == 0:
		return "0"
	case n > 0 && n < 0.05:
		return "<0.1"
	case n < 0 || n >= 1e15:
		return fmt.Sprintf("%.0e", n)
	}
	for n >= 9999.5 && len(units) > 1 {
		n, units = n/1000, units[1:]
	}
	digits := 0
	if n < 9.95 {
		digits = 1
	}
	return strings.TrimSuffix(strconv.FormatFloat(n, 'f', digits, 64), ".0") + units[0]
}

func milliseconds(n *float64) string {
	switch {
	case n == nil:
		return none
	case *n > 0 && *n < 1:
		return fmt.Sprintf("%.2f", *n)
	}
	return rate(*n)
}

// duration is a time in seconds, or minutes.
func duration(d time.Duration) string {
	text := d.Round(time.Second).String()
	if short, whole := strings.CutSuffix(text, "m0s"); whole {
		return short + "m"
	}
	return text
}

// word is a text of a server within a sentence.
func word(text string) string {
	if text = strings.TrimSpace(printable.Line(text, 4*maxCell)); text == "" {
		return none
	}
	return text
}
