// Package memrules keeps rule sets in this process: for rules that a program
// makes itself, for tests and for demos.
//
// It is a [rules.Editor] like those that keep rules on a server, with revisions,
// history and conflicts, and notifies its watchers of every change. Rule sets
// are kept as JSON, so that callers cannot change them.
package memrules
