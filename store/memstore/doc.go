// Package memstore keeps buckets in this process: for tests, for services of
// one machine, and as the fallback while a shared store is away.
//
// It is exact, like every [fluxgate.Store]. It is bounded: a bucket is dropped
// when it is full again, since a full bucket and a forgotten one are the same,
// and when there are too many, the one nearest to full makes room for the
// newcomer. A flood of made-up callers therefore evicts itself, and the
// callers that have used up their tokens stay remembered.
//
// An eviction hands the evicted caller a full bucket, which is a loss of state
// in the sense of the exactness guarantee; [Store.Stats] counts them.
package memstore
