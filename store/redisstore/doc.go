// Package redisstore keeps buckets in Redis, where any number of gateways
// share them: on one server, behind Sentinel, or in a Redis Cluster.
//
// Decisions run on the server, in one Lua script that has the arithmetic of
// this project line by line and the server's clock. Callers that arrive
// together share one call; a caller that is alone is sent at once. A call that
// was sent and not answered is never sent again, since it may have taken
// tokens; everything that a server refuses to run (a missing script, a moved
// slot, a replica that was a master) is sent where it belongs within the
// store's timeout.
//
// What all gateways must agree on stands in one record under the prefix. A
// gateway that disagrees does not start.
//
// docs/redis.md has the key format, memory, the smallest ACL and what
// persistence and failover cost in exactness.
package redisstore
