package benchmarks

import (
	"bytes"
	_ "embed"
	"fmt"
	"strings"
	"text/template"
	"time"
)

//go:embed page.md.tmpl
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// page returns the page of the documentation.
func (r results) page() ([]byte, error) {
	content := struct {
		Machine                         map[string]string
		Patience                        time.Duration
		Cold, Hot, Blocked, Correctness string
	}{Machine: map[string]string{}, Patience: patience}
	for _, one := range r {
		if one.workload == "machine" {
			content.Machine[one.measure] = one.value
		}
	}
	var err error
	for _, t := range []struct {
		to      *string
		columns []tableColumn
	}{
		{&content.Cold, speedTable(cold)}, {&content.Hot, speedTable(hot)}, {&content.Blocked, speedTable(blocked)},
		{&content.Correctness, []tableColumn{
			{"over-admitted", saturated, measureOver, number}, {"refused though due", saturated, measureDue, number}, {"leaked", paired, measureLeaked, number},
		}},
	} {
		if *t.to, err = r.table(t.columns); err != nil {
			return nil, err
		}
	}
	var b bytes.Buffer
	err = pageTemplate.Execute(&b, content)
	return b.Bytes(), err
}

// tableColumn is a measure of one workload.
type tableColumn struct {
	title    string
	workload *workload
	measure  string
	format   func(float64) string
}

func speedTable(w *workload) []tableColumn {
	return []tableColumn{
		{"decisions/s", w, measureRate, number}, {"p99", w, measureP99, func(v float64) string { return number(v) + " ms" }},
		{"Redis CPU/decision", w, measureCPU, func(v float64) string { return number(v) + " µs" }},
		{"failed", w, measureFailed, func(v float64) string { return number(v) + " %" }},
	}
}

// table has a row for each contender.
func (r results) table(columns []tableColumn) (string, error) {
	var b strings.Builder
	b.WriteString("| |")
	for _, c := range columns {
		fmt.Fprintf(&b, " %s |", c.title)
	}
	b.WriteString("\n|---|" + strings.Repeat("---:|", len(columns)))
	for _, name := range contenderNames {
		fmt.Fprintf(&b, "\n| %s |", name)
		for _, c := range columns {
			value, err := r.summary(c.workload, name, c.measure)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&b, " %s |", c.format(value))
		}
	}
	return b.String(), nil
}
