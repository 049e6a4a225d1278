// Package failover decides in this process what a shared store cannot decide while it is away, and
// charges the store afterwards. It wraps any [store.Store], above package store/lease.
package failover
