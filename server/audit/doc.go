// Package audit keeps the record of what was done to rules and buckets through
// the admin API, and of what was refused: who, what, from where, and what came
// of it.
//
// A [Log] writes each [Record] to the server's log, whatever the level of that
// is, and, if one is configured, to a file of its own: one JSON object in each
// line, each in one write, so that several servers can share a file and a reader
// never sees a half line in the middle. A file that was moved away or deleted is
// made anew. The last records are kept in memory for those who ask.
//
// # What is promised
//
//   - A record is written when its operation has ended. Between a change and
//     its record there is a moment: a server that crashes in it leaves the change
//     in the history of the rule set, with its author, and nowhere here.
//   - Nothing is lost silently. While the file cannot be written, or a write
//     takes longer than five seconds, [Log.Broken] says so, and who can change
//     things is expected to refuse: the changes that are under way at that
//     moment are the last ones. What could not be written is in the server's
//     log, and the file says how much that was as soon as it can be written
//     again. Nothing but a write that works mends it.
//   - A write is handed to the operating system, and not waited for until it is
//     on the disk: what a machine had not saved when its power went is gone.
//   - A disk that hangs holds up the one that is writing to it, and nobody else
//     for longer than those five seconds.
//   - Strangers cannot flood it. Of the attempts that come from one address
//     within a minute the first ten are on record, and one record says how many
//     more there were: with the next record that comes after the minute, or when
//     the log is reloaded or closed. Beyond a hundred addresses in a minute the
//     others are counted as one. In memory, changes have a place of their own,
//     which nothing else takes.
//   - Everything is bounded: the texts of a record, the changes it lists, both as
//     JSON has them, and how much is kept.
//   - What strangers have sent stays inside its field: what is not a graphic
//     character, a tab or the end of a line is replaced, and JSON escapes the
//     latter two.
//
// Secrets are for callers to leave out: a record has no place for one.
package audit
