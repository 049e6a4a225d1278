// Package linearizability checks that concurrent gateways see one bucket: histories of
// random operations (take, peek, settle, extend, reset) of 8 gateways on one real Redis, and
// on a cluster, are compared with a sequential model by porcupine. A history is accepted if
// its operations can be put in an order that respects time, and in which the model gives
// every answer that was given.
//
// The model is a bucket set in plain integers, written from the documentation and without
// internal/bucket. Its time is the answers' own: each has the store's clock, which must lie
// between call and return, because all servers run on this machine, and must not decrease
// in the order that is found. Answers to settlements have no time; the model then follows all
// that are possible: see [used].
//
//	go test ./linearizability -histories 1000
package linearizability
