// Package rules defines where rule sets are stored and how they change.
//
// A [Source] returns the revision of a rule set, cheaply and often, and its
// content when that has changed. Files, MongoDB and Redis are sources
// (filerules, mongorules, redisrules), and so is the memory of a program
// (memrules); package reload keeps their rule sets for the engine. A source of
// your own has two methods, and rulestest tests it.
//
// An [Editor] is a source that can also be written. Every change is a whole
// rule set under a new revision, with who made it, when and why. It takes
// effect only if the revision it was based on is still the current one, so that
// two editors cannot overwrite each other. Former revisions are kept and
// can be restored.
//
// [Diff] says how one rule set becomes another, field by field, and [WriteDiff]
// shows it to people. [Stamp] keeps the times of rules.
package rules
