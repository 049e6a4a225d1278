// Package audit keeps the record of what was done to rules and buckets through
// the admin API, and of what was refused: who, what, from where, and what came
// of it.
//
// A [Log] writes each [Record] to the server's log and, if one is configured,
// to a file of its own: one JSON object in each line, each in one write, so that
// several servers can share a file and a reader never sees a half line in the
// middle. The last records are kept in memory for those who ask.
//
// # What is promised
//
//   - Nothing is lost silently. While the file cannot be written [Log.Broken]
//     says so, and who can change things is expected to refuse. What could not
//     be written is in the log, and the file says how much that was as soon as
//     it can be written again.
//   - Everything is bounded: the texts of a record, the changes it lists, and
//     how much is kept.
//   - What strangers have sent stays inside its field: JSON leaves no control
//     character as it was.
//
// Secrets are for callers to leave out: a record has no place for one.
package audit
