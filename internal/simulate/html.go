package simulate

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"time"
)

//go:embed report.html
var page string

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"n":      thousands,
	"count":  func(n int) string { return thousands(int64(n)) },
	"share":  Share,
	"time":   func(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05") },
	"minute": func(at time.Time) string { return at.UTC().Format("2006-01-02 15:04") },
}).Parse(page))

// Share is a part of a whole in percent. A part is never 0 % and never all.
func Share(part, whole int64) string {
	if whole == 0 || part == 0 {
		return "0 %"
	}
	if part == whole {
		return "100 %"
	}
	return fmt.Sprintf("%.1f %%", min(99.9, max(0.1, 100*float64(part)/float64(whole))))
}

// WriteHTML writes the report as one page that needs no other file, has no scripts and
// loads nothing.
func (r *Report) WriteHTML(out io.Writer) error {
	return pageTemplate.Execute(out, r)
}

// Plot is the plot of all requests, for the page.
func (r *Report) Plot() template.HTML {
	if r.Requests == 0 {
		return ""
	}
	return r.total.plot("All requests", r.Current != nil)
}

// Plot is the plot of a rule that limits, for the page.
func (r *RuleResult) Plot() template.HTML {
	if r.series == nil || r.Limited == 0 {
		return ""
	}
	return r.series.plot("Rule "+r.Rule, false)
}

// RuleChange is a proposed rule and the current one with its id. One of them may be nil.
type RuleChange struct{ Proposed, Current *RuleResult }

// RuleChanges are all rules, the proposed ones first.
func (r *Report) RuleChanges() []RuleChange {
	var all []RuleChange
	current := map[string]*RuleResult{}
	if r.Current != nil {
		for i := range r.Current.Rules {
			current[r.Current.Rules[i].Rule] = &r.Current.Rules[i]
		}
	}
	for i := range r.Proposed.Rules {
		rule := &r.Proposed.Rules[i]
		all = append(all, RuleChange{rule, current[rule.Rule]})
		delete(current, rule.Rule)
	}
	if r.Current != nil {
		for i := range r.Current.Rules {
			if rule := &r.Current.Rules[i]; current[rule.Rule] != nil {
				all = append(all, RuleChange{nil, rule})
			}
		}
	}
	return all
}

// Rule is the proposed rule, or else the current one.
func (c RuleChange) Rule() *RuleResult {
	if c.Proposed == nil {
		return c.Current
	}
	return c.Proposed
}

// Does is what the rule does, in words.
func (c RuleChange) Does() string {
	switch rule := c.Rule(); {
	case c.Proposed == nil:
		return "removed"
	case rule.Shadow:
		return rule.Action + " in shadow"
	default:
		return rule.Action
	}
}
