// Package mongorules keeps rule sets in MongoDB, in documents that can be edited
// with any MongoDB tool, with revisions, history and compare-and-set.
//
// # Collections
//
// Three collections, all read from the primary and written with majority:
//
//   - rate_limit_rules_heads has one small document per rule set: its current
//     revision. A poll reads four of its fields.
//   - rate_limit_rules_history has the revisions: the rule set as JSON, author,
//     time and comment. [Config.History] and [Config.HistoryBytes] bound how
//     many are kept.
//   - rate_limit_rules has one document per rule. Its field id, or its _id if
//     there is none, is the rule id. FluxGate inserts documents under the rule
//     id, or under ruleSetId/ruleId if another document has that _id.
//
// Overrides are in rate_limit_rules_overrides: one document per override or deletion, with its
// revision, and one per rule set with the last revision. They are not edited with other
// programs.
//
// # A change
//
// A change replaces the head if it is still at the revision that the change is
// based on. This is one atomic write: a reader sees all of a change or nothing,
// without transactions and change streams. The head has the rule set until history
// and documents are written. If a writer is interrupted before that, the next
// writer or [Source.Reconcile] completes the write.
//
// # Edits of documents
//
// Every server calls [Source.Reconcile] every half polling interval. The one that
// holds a lease in the head compares the documents with the head. If they differ,
// the edited rule set is validated as a whole and becomes a revision by the author
// "external", and the documents are rewritten. Every rewrite is conditional on the
// document as it was read, so a later edit is not overwritten but imported next.
//
// A rule is removed if its document is missing in two reads, one after the other: an
// editor may replace a document by deleting and inserting it. A read of MongoDB is not
// a snapshot, and misses a document whose entry of the index moves meanwhile. So
// documents are read along the index of ruleSetId and _id, whose entries do not move,
// or along that of _id while there is no such index, which reads all rule sets.
//
// Documents that a tool puts back from a backup, or moves here from another rule set, are
// edits like others. What is written over instead is named in the log and, until the next
// call, in the error of Reconcile of every server: all documents of a rule set missing, and
// documents of removed rules inserted again as FluxGate wrote them. These cannot be
// distinguished from those of a late writer.
//
// An invalid edit changes nothing. It stays, and Reconcile of every server returns
// an error that names the document until it is corrected or a Put replaces it. Two
// documents of one rule are invalid too. A Put imports pending edits first and then
// fails with a conflict.
//
// A server whose MongoDB user has the role read applies rules but imports no edits.
// If no other server holds the lease, its Reconcile returns an error while there is
// an edit.
//
// If all documents of a rule set are missing they are written again; use Delete to
// delete a rule set. A document of a rule without bands that was never part of a
// revision is ignored, with a warning in the log, until it has bands or a Put has
// its rule. Deleting the bands of a rule in effect is an invalid edit.
//
// Documents have the rules of a rule set, not its cost tables. Those are part of the
// revision: a Put sets them, an edit of documents keeps them. Documents that exist
// before the first revision have no cost tables.
//
// If the history loses the current revision, the server that holds the lease writes it
// again as it was. A server that has not verified it before imports the documents as a
// revision, without cost tables.
//
// API keys in plain text are replaced by their digests. Unknown fields are kept.
// Documents that exist before the first revision become revision 1.
//
// # A change of overrides
//
// A change is one atomic write of the rule set's document, which has the change until its
// overrides are written. Deletions of the last minute, and at least as many as there are
// overrides and 1,000 more, are kept.
//
// The overrides of a rule set are deleted after its head says that it is deleted, and again
// by Reconcile or before it is put again: a writer may have been interrupted, or late, or of
// an older version. Empty entries stay for a minute: a late writer cannot insert them again.
//
// # Limits of documents
//
// The history keeps a rule set byte for byte. Documents have the precision of BSON:
// times in milliseconds, and as strings numbers that neither int64 nor double can
// represent. Names that are empty, have a dot or a percent sign, or begin with a
// dollar sign are percent-encoded (a%2Eb). An edit of one field keeps the others
// exactly.
package mongorules
