// Package redisrules keeps rule sets in Redis: on one server, with Sentinel, or in
// a Redis Cluster. It uses only commands of Redis 6.2.
//
// A change is one Lua script and is atomic. Each change has a token, so that a
// client can send an unanswered change again: it is made once and does not conflict
// with itself. Times are those of the server. Reading revisions is one HMGET with a
// few bytes for each rule set. The overrides of rule sets are kept in the same way.
//
// # Keys in Redis
//
// All keys begin with the prefix and one hash tag, fluxgate:{rules}: by default,
// and so are in one slot of a cluster. Nothing expires. A redisstore may use the
// same prefix: the keys never overlap, and a reset of buckets affects no rules.
//
//	key               type    field or member  value
//	heads             hash    rule set         current revision: 7, or 8 deleted
//	                          :rule set        its commit: 7 GZ4MWTTKUB
//	names             zset    rule set         rule sets that exist, all with score 0
//	current           hash    rule set         its newest line of history
//	bytes             hash    rule set         total length of its documents
//	history:RULESET   hash    revision         a line of history, see below
//	documents:RULESET hash    revision         the rule set as JSON
//	changes:RULESET   hash    token            the revision of the change
//
// The commit is the beginning of the token of the change. It counts for its revision only: older
// versions do not write it.
//
// Overrides have keys of their own:
//
//	key                      type  field or member  value or score
//	override-revisions       hash  rule set         revision of its last change
//	override-forgotten       hash  rule set         revision of the last forgotten deletion
//	overrides:RULESET        hash  override         its entry, see below
//	override-changes:RULESET zset  override         revision of its last change
//	override-deleted:RULESET zset  override         the same, of deleted ones only
//	override-list:RULESET    zset  end and override 0
//	override-tokens:RULESET  zset  token            the revision after the change
//
// [Overrides] without rules have three more:
//
//	key                type  field               value
//	override-record    hash  id, epoch           which data it is: see rules.SharedOverrides
//	override-restored  hash  rule set            highest revision of a copy that was restored
//	override-waiting   hash  rule set/rule       since when the rule, or the rule set, is missing
//
// They also read the salt in the fleet state of redisstore, to recognise the copy of another fleet.
//
// A line of history is three or more lines of text:
//
//	7 put 1767225600000000 GZ4MWTTKUBFGQ2CGE7Z6RIIYUC
//	alice
//	twice as much for premium
//
// revision, put or deleted, microseconds since 1970 and the token of the
// change; then the author; the rest is the comment. Damaged data is an error that
// names the rule set and the revision.
//
// The entry of an override is two lines: its revision, its end in microseconds since 1970
// with 16 hexadecimal digits (7fffffffffffffff for none) or deleted, and when it was
// written; then the override as JSON. An override that is damaged is reported beside the
// others, and a change of it without a base revision repairs it.
//
// A deleted override stays, so that readers of changes learn of it. The oldest deleted ones
// are forgotten when there are more of them than overrides and 1,000; a reader that is
// so far behind reads all of them. All overrides of a rule set are deleted and forgotten in the
// script that deletes it.
//
// # Memory
//
// A revision takes the length of its JSON and its comment, and about 250 bytes.
// [Config.History] bounds the number of revisions and [Config.HistoryBytes] the
// length of their documents, 32 MiB for each rule set by default. The last two
// revisions are always kept, which is 24 MiB for the longest rule sets. A
// maxmemory-policy that evicts keys without expiry (allkeys-…) can delete rules:
// use noeviction or one of volatile-….
//
// An override takes about 700 bytes, and a deleted one as much.
//
// # Data loss
//
// If Redis has lost its data, processes keep the rules they have: a missing rule set
// is not a deletion. Redis answers before a change is on replicas and disk. So after
// a failover, or a restart without appendfsync always, check whether the last change
// exists. If it does not, the next change gets the same revision and another commit, which
// processes that had loaded the lost change load. Revisions of overrides begin with the time,
// in tens of microseconds, so that those of lost data are not used again. If only the last changes
// of overrides were lost, a process that had loaded them reads all overrides when it sees a lower
// revision, and otherwise keeps the lost changes until these overrides change again.
// min-replicas-to-write 1 makes that window small.
//
// A client that reads from replicas (ReadOnly of a cluster's options) may see
// revisions late. Everything but revisions is always read from masters. While the
// slot of the rules moves to another server of a cluster, operations on keys that
// have not moved yet and changes that create a key fail with TRYAGAIN.
//
// # Minimal ACL
//
// docs/redis.md has it, tested as written there, on one server and in a cluster. Every
// command is needed, except that without COMMAND a cluster client only repeats it before
// every call and logs the error. A user who only reads rules does not need hset, hdel,
// zadd, zrem, hlen, zcard, zscore, time and unlink, which only the deletion of a rule set with overrides
// needs.
//
// KEYS, SCAN and FLUSH commands are never sent. The client also sends commands for
// its options, such as SELECT for a database, and CLIENT SETINFO unless
// DisableIdentity is set; it ignores that CLIENT SETINFO is not permitted.
package redisrules
