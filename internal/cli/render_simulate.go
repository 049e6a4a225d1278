package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/internal/simulate"
)

// writeSimulation writes a report of simulate as tables.
func writeSimulation(out io.Writer, r *simulate.Report) {
	paint := painter(out)
	if r.Requests > 0 {
		printf(out, "%s from %s to %s\n", count(int(r.Requests), "request"), moment(r.From), moment(r.To))
		limited := paint(red, limitedOf(r.Proposed.Limited, r.Requests))
		printf(out, "%s would limit %s of them", printable.Line(r.Proposed.RuleSet, maxCell), limited)
		if r.Logged429 > 0 {
			printf(out, "; when they were logged, %d were answered with 429", r.Logged429)
		}
		printf(out, "\n")
		writeDifference(out, r)
		printf(out, "\n")
		writeSimulatedRules(out, r)
		writeWorstCallers(out, r)
		writeMinutes(out, r)
		printf(out, "\n")
	}
	writeLogs(out, r)
	if n := r.Proposed.Evicted; n > 0 {
		printf(out, "%d buckets were dropped before they were full, because there were more than 1,000,000: "+
			"fewer requests are limited than should be\n", n)
	}
}

// limitedOf is a part of the requests, with its share.
func limitedOf(part, whole int64) string {
	return fmt.Sprintf("%d (%s)", part, share(part, whole))
}

// share is a part of a whole in percent. A part is never 0 % and never all.
func share(part, whole int64) string {
	switch {
	case whole == 0 || part == 0:
		return "0 %"
	case part == whole:
		return "100 %"
	}
	return fmt.Sprintf("%.1f %%", min(99.9, max(0.1, 100*float64(part)/float64(whole))))
}

func writeDifference(out io.Writer, r *simulate.Report) {
	if r.Difference == nil {
		return
	}
	t := table{columns: []string{"AGAINST " + r.Current.RuleSet, "REQUESTS", "SHARE"}}
	add := func(what string, n int64) { t.add(what, n, share(n, r.Requests)) }
	add("newly limited", r.Difference.Newly)
	add("no longer limited", r.Difference.NoLonger)
	add("limited as before", r.Difference.Both)
	add("allowed as before", r.Difference.Neither)
	t.writeBelow(out)
}

func writeSimulatedRules(out io.Writer, r *simulate.Report) {
	t := table{
		columns: []string{
			"RULE", "DOES", "REQUESTS", "LIMITED", "NEWLY", "BY CURRENT", "NO LONGER", "CALLERS", "LIMITED CALLERS", "PEAK MINUTE",
		},
		optional: map[string]string{"DOES": "limit", "NEWLY": none, "BY CURRENT": none, "NO LONGER": none},
	}
	for _, c := range r.RuleChanges() {
		var requests, limited, newly, byCurrent, noLonger, peak any = none, none, none, none, none, none
		if p := c.Proposed; p != nil {
			requests, limited = p.Requests, limitedOf(p.Limited, p.Requests)
			if r.Difference != nil {
				newly = p.Changed
			}
		}
		if c.Current != nil {
			byCurrent, noLonger = c.Current.Limited, c.Current.Changed
		}
		rule, more := c.Rule(), ""
		if rule.Peak != nil {
			peak = fmt.Sprintf("%s (%d)", rule.Peak.Time.Format(minuteLayout), rule.Peak.Limited)
		}
		if rule.MoreCallers {
			more = "more than "
		}
		t.add(rule.Rule, c.Does(), requests, limited, newly, byCurrent, noLonger,
			fmt.Sprint(more, rule.Callers), fmt.Sprint(more, rule.LimitedCallers), peak)
	}
	t.write(out)
}

// minuteLayout is a minute of UTC.
const minuteLayout = "2006-01-02T15:04Z"

func writeWorstCallers(out io.Writer, r *simulate.Report) {
	t := table{
		columns:  []string{"RULE", "WORST CALLERS", "REQUESTS", "LIMITED", "NEWLY", "MAY BE MORE BY"},
		optional: map[string]string{"NEWLY": none, "MAY BE MORE BY": "0"},
	}
	for i := range r.Proposed.Rules {
		rule := &r.Proposed.Rules[i]
		for _, c := range rule.WorstCallers {
			var newly any = none
			if r.Difference != nil {
				newly = c.Changed
			}
			t.add(rule.Rule, c.Identity, c.Requests, limitedOf(c.Limited, c.Requests), newly, c.Error)
		}
	}
	t.writeBelow(out)
}

func writeMinutes(out io.Writer, r *simulate.Report) {
	t := table{columns: []string{"BUSIEST MINUTES", "REQUESTS", "LIMITED", "BY CURRENT"}, optional: map[string]string{"BY CURRENT": none}}
	for _, m := range r.BusiestMinutes {
		var byCurrent any = none
		if r.Current != nil {
			byCurrent = m.LimitedByCurrent
		}
		t.add(m.Time.Format(minuteLayout), m.Requests, m.Limited, byCurrent)
	}
	t.writeBelow(out)
}

// writeLogs writes what was read, and what could not be.
func writeLogs(out io.Writer, r *simulate.Report) {
	t := table{
		columns:  []string{"LOG", "FORMAT", "LINES", "REQUESTS", "NOT PARSED", "TOO LONG"},
		optional: map[string]string{"TOO LONG": "0"},
	}
	for i := range r.Logs {
		l := &r.Logs[i]
		t.add(l.Name, l.Format, l.Lines, l.Requests, l.Unparsed, l.TooLong)
	}
	t.write(out)
	for i := range r.Logs {
		l := &r.Logs[i]
		name := printable.Line(l.Name, maxCell)
		if l.Problem != "" {
			printf(out, "%s %s\n", name, printable.Line(l.Problem, 4*maxCell))
		}
		if first := l.FirstSkipped; first != nil {
			printf(out, "%s:%d: first line that was skipped: %s\n", name, first.Line, first.Reason)
			if first.Text != "" {
				printf(out, "  %s\n", first.Text)
			}
		}
		if s := l.SteppedBack; s != nil {
			writeStepsBack(out, name, s)
		}
	}
}

// writeStepsBack writes which times are not in order. A long step makes the result doubtful:
// everything after it was decided at one moment.
func writeStepsBack(out io.Writer, name string, s *simulate.StepsBack) {
	longest := time.Duration(s.LongestSeconds * float64(time.Second)).Round(time.Millisecond)
	printf(out, "%s: times step back in %s, by up to %v (line %d, after line %d); such a line is decided at the time of the line before\n",
		name, count(int(s.Lines), "line"), longest, s.Line, s.After)
	if longest > time.Minute {
		printf(out, "%s: sort the log by time, otherwise too many requests count as limited\n", name)
	}
}
