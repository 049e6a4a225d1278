// Package audit records changes of rules and buckets through the admin API, and
// refused attempts: who, what, from where, and with which result.
//
// A [Log] writes each [Record] to the server's log, whatever its level, and to a
// file if one is configured: one JSON object a line, each in one write, so that
// several servers can share a file and readers see whole lines. A file that was
// moved or deleted is created again. The last records are kept in memory.
//
// # What is promised
//
//   - A record is written when its operation has ended. If a server crashes
//     between a change and its record, the change is in the history of the rule
//     set, with its author, but not in the audit.
//   - No record is lost silently. While the file cannot be written, or a write
//     takes longer than five seconds, [Log.Broken] returns why, and the admin API
//     refuses changes; those already under way are the last ones. Records that
//     are not in the file are in the server's log, and the file gets a record of
//     how many are missing. Only a successful write ends this state.
//   - A write is passed to the operating system without waiting for the disk:
//     after a power failure the last records may be missing.
//   - A disk that hangs blocks the operation that writes to it, and others for at
//     most five seconds.
//   - Unauthenticated callers cannot flood it. The first ten attempts from an
//     address within a minute are recorded, and one record has the number of
//     further ones: it is written with the next record after the minute, or when
//     the log is reloaded or closed. Beyond a hundred addresses in a minute the
//     others are counted as one. In memory, changes are kept apart from all other
//     records.
//   - Everything is bounded: the texts of a record, its changes, and the records
//     in memory.
//   - Texts of callers stay inside their field: characters that are not graphic,
//     other than tabs and line ends, are replaced, and JSON escapes the latter.
//
// A record has no field for secrets: callers must not put them into texts.
package audit
