package admin

import "github.com/fluxgate/fluxgate/rules"

// Entries is a page of rule sets.
type Entries struct {
	RuleSets []rules.Entry `json:"ruleSets" nullable:"false" doc:"Rule sets in the order of their ids."`
	Next     string        `json:"next,omitempty" doc:"The value of after for the next page; absent on the last."`
}

// Revisions is a page of the history of a rule set.
type Revisions struct {
	Revisions []rules.Entry `json:"revisions" nullable:"false" doc:"Revisions, newest first."`
	Next      int64         `json:"next,omitempty" doc:"The value of before for the next page; absent on the last."`
}

// Diff has the differences between two rule sets.
type Diff struct {
	From    int64            `json:"from" doc:"The older revision; 0 means no rule set."`
	To      int64            `json:"to,omitempty" doc:"The newer revision."`
	Changes []rules.RuleDiff `json:"changes" nullable:"false" doc:"The differences, rule by rule."`
}

// Validation is the result of validating a rule set.
type Validation struct {
	Valid  bool            `json:"valid" doc:"Whether it could be saved."`
	Rules  int             `json:"rules" doc:"How many rules it has."`
	Errors []ProblemDetail `json:"errors,omitempty" nullable:"false" doc:"All problems."`
	// Warnings are those of rules.Set.Warnings.
	Warnings []RuleWarning `json:"warnings,omitempty" nullable:"false" doc:"What is valid and cannot work as it is written."`
}

// RuleWarning is one warning of a rule set, or a line about those that are not in the list.
type RuleWarning struct {
	Kind     rules.WarningKind `json:"kind,omitempty" doc:"The kind, for programs, such as unreachable or unknown-method."`
	Rule     string            `json:"rule,omitempty" doc:"The id of the rule."`
	Location string            `json:"location,omitempty" doc:"Where, such as body.rules[3].bands[0]."`
	Path     rules.Path        `json:"path,omitempty" nullable:"false" doc:"Where in the body, for programs: names and positions."`
	Message  string            `json:"message" doc:"What does not work, and why."`
}

// NewRuleWarnings returns the warnings of a rule set.
func NewRuleWarnings(set *rules.Set) (list []RuleWarning) {
	found := set.Warnings()
	for _, w := range found.List {
		at := append(rules.Path{bodyPlace}, w.Path...)
		list = append(list, RuleWarning{Kind: w.Kind, Rule: w.RuleID, Location: at.String(), Path: w.Path, Message: w.Text()})
	}
	for _, line := range found.Lines() {
		list = append(list, RuleWarning{Message: line})
	}
	return list
}

// Who is the identity of the caller.
type Who struct {
	Name     string   `json:"name" doc:"The name in the audit and histories."`
	Roles    []string `json:"roles" nullable:"false" doc:"The roles of the caller: check, read, write, identities, support."`
	RuleSets []string `json:"ruleSets,omitempty" nullable:"false" doc:"The rule sets that the roles are for; absent: all."`
	// DefaultRuleSet and ReadOnly describe the server.
	DefaultRuleSet string `json:"defaultRuleSet,omitempty" doc:"The rule set of requests that name none."`
	ReadOnly       bool   `json:"readOnly,omitempty" doc:"The rules are in files and cannot be changed through the API."`
}
