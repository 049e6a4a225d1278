// Package memrules keeps rule sets in this process, for tests. A program that makes
// its rules itself uses [github.com/fluxgate/fluxgate.Static].
//
// It is a [rules.Editor] like those that keep rules on a server, with revisions,
// history and conflicts, and notifies its watchers of every change. Rule sets
// are kept as JSON, so that callers cannot change them.
package memrules
