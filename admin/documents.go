package admin

import (
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// Entry is a rule set at one revision, without its rules.
type Entry struct {
	ID       string     `json:"id" doc:"The rule set."`
	Revision int64      `json:"revision" doc:"Its revision. The ETag is the same in quotes."`
	Deleted  bool       `json:"deleted,omitempty" doc:"This revision took the rule set away."`
	Author   string     `json:"author,omitempty" doc:"Who made it."`
	Comment  string     `json:"comment,omitempty" doc:"Why."`
	At       *time.Time `json:"at,omitempty" doc:"When."`
}

// EntryOf is an entry as it travels.
func EntryOf(e *rules.Entry) Entry {
	to := Entry{ID: e.RuleSetID, Revision: e.Revision, Deleted: e.Deleted, Author: e.Author, Comment: e.Comment}
	if !e.At.IsZero() {
		at := e.At.UTC()
		to.At = &at
	}
	return to
}

// entry is what travelled.
func (e *Entry) entry() rules.Entry {
	to := rules.Entry{RuleSetID: e.ID, Head: rules.Head{Revision: e.Revision, Deleted: e.Deleted}, Author: e.Author, Comment: e.Comment}
	if e.At != nil {
		to.At = *e.At
	}
	return to
}

// Entries is a page of rule sets.
type Entries struct {
	RuleSets []Entry `json:"ruleSets" nullable:"false" doc:"Rule sets in the order of their ids."`
	Next     string  `json:"next,omitempty" doc:"What to give as after for the next page; left out on the last."`
}

// Revisions is a page of the history of a rule set.
type Revisions struct {
	Revisions []Entry `json:"revisions" nullable:"false" doc:"Revisions, newest first."`
	Next      int64   `json:"next,omitempty" doc:"What to give as before for the next page; left out on the last."`
}

// Diff is what differs between two rule sets.
type Diff struct {
	From    int64            `json:"from" doc:"The revision before; 0 is no rule set."`
	To      int64            `json:"to,omitempty" doc:"The revision after; left out where that is not saved."`
	Changes []rules.RuleDiff `json:"changes" nullable:"false" doc:"What differs, rule by rule."`
}

// Validation is what validating a rule set has found.
type Validation struct {
	Valid  bool            `json:"valid" doc:"Whether it could be saved."`
	Rules  int             `json:"rules" doc:"How many rules it has."`
	Errors []ProblemDetail `json:"errors,omitempty" nullable:"false" doc:"Everything that is wrong with it."`
}

// Counters are how often each rule has decided on one server.
type Counters struct {
	RuleSet string    `json:"ruleSet" doc:"The rule set."`
	Since   time.Time `json:"since" doc:"Since when this server counts."`
	Rules   []Counter `json:"rules" nullable:"false" doc:"By rule, those that have decided."`
}

// Counter is how often a rule was the one that binds.
type Counter struct {
	Rule           string            `json:"rule" doc:"The rule; other is all for which there was no room."`
	Decisions      map[string]uint64 `json:"decisions" doc:"By outcome: allowed, limited, denied, exempt and others."`
	ShadowRejected uint64            `json:"shadowRejected,omitempty" doc:"Requests that it would have rejected if it were enforced."`
	NearLimit      uint64            `json:"nearLimit,omitempty" doc:"Allowed requests that left at most a fifth of the band."`
}

// Who is who the server takes the caller for.
type Who struct {
	Name     string   `json:"name" doc:"What the audit and histories call the caller."`
	Roles    []string `json:"roles" nullable:"false" doc:"What the caller may do: check, read, write."`
	RuleSets []string `json:"ruleSets,omitempty" nullable:"false" doc:"On which rule sets; left out, on all."`
	// DefaultRuleSet and ReadOnly are about what is here.
	DefaultRuleSet string `json:"defaultRuleSet,omitempty" doc:"The rule set of requests that name none."`
	ReadOnly       bool   `json:"readOnly,omitempty" doc:"The rules are in files, and cannot be changed here."`
}
