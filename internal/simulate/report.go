package simulate

import "time"

// Report is what a simulation found.
type Report struct {
	Logs []Log `json:"logs"`
	// From and To are the times of the first and the last request.
	From time.Time `json:"from,omitzero"`
	To   time.Time `json:"to,omitzero"`
	// RuleSet is the id of the proposed rules.
	RuleSet string `json:"ruleSet"`
	// Requests is how many lines were decided, Limited how many of them are not allowed.
	Requests int64 `json:"requests"`
	Limited  int64 `json:"limited"`
	// Rules are those of the proposed rule set, then those that are only in the current one.
	Rules []*Rule `json:"rules"`
	// Difference is nil if there are no rules to compare with.
	Difference *Difference `json:"difference,omitempty"`
	// Evicted are buckets that were dropped before they were full, because there were more
	// than 1,000,000. Fewer requests are limited than should be.
	Evicted uint64 `json:"evicted,omitempty"`
}

// add counts a request.
func (r *Report) add(at time.Time, limited bool) {
	if r.Requests == 0 {
		r.From = at
	}
	r.To = at
	r.Requests++
	if limited {
		r.Limited++
	}
}

// Log is what was read of one log.
type Log struct {
	Name     string `json:"name"`
	Lines    int64  `json:"lines"`
	Requests int64  `json:"requests"`
	// Skipped are lines that were not decided.
	Skipped      int64        `json:"skipped"`
	FirstSkipped *SkippedLine `json:"firstSkipped,omitempty"`
	// OutOfOrder are lines with a time before that of an earlier line. They were decided at
	// the time of that line.
	OutOfOrder int64 `json:"outOfOrder,omitempty"`
}

// SkippedLine is a line that was not decided.
type SkippedLine struct {
	Line   int64  `json:"line"`
	Reason string `json:"reason"`
	// Text is the beginning of the line. It is empty for JSON lines, in which a field may be a
	// secret, and for lines that are not UTF-8.
	Text string `json:"text,omitempty"`
}

// Rule is what one rule did. In shadow mode it is what it would do.
type Rule struct {
	Rule   string `json:"rule"`
	Action string `json:"action"`
	Shadow bool   `json:"shadow"`
	// Removed is whether the rule is only in the current rule set.
	Removed bool `json:"removed,omitempty"`
	// Requests is how many it applied to, Limited how many of them did not fit.
	Requests int64 `json:"requests"`
	Limited  int64 `json:"limited"`
	// Newly is how many of the limited requests the current rules allow. NoLonger is how many
	// the rule of this id limits in the current rules, of those that the proposed rules allow.
	Newly    int64 `json:"newlyLimited"`
	NoLonger int64 `json:"noLongerLimited"`
}

// add counts a request that the rule applies to.
func (r *Rule) add(limited, newly bool) {
	r.Requests++
	if !limited {
		return
	}
	r.Limited++
	if newly {
		r.Newly++
	}
}

// Difference is how proposed rules differ from current ones, in requests. The four numbers
// add up to all requests.
type Difference struct {
	// Against is the id of the current rules.
	Against  string `json:"against"`
	Newly    int64  `json:"newlyLimited"`
	NoLonger int64  `json:"noLongerLimited"`
	Both     int64  `json:"limitedByBoth"`
	Neither  int64  `json:"limitedByNeither"`
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
