// Package mongorules keeps rule sets in MongoDB, in the documents that people
// know and may edit with a shell, with revisions, history and compare-and-set.
//
// # What is where
//
// Four collections, all read from the primary and written with majority:
//
//   - rate_limit_rules_heads has one small document per rule set: its revision
//     and which snapshot that is. To poll is to read it.
//   - rate_limit_rules_history has an immutable snapshot per revision: the rule
//     set as JSON, with who made it, when and why. [Config.History] and
//     [Config.HistoryBytes] bound how many are kept.
//   - rate_limit_rules has one document per rule, for people and other
//     programs. It is made from the snapshot, never the other way round,
//     unless somebody edits it. A document says the revision it was last
//     written for, so that most of them are left alone by a change.
//   - rate_limit_rules_ids says which rule set a rule id belongs to.
//
// # A change
//
// A change inserts its snapshot and then compares and sets the head: that is
// the moment it is made, and there is no other. Readers follow the head to the
// snapshot, so they see all of a change or nothing. No transactions and no
// change streams are needed: a single server will do.
//
// The documents follow afterwards. A writer that dies on the way has made the
// change or has not; what it left is finished by the next writer, or by the
// next gateway that calls [Source.Mend].
//
// # Edits with a shell
//
// Every document carries a checksum of its content as we wrote it, so that one
// that somebody else has changed, added or removed is noticed: at once by the
// next writer, and every [Config.CheckEvery] by one gateway of the fleet. Taken
// together with the rest the edit is checked like any other change and becomes
// a revision by the author "external". One that breaks the rules of the
// language changes nothing: it is reported by Mend until it is mended, and the
// next Put overrules it. If all documents of a rule set are gone they are
// written again, since a lost collection is no decision; use Delete.
//
// A document of a rule without bands that was never part of a revision is left
// alone, with a warning in the log, until it has bands or a Put has its rule.
// Deleting the bands of a rule in force is an edit that breaks the rules.
//
// API keys in the clear are replaced by their digests when they are taken in.
// Fields that FluxGate does not know are kept. Documents that were there before
// FluxGate looked become revision 1.
//
// # What a document cannot show
//
// The snapshots keep a rule set to the byte. The documents show what BSON can
// hold: times to the millisecond, numbers that neither an int64 nor a double is
// as texts, and names that are empty, have a dot or begin with a dollar sign
// with percent signs (a%2Eb). An edit of one field keeps the others in full.
package mongorules
