package simulate

import (
	"cmp"
	"time"
)

// Report is what a simulation found.
type Report struct {
	Logs []Log `json:"logs"`
	// From and To are the times of the first and the last request, nil without requests.
	From *time.Time `json:"from,omitempty"`
	To   *time.Time `json:"to,omitempty"`
	// Requests is how many lines were decided.
	Requests int64 `json:"requests"`
	// Logged429 is how many of them were answered with 429 when they were logged.
	Logged429 int64 `json:"logged429"`

	// Proposed is the result of the rules that are tried out, Current that of the rules
	// that they are compared with.
	Proposed   Result      `json:"proposed"`
	Current    *Result     `json:"current,omitempty"`
	Difference *Difference `json:"difference,omitempty"`

	BusiestMinutes []Minute `json:"busiestMinutes"`
}

// Log is what was read of one log.
type Log struct {
	Name     string `json:"name"`
	Format   string `json:"format"`
	Lines    int64  `json:"lines"`
	Requests int64  `json:"requests"`
	// Unparsed and TooLong are lines that were not decided.
	Unparsed     int64        `json:"unparsed"`
	TooLong      int64        `json:"tooLong"`
	FirstSkipped *SkippedLine `json:"firstSkipped,omitempty"`
	SteppedBack  *StepsBack   `json:"steppedBack,omitempty"`
	// Problem says why the log was not read to its end.
	Problem string `json:"problem,omitempty"`
}

// SkippedLine is a line that was not decided.
type SkippedLine struct {
	Line   int64  `json:"line"`
	Reason string `json:"reason"`
	// Text is the beginning of the line. It is empty if a field of the log is an API key.
	Text string `json:"text,omitempty"`
}

// StepsBack are lines with a time before that of an earlier line. They were decided at the
// time of that line.
type StepsBack struct {
	Lines          int64   `json:"lines"`
	LongestSeconds float64 `json:"longestSeconds"`
	// Line has the longest step back, behind the time of line After.
	Line  int64 `json:"line"`
	After int64 `json:"after"`
}

// Result is what one rule set decided.
type Result struct {
	RuleSet string `json:"ruleSet"`
	Allowed int64  `json:"allowed"`
	// Limited are all requests that are not allowed.
	Limited int64 `json:"limited"`
	// Reasons are all requests by the reason of the decision.
	Reasons map[string]int64 `json:"reasons"`
	Rules   []RuleResult     `json:"rules"`
	// Evicted are buckets that were dropped before they were full, because there were more
	// than 1,000,000. Fewer requests are limited than should be.
	Evicted uint64 `json:"evicted,omitempty"`
}

// RuleResult is what one rule did. In shadow mode it is what it would do.
type RuleResult struct {
	Rule   string `json:"rule"`
	Action string `json:"action"`
	Shadow bool   `json:"shadow"`
	// Requests is how many it applied to, Limited how many of them did not fit.
	Requests int64 `json:"requests"`
	Limited  int64 `json:"limited"`
	// Callers and LimitedCallers are how many buckets these requests counted in. If
	// MoreCallers is set, there were more than that.
	Callers        int  `json:"callers"`
	LimitedCallers int  `json:"limitedCallers"`
	MoreCallers    bool `json:"moreCallers,omitempty"`
	// Peak is the minute in which it limited most, nil if it did not.
	Peak         *Minute  `json:"peak,omitempty"`
	WorstCallers []Caller `json:"worstCallers"`
	// Changed is how many of the limited requests the rule set that this one is compared
	// with allows: newly limited for a proposed rule, no longer limited for a current one.
	Changed int64 `json:"changed"`
}

// Caller is one caller of a rule.
type Caller struct {
	// Identity is as the rule sees it: user ada. Secrets are digests.
	Identity string `json:"identity"`
	Requests int64  `json:"requests"`
	Limited  int64  `json:"limited"`
	// Error is how many more there may be of each, if there were too many callers to
	// keep all.
	Error int64 `json:"error,omitempty"`
	// Changed is as in RuleResult.
	Changed int64 `json:"changed"`
}

// Difference is how proposed rules differ from current ones, in requests. Newly and Both
// add up to those that the proposed rules limit, NoLonger and Both to those of the current
// rules, and all four to all requests.
type Difference struct {
	Newly    int64 `json:"newlyLimited"`
	NoLonger int64 `json:"noLongerLimited"`
	Both     int64 `json:"limitedByBoth"`
	Neither  int64 `json:"limitedByNeither"`
}

// add counts a request.
func (d *Difference) add(proposed, current bool) {
	switch {
	case proposed && current:
		d.Both++
	case proposed:
		d.Newly++
	case current:
		d.NoLonger++
	default:
		d.Neither++
	}
}

// Minute is what happened in one minute.
type Minute struct {
	Time     time.Time `json:"time"`
	Requests int64     `json:"requests"`
	// Limited is by the proposed rules, LimitedByCurrent by the current ones.
	Limited          int64 `json:"limited"`
	LimitedByCurrent int64 `json:"limitedByCurrent,omitempty"`
}

// RuleChange is a proposed rule and the current one with its id. One of them may be nil.
type RuleChange struct{ Proposed, Current *RuleResult }

// RuleChanges are all rules, the proposed ones first.
func (r *Report) RuleChanges() []RuleChange {
	var all []RuleChange
	proposed := map[string]int{} // their places in all
	for i := range r.Proposed.Rules {
		rule := &r.Proposed.Rules[i]
		proposed[rule.Rule] = len(all)
		all = append(all, RuleChange{Proposed: rule})
	}
	if r.Current == nil {
		return all
	}
	for i := range r.Current.Rules {
		rule := &r.Current.Rules[i]
		if place, ok := proposed[rule.Rule]; ok {
			all[place].Current = rule
		} else {
			all = append(all, RuleChange{Current: rule})
		}
	}
	return all
}

// Rule is the proposed rule, or else the current one.
func (c RuleChange) Rule() *RuleResult { return cmp.Or(c.Proposed, c.Current) }

// Does is what the rule does, in words.
func (c RuleChange) Does() string {
	switch {
	case c.Proposed == nil:
		return "removed"
	case c.Proposed.Shadow:
		return c.Proposed.Action + " in shadow"
	}
	return c.Proposed.Action
}
