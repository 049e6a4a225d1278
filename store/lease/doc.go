// Package lease answers requests from memory, so that busy buckets and blocked callers
// cost the shared store little. It wraps any [store.Store].
//
// # Refusals
//
// A bucket that has refused a request is not asked again while the same request, or a
// more costly one, cannot fit, its own longest wait included, and for at most
// [MaxAge]. The time runs from before the call to the store was sent: no clock is
// compared with that of the store, and the next call is never late. Tokens that are
// given back elsewhere, or by a settlement while the call is under way, are seen after
// at most MaxAge. What this process settles or resets otherwise, and a change of the
// rule, is seen at once.
//
// Such an answer has the source [store.FromNegativeCache]. Its numbers are lower
// bounds, as far as this process knows: other gateways may take tokens meanwhile, and
// the wait is that of the least cost that was refused.
// Other demands of the request have the status [store.NotAsked].
//
// # Leases
//
// A gateway takes a slice of a hot bucket ahead, and spends it in memory. The store is
// debited when it grants the slice, so it never hands out too much. A bucket is hot
// with 10 requests in a tenth of a second, and stays so with 7. A slice is what three
// quarters of that time need, at most a quarter of the gateway's share of the capacity,
// and at least 10 tokens: smaller limits are not leased. Nor are those that regain less
// than 10 tokens in a [Pause], which is 200 a second: what is lost of a slice would be
// missed. The next slice is asked for when a quarter of the last is left. A slice is asked
// for once: if the answer is lost, it is lost too.
//
// Slices are for many requests of low cost. The store decides a cost above a quarter of the
// largest slice, and no slice is asked for that is not enough for four requests like the
// one that asks. A request makes the next slice larger, by a quarter at most, if it is
// not refused or costs no more than 2, which is spent from any slice. One that another
// demand refuses does not, and takes none.
//
// A bucket that has less than was asked for gives what it has, and is not asked again
// for [Pause]: requests for which no slice has enough are refused from memory meanwhile.
//
// A bucket that is not leased may have tokens that other gateways take before this one
// asks. Then this one pauses too before it asks again, for at most half of the time in
// which the bucket is full again. After that one request asks, and the others are
// refused until it has the answer, for another pause at most. If it gets none, the next
// request asks. If none has asked until then, all do. So a bucket from which many gateways
// are refused costs the store about 20 calls a second for each of them. A gateway that is
// alone does not pause.
//
// Slices are spent within [Time] of the call that took them; what is left then is lost,
// like the slices of a gateway that dies. In any interval T a band thus admits at most
//
//	capacity + rate · (T + Time)
//
// and a request may be refused although the store has tokens for it, for at most
// [MaxPause] after the bucket had too few and while a request asks it, or because other
// gateways hold them: at most a third of the capacity, for at most Time.
//
// Such an answer has the source [store.FromLease]. Its receipt has the moment at
// which the slice was taken, so that what is settled follows the rule of the store.
//
// A request stays all or nothing: if one of its demands is refused, what was spent for
// it in memory returns to its slices.
//
// # What the store always decides
//
// Demands of rules with consistency strict, overdrafts, those that count refused hits, peeks, and requests at the same
// time. A shadow demand never refuses. Leases are for token buckets and for demands
// that do not wait.
package lease
