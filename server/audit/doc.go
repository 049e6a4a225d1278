// Package audit records changes of rules and buckets through the admin API, and
// rejected attempts: who, what, from where, and with which result.
//
// A [Log] writes each [Record] to the server's log, whatever its level, and to a
// file if one is configured: one JSON object a line, each in one write, so that
// several servers can share a file and readers see whole lines. The file is opened
// for each record: it can be moved or deleted at any time.
//
// # What is promised
//
//   - A record is written when its operation has ended. If a server crashes
//     between a change and its record, the change is in the history of the rule
//     set, with its author, but not in the audit.
//   - No record is lost silently. A record that cannot be written to the file is in
//     the server's log, followed by the error. [Log.Broken] then returns why, and
//     the admin API rejects new changes. The next record that can be written
//     ends this state.
//   - A write is passed to the operating system without waiting for the disk:
//     after a power failure the last records may be missing, and the last line may
//     be incomplete.
//   - If a disk hangs, operations that write a record hang too, but neither
//     reads nor decisions do.
//   - Unauthenticated callers cannot flood it. A hundred attempts in a minute are
//     recorded. The next record after the minute, of any caller, is preceded by one
//     with the number of further attempts.
//   - The texts of a record and its changes are bounded.
//   - Texts of callers stay inside their field: characters that are not graphic,
//     other than tabs and line ends, are replaced, and JSON escapes the latter.
//
// A record has no field for secrets: callers must not put them into texts.
package audit
