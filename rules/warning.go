package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/fluxgate/fluxgate/internal/match"
	"github.com/fluxgate/fluxgate/internal/printable"
)

// Warning is a part of a valid rule set that cannot work as it is written.
type Warning struct {
	// Kind is the kind of warning, for programs.
	Kind WarningKind
	// RuleID is the rule that the warning is about.
	RuleID string
	// Path leads to the value in the rule set, whose rules have the order in which they were given.
	Path Path
	// Message says what does not work, and why.
	Message string
}

// WarningKind is the kind of a [Warning].
type WarningKind string

// The kinds of warnings.
const (
	// WarnUnreachable is a rule that applies to no request.
	WarnUnreachable WarningKind = "unreachable"
	// WarnExempted is a rule with the action allow that exempts all requests of a limit.
	WarnExempted WarningKind = "exempted"
	// WarnReachedFirst is a limit that rejects no request because another one is always
	// reached first.
	WarnReachedFirst WarningKind = "reached-first"
	// WarnMixedGroup is a rule whose requests another rule of its group counts in another measure.
	WarnMixedGroup WarningKind = "mixed-group"
	// WarnNoDefault is an attribute for whose other values there is no rule.
	WarnNoDefault WarningKind = "no-default"
	// WarnMethod is an HTTP method that is not registered.
	WarnMethod WarningKind = "unknown-method"
	// WarnName is a name of a header or an attribute that may be misspelled.
	WarnName WarningKind = "similar-name"
	// WarnNetwork is a network among values that are compared as text.
	WarnNetwork WarningKind = "network-as-text"
)

// String returns the position, the rule and the message.
func (w Warning) String() string { return w.Path.String() + ": " + w.Text() }

// Text returns the rule and the message.
func (w Warning) Text() string { return "rule " + printable.Quote(w.RuleID) + " " + w.Message }

// MaxWarnings is how many warnings of a rule set are returned.
const MaxWarnings = 100

// Warnings are the warnings of a rule set.
type Warnings struct {
	// List has the first [MaxWarnings], in the order of the rules.
	List []Warning
	// More is how many there are in addition.
	More int
	// Uncompared is how many rules were not compared with all others, because of the bound on
	// the work. It is 0 unless thousands of rules match the same requests.
	Uncompared int
}

// compareSteps bounds the comparison of the rules of a set: about a second.
const compareSteps = 20_000_000

// Warnings reads the rules as a whole and returns what cannot work as it is written. There is a
// warning only for what is proven by the rules alone: it does not depend on requests, the
// configuration of servers, or on time. Overrides are not taken into account. Disabled rules are
// ignored.
func (s *Set) Warnings() Warnings { return s.warnings(compareSteps) }

func (s *Set) warnings(steps int) Warnings {
	l := linter{set: s, replaced: map[string]bool{}, leaders: map[string]int32{}}
	var matching []match.Rule
	for i := range s.rules {
		r := &s.rules[i]
		if r.Disabled {
			continue
		}
		l.active = append(l.active, i)
		matching = append(matching, r.Matching())
		for _, id := range r.Replaces {
			l.replaced[id] = true
		}
		if _, known := l.leaders[r.Group]; !known && r.enforced() {
			l.leaders[r.Group] = int32(len(l.active) - 1)
		}
	}
	var err error
	if l.compared, err = match.Compare(matching, steps); err != nil {
		return Warnings{} // a valid rule set compiles
	}
	l.compare()
	l.limits()
	l.plans()
	l.values()
	l.names()
	return l.warnings()
}

// linter collects the warnings of a rule set. Rules are numbered as the enabled rules are evaluated.
type linter struct {
	set      *Set
	active   []int // the enabled rules
	compared *match.Comparison
	// replaced are the ids of rules that do not apply to some calls.
	replaced map[string]bool
	// leaders are the first enforced rule of each group.
	leaders map[string]int32

	found      []Warning
	advised    int // methods for which a known one was looked up, which takes a while
	uncompared int
}

func (l *linter) rule(i int) *Rule { return &l.set.rules[l.active[i]] }

// id returns the id of a rule, quoted.
func (l *linter) id(i int) string { return printable.Quote(l.rule(i).ID) }

// add adds a warning about a value of a rule.
func (l *linter) add(kind WarningKind, rule int, inside Path, format string, args ...any) {
	path := append(Path{"rules", l.set.given[l.active[rule]]}, inside...)
	l.found = append(l.found, Warning{Kind: kind, RuleID: l.rule(rule).ID, Path: path, Message: fmt.Sprintf(format, args...)})
}

// warnings returns the warnings in the order of the rules.
func (l *linter) warnings() Warnings {
	slices.SortStableFunc(l.found, func(a, b Warning) int {
		i, _ := a.Path.Rule()
		j, _ := b.Path.Rule()
		return cmp.Compare(i, j)
	})
	shown := min(len(l.found), MaxWarnings)
	return Warnings{List: slices.Clip(l.found[:shown]), More: len(l.found) - shown, Uncompared: l.uncompared}
}

// Lines are texts about what is not in the list.
func (w *Warnings) Lines() (lines []string) {
	if w.More > 0 {
		lines = append(lines, fmt.Sprintf("and %d more warnings", w.More))
	}
	if w.Uncompared > 0 {
		lines = append(lines, fmt.Sprintf(
			"%d rules were not compared with all others: too many rules match the same requests", w.Uncompared))
	}
	return lines
}

// enforced reports whether the rule takes part in decisions.
func (r *Rule) enforced() bool { return r.Mode != ModeShadow }

// some lists the first ids of rules, and how many there are in addition.
func some(ids []string) string {
	const most = 3
	if len(ids) <= most {
		return strings.Join(ids, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(ids[:most], ", "), len(ids)-most)
}
