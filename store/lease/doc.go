// Package lease answers requests from memory where the answer of the shared store is
// known, so that callers who are blocked cost it nothing.
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
// Such an answer has the source [fluxgate.FromNegativeCache]. Its numbers are lower
// bounds, as far as this process knows: other gateways may take tokens meanwhile, and
// the wait is that of the least cost that was refused.
// Other demands of the request have the status [fluxgate.NotAsked].
//
// Demands that are strict, overdrafts, peeks, and bands of requests at the same time
// are always decided by the store. A shadow demand never refuses.
package lease
