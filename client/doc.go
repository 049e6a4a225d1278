// Package client asks a FluxGate server over HTTP: it has the interface of a
// [fluxgate.Engine], so that what is written for one works with the other.
//
//	limiter, err := client.New("https://fluxgate.internal:8080", client.Config{Token: token})
//	...
//	limit, err := httplimit.New(limiter)
//
// # Time
//
// A decision takes at most Config.Timeout, plus Config.MaxWait where rules hold
// requests (WAIT_FOR_REFILL). Each request carries that time:
// one that would have to be held longer is rejected at once, with its
// Retry-After, instead of ending as a failure. A caller that leaves ends its request on the server too, which gives
// back what can be given back.
//
// # A check is sent at most once
//
// A check that was sent and not answered may have taken its tokens, so it is
// never sent again: it is a failure, and Config.OnFailure decides. What may be
// sent again is a check of which not one byte has left this process, because
// the server had closed the idle connection that it was meant for. The client
// counts the bytes of its connections to know that, looks whether a connection
// is still open before it uses it again, and gives connections up
// (Config.IdleTimeout) before a server does. What remains is a server that
// closes an idle connection in the very moment in which a request is on its
// way there; a server that drains says so in its answers first.
//
// # When the server is away
//
// Config.OnFailure is what happens to a request that the server does not
// decide: because it cannot be reached, does not answer in time, answers with
// something that is not a decision, or does not let us in. The decision is then
// as the engine's when its store is away: [fluxgate.ReasonStoreFailure] and
// Degraded where it is let pass or refused, and the fallback's decision, also
// Degraded, where there is one. Config.Failed hears of each.
//
// What is wrong with one request alone is never let pass: if the server says
// that it cannot decide this request (400, 413, 422, 500), Check returns an
// error that wraps [ErrUndecided], as the engine returns one.
//
// # What travels
//
// All that is known about a request, so use https:// between machines. Of its
// headers those with credentials (Cookie, Authorization, Proxy-Authorization)
// stay here, unless Config.Headers names them. The rules' default rule set and
// the way IPv6 addresses are grouped are the server's.
package client
