// Package rulestest is the conformance suite for implementations of [rules.Source]
// and [rules.Editor]. Run it on your own:
//
//	func TestEditor(t *testing.T) {
//		rulestest.Run(t, func(t testing.TB) rulestest.Subject {
//			return rulestest.Subject{Editor: myrules.New(myrules.Config{})}
//		})
//	}
//
// Every check uses its own ids, so a source may be opened once and shared. For a
// source that cannot be written only the checks of reading run; the test says how
// to change what it reads:
//
//	return rulestest.Subject{Source: source, Write: writeFile, Remove: removeFile}
//
// [RunOverrides] is the suite for implementations of [rules.OverrideEditor].
package rulestest

import (
	"slices"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// Subject is a rule source under test. The suite closes nothing.
type Subject struct {
	// Editor is the source, if it can be written.
	Editor rules.Editor

	// Source is the source, if it cannot be written. Write and Remove then
	// change what it reads, atomically, and return when the source can see it.
	Source rules.Source
	Write  func(t testing.TB, set *rules.Set)
	Remove func(t testing.TB, id string)

	// Open returns another editor of the same data, like that of another
	// gateway. Nil means that Editor is the only one.
	Open func(t testing.TB) rules.Editor
	// Lose deletes everything that the source has of a rule set: rules, history and overrides.
	// Nil means that this is not possible.
	Lose func(t testing.TB, id string)
	// Corrupt replaces the document of a rule set without any check. Nil means
	// that this is not possible.
	Corrupt func(t testing.TB, id, document string)

	// Overrides is the source, for [RunOverrides]. If it is a [rules.Editor] too, its rule sets
	// are put and deleted.
	Overrides rules.OverrideEditor
	// OpenOverrides returns another editor of the same overrides. Nil means that Overrides is
	// the only one.
	OpenOverrides func(t testing.TB) rules.OverrideEditor
	// Stored returns everything that the source has stored, as it is stored. Nil means that
	// it is in memory only.
	Stored func(t testing.TB) string

	// History is how many revisions the editor keeps, at least 20. 0 means
	// [rules.DefaultHistory] or more, and that the bound is not checked: use a
	// small one for that.
	History int
	// HistoryBytes is how many bytes of documents of one rule set the editor
	// keeps, 64 KiB to 4 MiB. 0 means [rules.DefaultHistoryBytes] or more, and
	// that the bound is not checked: use a small one for that.
	HistoryBytes int
	// Writers make this many Changes in total to one rule set. 0 means 50
	// and 1,000: use less for a slow editor.
	Writers, Changes int
	// RestoreAll restores all of their revisions instead of 20.
	RestoreAll bool
	// Patience is how long to wait for an event. 0 means 30 s.
	Patience time.Duration
}

// Check is one requirement on every source or editor.
type Check struct {
	// Name reads as a sentence.
	Name string
	// Run fails t if the subject does not meet it, and skips t if it does not
	// apply to the subject.
	Run func(t testing.TB, s Subject)
}

// Run runs every check as a subtest, each with a subject from open, which may return
// the same one each time.
func Run(t *testing.T, open func(t testing.TB) Subject) {
	t.Helper()
	run(t, Checks(), open)
}

// RunOverrides does the same for sources of overrides.
func RunOverrides(t *testing.T, open func(t testing.TB) Subject) {
	t.Helper()
	run(t, OverrideChecks(), open)
}

func run(t *testing.T, checks []Check, open func(t testing.TB) Subject) {
	t.Helper()
	for _, c := range checks {
		t.Run(c.Name, func(t *testing.T) { c.Run(t, open(t)) })
	}
}

// OverrideChecks returns all checks of overrides.
func OverrideChecks() []Check {
	return slices.Concat(
		overrideChecks, overrideBatchChecks, overrideListChecks, overrideFollowChecks, overrideLossChecks, overrideDeleteChecks,
	)
}

// Checks returns all checks of rule sets.
func Checks() []Check {
	var all []Check
	for _, group := range [][]Check{
		readChecks, behindChecks, changeChecks, deleteChecks, keepChecks, ruleIDChecks,
		historyChecks, listChecks, restoreChecks, lossChecks, concurrencyChecks,
	} {
		all = append(all, group...)
	}
	return all
}
