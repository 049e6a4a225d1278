// Package lease answers requests from memory, so that busy buckets and rejected callers
// cost the shared store little. It wraps any [store.Store].
//
// # Rejections
//
// After a bucket has rejected a request, requests of the same or a higher cost are
// rejected from memory while they cannot fit, even with their longest wait, and for at
// most [MaxAge]. The time runs from before the call to the store was sent: no clock is
// compared with that of the store, and the next call is never late. Tokens that another
// process gives back, or a settlement during the call, are seen after at most MaxAge.
// Other settlements and resets of this process, and a change of the rule, are seen at
// once.
//
// Such an answer has the source [store.FromNegativeCache]. Its numbers are lower
// bounds, as far as this process knows: other processes may take tokens meanwhile, and
// the wait is that of the least cost that was rejected. Other demands of the request
// have the status [store.NotAsked].
//
// # Leases
//
// A process takes a slice of a hot bucket in advance, and spends it in memory. The store
// is debited when it grants the slice, so it never grants too much. A bucket becomes hot
// with 10 requests in a tenth of a second, and stays hot with 7. A slice is enough for
// three quarters of that time, at most a quarter of the process's share of the capacity,
// and at least 10 tokens. Smaller limits are not leased, nor are limits that refill less
// than 10 tokens in a [Pause], which is 200 a second: they would miss the lost tokens of
// a slice. The next slice is requested when a quarter of the last is left. A slice is
// requested once: if the answer is lost, the slice is lost.
//
// While the shortest round trip to the store is above [MaxRoundTrip], no slices are taken, and the
// store decides every request that is not rejected from memory.
//
// Slices are for many requests of low cost. The store decides costs above a quarter of the
// largest slice. A slice must be enough for four requests like the one that requests it. A
// request makes the next slice larger, by a quarter at most, if it is admitted or costs no
// more than 2, which any slice can pay. A request that another demand rejects does not, and
// takes no slice.
//
// A bucket with fewer tokens than requested grants what it has, and is not asked again for
// [Pause]. Meanwhile requests for which no slice has enough are rejected from memory.
//
// Other processes may take the tokens of a bucket that is not leased before this process
// asks. Then this process pauses too, for at most half of the time in which the bucket is
// full again. After the pause one request asks the store, and others are rejected until it
// has the answer, for another pause at most. If it gets no answer, the next request asks.
// If no request has asked until then, all requests ask. So a bucket that rejects many
// processes costs the store about 20 calls a second for each of them. A process that is
// alone does not pause.
//
// Slices are spent within [Time] of the call that took them. Tokens left then are lost,
// like the slices of a process that dies. In any interval T a band thus admits at most
//
//	capacity + rate · (T + Time)
//
// A request may be rejected although the store has tokens for it: for at most [MaxPause]
// after the bucket had too few and while a request asks it, or because other processes
// hold them, at most a third of the capacity, for at most Time.
//
// Such an answer has the source [store.FromLease]. Its receipt has the time at which the
// slice was taken, so that it is settled as the store would.
//
// A request stays all or nothing: if one of its demands is rejected, tokens that were spent
// for it in memory return to their slices.
//
// # What the store always decides
//
// The store decides demands of rules with consistency strict, overdrafts, demands that count
// rejected hits, peeks, and limits on concurrent requests. A shadow demand never rejects.
// Leases are for token buckets and for demands that do not wait.
package lease
