// Package chaos is the fault suite: it sends load through the whole path of a
// request, injects one fault, heals it, and reports what callers saw.
//
//	make chaos                 every fault, with a table of the results
//	make soak                  ten minutes of random faults, and abuse in full size
//	go test ./internal/chaos   a few faults, correctness only
//
// A [Fault] sets up real servers and a [Path] to them: the middleware of this
// process over Redis, a fluxgate server behind a proxy, or package client. [Run]
// keeps a ledger of every request: when it was sent, how long its answer took,
// and whether it was admitted. A [Row] is computed from the ledger.
//
// # The bound
//
// Most users share buckets of [Capacity] tokens that refill at [Rate] tokens a
// second. Without a fault a bucket admits at most Capacity + Rate·T tokens in a
// time T (I1 in docs/architecture.md). Each loss of state allows Capacity more.
// [Fault.Losses] says how many a fault causes, and why. Others have a quota, a sliding
// window, a slot, or all of them, in one rule and in a rule each: every user is held to
// the bounds of its bands, and a slot to one request at the same time.
package chaos
