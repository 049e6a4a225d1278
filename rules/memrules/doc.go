// Package memrules keeps rule sets in this process: for rules that a program
// makes itself, for tests and for demos.
//
// It is a [rules.Editor] like those that keep rules on a server, with
// revisions, history and conflicts, and tells its watchers of every change.
// What is put is kept as JSON, so that what comes back is what another editor
// would give, and nobody can change it from outside.
package memrules
