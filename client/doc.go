// Package client decides requests at a FluxGate server over HTTP. It has the
// interface of a [fluxgate.Engine], so code for one works with the other.
//
//	limiter, err := client.New("https://fluxgate.internal:8080", client.Config{Token: token})
//	...
//	limit, err := httplimit.New(limiter)
//
// # Time
//
// A decision takes at most Config.Timeout, plus Config.MaxWait if rules hold
// requests (WAIT_FOR_REFILL). The server gets that time with each request and
// rejects a request that it would have to hold longer, with its Retry-After. If
// the context of a call ends, its request ends on the server too.
//
// # A check is sent at most once
//
// A check that was sent and not answered may have taken its tokens, so it is
// never sent again: it is a failure, and Config.OnFailure decides. A check is
// sent again only if no byte of it was sent, because the server had closed the
// idle connection. The client counts the bytes of its connections, checks that
// an idle connection is open before it uses it, and closes idle connections
// (Config.IdleTimeout) before the server does. A server may still close an idle
// connection while a request is on its way: that is a failure. A server that
// drains asks for the connection to be closed in its answers first.
//
// A check that has timed out ends on the server too: its connection is closed, and an
// answer that comes late is never that of another call. What the server had decided before
// stays counted, at its estimate, and a slot is free after the hold time of its rule.
//
// A server that is busy (503 with a problem document and Retry-After) has taken nothing.
// The client asks it again after 20ms, then after twice as long, with jitter, as long as
// Config.Timeout and Config.MaxWait allow. Then it is a failure.
//
// # Failures
//
// Config.OnFailure decides a request that the server does not decide: it cannot be
// reached, does not answer in time, rejects the credentials, or answers with
// something that is not a decision. The decision is that of an engine whose store
// is unavailable: it is Degraded, with [fluxgate.ReasonStoreFailure] or from the
// fallback. Config.Failed is called for each failure.
//
// An invalid request is never allowed by OnFailure: if the server cannot decide
// it (400, 413, 422, 500), Check returns an error that wraps [ErrUndecided]. If the rule
// set does not exist, the error also wraps [fluxgate.ErrNoRuleSet].
//
// # Data sent
//
// All fields of a request are sent, so use https:// between machines. Headers
// with credentials (Cookie, Authorization, Proxy-Authorization) are sent only if
// Config.Headers names them. The default rule set and the grouping of IPv6
// addresses are settings of the server.
package client
