package admin

import (
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// Entry is a rule set at one revision, without its rules.
type Entry struct {
	ID       string     `json:"id" doc:"The rule set."`
	Revision int64      `json:"revision" doc:"Its revision. The ETag is the same in quotes."`
	Deleted  bool       `json:"deleted,omitempty" doc:"This revision deleted the rule set."`
	Author   string     `json:"author,omitempty" doc:"The author."`
	Comment  string     `json:"comment,omitempty" doc:"The reason."`
	At       *time.Time `json:"at,omitempty" doc:"When."`
}

// EntryOf returns an entry as JSON.
func EntryOf(e *rules.Entry) Entry {
	to := Entry{ID: e.RuleSetID, Revision: e.Revision, Deleted: e.Deleted, Author: e.Author, Comment: e.Comment}
	if !e.At.IsZero() {
		at := e.At.UTC()
		to.At = &at
	}
	return to
}

// entry reverses EntryOf.
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
	Next     string  `json:"next,omitempty" doc:"The value of after for the next page; absent on the last."`
}

// Revisions is a page of the history of a rule set.
type Revisions struct {
	Revisions []Entry `json:"revisions" nullable:"false" doc:"Revisions, newest first."`
	Next      int64   `json:"next,omitempty" doc:"The value of before for the next page; absent on the last."`
}

// Diff has the differences between two rule sets.
type Diff struct {
	From    int64            `json:"from" doc:"The older revision; 0 means no rule set."`
	To      int64            `json:"to,omitempty" doc:"The newer revision; absent if it is not saved."`
	Changes []rules.RuleDiff `json:"changes" nullable:"false" doc:"The differences, rule by rule."`
}

// Validation is the result of validating a rule set.
type Validation struct {
	Valid  bool            `json:"valid" doc:"Whether it could be saved."`
	Rules  int             `json:"rules" doc:"How many rules it has."`
	Errors []ProblemDetail `json:"errors,omitempty" nullable:"false" doc:"All problems."`
}

// Counters has how often each rule has decided on one server.
type Counters struct {
	RuleSet string    `json:"ruleSet" doc:"The rule set."`
	Since   time.Time `json:"since" doc:"When this server started counting."`
	Rules   []Counter `json:"rules" nullable:"false" doc:"The rules that have decided."`
}

// Counter is how often a rule was the binding rule.
type Counter struct {
	Rule           string            `json:"rule" doc:"The rule; other means all rules that are not counted separately."`
	Decisions      map[string]uint64 `json:"decisions" doc:"By outcome: allowed, limited, denied, exempt and others."`
	ShadowRejected uint64            `json:"shadowRejected,omitempty" doc:"Requests that it would have rejected if it were enforced."`
	NearLimit      uint64            `json:"nearLimit,omitempty" doc:"Allowed requests that left at most a fifth of the band."`
}

// Who is the identity of the caller.
type Who struct {
	Name     string   `json:"name" doc:"The name in the audit and histories."`
	Roles    []string `json:"roles" nullable:"false" doc:"The roles of the caller: check, read, write, identities."`
	RuleSets []string `json:"ruleSets,omitempty" nullable:"false" doc:"The rule sets that the roles are for; absent: all."`
	// DefaultRuleSet and ReadOnly describe the server.
	DefaultRuleSet string `json:"defaultRuleSet,omitempty" doc:"The rule set of requests that name none."`
	ReadOnly       bool   `json:"readOnly,omitempty" doc:"The rules are in files and cannot be changed through the API."`
}
