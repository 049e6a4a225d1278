// Package redisrules keeps rule sets in Redis, for those who have Redis anyway
// and want nothing else: on one server, behind Sentinel, or in a Redis Cluster.
// Only commands of Redis 6.2 are used.
//
// A change is one Lua script and happens whole or not at all. A change that
// was sent and not answered may be sent again by the client: each has a token
// of its own, so that it is made once and is not a conflict with itself. Times are the server's, whatever the authors' clocks say.
// Asking for revisions is one HMGET of a few bytes for each rule set.
//
// # Keys in Redis
//
// Everything begins with the prefix and one hash tag, fluxgate:{rules}: unless
// [Config] says otherwise, and so is in one slot of a cluster. Nothing
// expires. The prefix may be that of a redisstore: neither has names that the
// other could have, and a reset of buckets touches no rules.
//
//	key               type    field or member  value
//	heads             hash    rule set         7, or 8 deleted: its current revision
//	names             zset    rule set         those that exist, all with score 0
//	current           hash    rule set         its newest line of history
//	bytes             hash    rule set         how long its documents are together
//	history:RULESET   hash    revision         a line of history, see below
//	documents:RULESET hash    revision         the rule set as JSON
//	changes:RULESET   hash    token            the revision that it made
//
// A line of history is three or more lines of text:
//
//	7 put 1767225600000000 GZ4MWTTKUBFGQ2CGE7Z6RIIYUC
//	alice
//	twice as much for premium
//
// revision, put or deleted, microseconds since 1970 and the token of the
// change; then the author, and all the rest is the comment. What has been
// changed by other hands and cannot be read is an error that names the rule
// set and the revision.
//
// # Memory
//
// A rule set takes the length of its JSON for each revision that is kept, and
// some 250 bytes and the comment besides. [Config.History] bounds the number of
// revisions and [Config.HistoryBytes] the length of their documents, 32 MiB for
// each rule set by default. The last two revisions are kept whatever their
// size, so a rule set takes 24 MiB at least if it is as long as one may be. Under a
// maxmemory-policy that evicts keys without expiry (allkeys-…) rules can
// vanish: use noeviction or one of volatile-….
//
// # What a loss costs
//
// A server that has lost its data knows no rule set, which gateways do not take
// for a deletion: they keep what they have. Redis answers before its replicas
// have a change and its disk has it. So after a failover, or a restart without
// appendfsync always, check whether the last change is there; if it is not, the
// next change gets the same revision, and gateways that had already loaded the
// lost one see no difference until the change after that.
// min-replicas-to-write 1 makes that window small.
//
// A client that reads from replicas (ReadOnly of a cluster's options) may see
// revisions late. Everything but Revisions is read from masters whatever the
// options are. While the slot of the rules moves to another server of a cluster,
// what concerns keys that have not moved yet fails with TRYAGAIN, and so does a
// change that makes a new key.
//
// # The smallest ACL
//
// Tested as it is written here, on one server and in a cluster; without any one of
// the commands something fails, but for COMMAND: a cluster's client that is
// denied it asks again before every call, and logs that. With another prefix
// change the key pattern; outside of a cluster leave out the last three. A user
// who may only read rules needs neither hset, hdel, zadd, zrem, hlen, zcard nor
// time.
//
//	user rules on >change-me ~fluxgate:{rules}:* resetchannels -@all +evalsha +eval +time +hget +hmget +hset +hdel +hlen +hstrlen +zadd +zrem +zcard +zrange +cluster|slots +asking +command
//
// KEYS, SCAN and every kind of flush are never sent. The client sends what its
// options say besides, such as SELECT for a database, and CLIENT SETINFO unless
// DisableIdentity is set; it goes on where that is denied.
package redisrules
