// Package redisstore keeps buckets in Redis, where any number of processes
// share them: on one server, behind Sentinel, or in a Redis Cluster.
//
// Decisions run on the server, in one Lua script with the arithmetic of
// internal/bucket and the server's clock. Concurrent callers share one call. A
// single caller is sent at once. A call that was sent and not answered is never sent
// again, since it may have taken tokens. A call that a server rejects (a missing
// script, a moved slot, a replica that was a master) is sent to the right server
// within the store's timeout.
//
// Settings that all processes must share are stored in one hash, the fleet state. A
// process with other settings does not start. Each process sends a heartbeat, which
// counts the processes: see [Store.Gateways].
//
// Every decision is a call. Package store/lease wraps the store and answers busy and
// rejected callers from memory.
//
// docs/redis.md has the key format, memory, the smallest ACL and what
// persistence and failover cost in exactness.
package redisstore
