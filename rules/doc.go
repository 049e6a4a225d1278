// Package rules is the control plane's contract: where rule sets live and how
// they change.
//
// A [Source] is asked for the revision of a rule set, cheaply and often, and
// for its content when that has changed. Files, MongoDB and Redis are sources
// (filerules, mongorules, redisrules), and so is a program that makes its own
// rules (memrules); package reload keeps what they say in
// memory for the engine. Writing a source of your own takes two methods, and
// rulestest checks it.
//
// An [Editor] is a source that can also be written. Every change is a whole
// rule set under a new revision, with who made it, when and why. It takes
// effect only if the revision it was based on is still the current one, so
// that two people cannot overwrite each other. Former revisions are kept and
// can be restored.
//
// [Diff] says how one rule set becomes another, field by field, and [WriteDiff]
// shows it to people. [Stamp] keeps the times of rules.
package rules
