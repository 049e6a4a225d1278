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
		printf(out, "%d requests from %s to %s\n", r.Requests, moment(r.From), moment(r.To))
		printf(out, "%s would limit %s of them", printable.Line(r.Proposed.RuleSet, maxCell), paint(red, limitedOf(r.Proposed.Limited, r.Requests)))
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
	for _, note := range r.Notes {
		printf(out, "note: %s\n", note)
	}
}

// limitedOf is a part of the requests, with its share.
func limitedOf(part, whole int64) string {
	return fmt.Sprintf("%d (%s)", part, simulate.Share(part, whole))
}

func writeDifference(out io.Writer, r *simulate.Report) {
	if r.Difference == nil {
		return
	}
	t := table{columns: []string{"AGAINST " + r.Current.RuleSet, "REQUESTS", "SHARE"}}
	add := func(what string, n int64) { t.add(what, n, simulate.Share(n, r.Requests)) }
	add("newly limited", r.Difference.Newly)
	add("no longer limited", r.Difference.NoLonger)
	add("limited as before", r.Difference.Both)
	add("allowed as before", r.Difference.Neither)
	printf(out, "\n")
	t.write(out)
}

func writeSimulatedRules(out io.Writer, r *simulate.Report) {
	columns := []string{"RULE", "DOES", "REQUESTS", "LIMITED", "CALLERS", "LIMITED CALLERS", "NEWLY", "NO LONGER", "PEAK MINUTE"}
	t := table{columns: columns, optional: map[string]string{"DOES": "limit", "NEWLY": none, "NO LONGER": none}}
	add := func(rule *simulate.RuleResult) {
		does := rule.Action
		switch {
		case rule.Removed:
			does = "removed"
		case rule.Shadow:
			does += " in shadow"
		}
		more := ""
		if rule.MoreCallers {
			more = "more than "
		}
		var newly, noLonger, peak any = none, none, none
		if d := rule.Difference; d != nil {
			newly, noLonger = d.Newly, d.NoLonger
		}
		if rule.Peak != nil {
			peak = fmt.Sprintf("%s (%d)", rule.Peak.Time.Format(minuteLayout), rule.Peak.Limited)
		}
		t.add(rule.Rule, does, rule.Requests, limitedOf(rule.Limited, rule.Requests), fmt.Sprint(more, rule.Callers), fmt.Sprint(more, rule.LimitedCallers), newly, noLonger, peak)
	}
	for i := range r.Proposed.Rules {
		add(&r.Proposed.Rules[i])
	}
	for _, rule := range r.Removed() {
		add(&rule)
	}
	t.write(out)
}

// minuteLayout is a minute of UTC.
const minuteLayout = "2006-01-02T15:04Z"

func writeWorstCallers(out io.Writer, r *simulate.Report) {
	t := table{columns: []string{"RULE", "WORST CALLERS", "REQUESTS", "LIMITED", "NEWLY", "MAY BE MORE BY"}, optional: map[string]string{"NEWLY": none, "MAY BE MORE BY": "0"}}
	for i := range r.Proposed.Rules {
		rule := &r.Proposed.Rules[i]
		for _, c := range rule.WorstCallers {
			var newly any = none
			if r.Difference != nil {
				newly = c.NewlyLimited
			}
			t.add(rule.Rule, c.Identity, c.Requests, limitedOf(c.Limited, c.Requests), newly, c.Error)
		}
	}
	if len(t.rows) > 0 {
		printf(out, "\n")
		t.write(out)
	}
}

func writeMinutes(out io.Writer, r *simulate.Report) {
	t := table{columns: []string{"BUSIEST MINUTES", "REQUESTS", "LIMITED", "LIMITED TODAY"}, optional: map[string]string{"LIMITED TODAY": none}}
	for _, m := range r.BusiestMinutes {
		var today any = none
		if r.Current != nil {
			today = m.LimitedNow
		}
		t.add(m.Time.Format(minuteLayout), m.Requests, m.Limited, today)
	}
	if len(t.rows) > 0 {
		printf(out, "\n")
		t.write(out)
	}
}

// writeLogs writes what was read, and what could not be.
func writeLogs(out io.Writer, r *simulate.Report) {
	t := table{columns: []string{"LOG", "FORMAT", "LINES", "REQUESTS", "NOT PARSED", "TOO LONG"}, optional: map[string]string{"TOO LONG": "0"}}
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
