package cli

import (
	"fmt"
	"io"

	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/internal/simulate"
)

// writeSimulation writes a report of simulate as tables.
func writeSimulation(out io.Writer, r *simulate.Report) {
	if r.Requests > 0 {
		printf(out, "%s from %s to %s\n", count(int(r.Requests), "request"), moment(&r.From), moment(&r.To))
		limited := painter(out)(red, limitedOf(r.Limited, r.Requests))
		printf(out, "%s would limit %s of them\n", printable.Line(r.RuleSet, maxCell), limited)
		writeDifference(out, r)
		writeSimulatedRules(out, r)
		printf(out, "\n")
	}
	writeLogs(out, r)
	if r.Evicted > 0 {
		printf(out, "%d buckets were dropped before they were full, because there were more than 1,000,000: "+
			"fewer requests are limited than should be\n", r.Evicted)
	}
}

// limitedOf is a part of the requests, with its share.
func limitedOf(part, whole int64) string {
	return fmt.Sprintf("%d (%s)", part, share(part, whole))
}

// share is a part of a whole in percent.
func share(part, whole int64) string {
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(max(1, whole)))
}

func writeDifference(out io.Writer, r *simulate.Report) {
	d := r.Difference
	if d == nil {
		return
	}
	t := table{columns: []string{"AGAINST " + d.Against, "REQUESTS", "SHARE"}}
	add := func(what string, n int64) { t.add(what, n, share(n, r.Requests)) }
	add("newly limited", d.Newly)
	add("no longer limited", d.NoLonger)
	add("limited as before", d.Both)
	add("allowed as before", d.Neither)
	t.writeBelow(out)
}

func writeSimulatedRules(out io.Writer, r *simulate.Report) {
	t := table{columns: []string{"RULE", "DOES", "REQUESTS", "LIMITED"}}
	if r.Difference != nil {
		t.columns = append(t.columns, "NEWLY", "NO LONGER")
	}
	for _, rule := range r.Rules {
		cells := []any{rule.Rule, rule.Action, rule.Requests, limitedOf(rule.Limited, rule.Requests), rule.Newly, rule.NoLonger}
		switch {
		case rule.Removed:
			cells[1], cells[2], cells[3], cells[4] = "removed", none, none, none
		case rule.Shadow:
			cells[1] = rule.Action + " in shadow"
		}
		t.add(cells[:len(t.columns)]...)
	}
	t.writeBelow(out)
}

// writeLogs writes what was read, and what could not be.
func writeLogs(out io.Writer, r *simulate.Report) {
	t := table{columns: []string{"LOG", "LINES", "REQUESTS", "SKIPPED", "OUT OF ORDER"}, optional: map[string]string{"OUT OF ORDER": "0"}}
	for _, l := range r.Logs {
		t.add(l.Name, l.Lines, l.Requests, l.Skipped, l.OutOfOrder)
	}
	t.write(out)
	for _, l := range r.Logs {
		first := l.FirstSkipped
		if first == nil {
			continue
		}
		printf(out, "%s:%d: first line that was skipped: %s\n", printable.Line(l.Name, maxCell), first.Line, first.Reason)
		if first.Text != "" {
			printf(out, "  %s\n", first.Text)
		}
	}
}
