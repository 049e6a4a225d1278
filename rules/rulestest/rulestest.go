// Package rulestest is the conformance suite of a [rules.Source] and a
// [rules.Editor]: what every implementation must do, as checks that fail when it
// does not. Run it on your own:
//
//	func TestEditor(t *testing.T) {
//		rulestest.Run(t, func(t testing.TB) rulestest.Subject {
//			return rulestest.Subject{Editor: myrules.New(myrules.Config{})}
//		})
//	}
//
// Every check uses ids of its own, so a source may be opened once and shared.
// A source that cannot be written is run through the checks of reading; the
// test says how to change what it reads:
//
//	return rulestest.Subject{Source: source, Write: writeFile, Remove: removeFile}
package rulestest

import (
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
)

// Subject is a rule source under test. The suite closes nothing.
type Subject struct {
	// Editor is the source, if it can be written.
	Editor rules.Editor

	// Source is the source, if it cannot. Write and Remove then change what
	// it reads, each in one step, and return when the source can see it.
	Source rules.Source
	Write  func(t testing.TB, set *fluxgate.RuleSet)
	Remove func(t testing.TB, id string)

	// Open is another editor of the same data, as another gateway has it.
	// Nil means that there is no other way to the data than Editor.
	Open func(t testing.TB) rules.Editor
	// Corrupt puts a document in the place of that of a rule set, past every
	// check. Nil means that this is not possible.
	Corrupt func(t testing.TB, id, document string)

	// History is how many revisions the editor was configured to keep, at least 20.
	// 0 means [rules.DefaultHistory] or more, and that the bound is
	// not checked: run the suite with a small one for that.
	History int
	// HistoryBytes is how many bytes of documents of one rule set the editor
	// was configured to keep, 64 KiB to 4 MiB. 0 means [rules.DefaultHistoryBytes] or
	// more, and that the bound is not checked: run the suite with a small one
	// for that.
	HistoryBytes int
	// Writers make this many Changes, together, to one rule set. 0 means 50
	// and 1,000: ask a slow editor for less.
	Writers, Changes int
	// RestoreAll restores all of their revisions and not only 20.
	RestoreAll bool
	// Patience is how long to wait for what must happen. 0 means 30 s.
	Patience time.Duration
}

// Check is one thing that every source or editor must do.
type Check struct {
	// Name reads as a sentence.
	Name string
	// Run fails t if the subject does not do it, and skips t if the subject
	// cannot do what it is about.
	Run func(t testing.TB, s Subject)
}

// Run runs every check as a subtest on a subject of its own. open may return
// the same one each time.
func Run(t *testing.T, open func(t testing.TB) Subject) {
	t.Helper()
	for _, c := range Checks() {
		t.Run(c.Name, func(t *testing.T) { c.Run(t, open(t)) })
	}
}

// Checks are all checks.
func Checks() []Check {
	var all []Check
	for _, group := range [][]Check{
		readChecks, behindChecks, changeChecks, deleteChecks, keepChecks, ruleIDChecks,
		historyChecks, listChecks, restoreChecks, concurrencyChecks,
	} {
		all = append(all, group...)
	}
	return all
}
