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
// the context of a call ends, its request ends on the server too, unless others
// share it.
//
// # Shared requests
//
// Callers that arrive together share a request (/v1/check:batch). A caller with no
// others sends a single check at once. While two requests are under way, further
// checks are queued, and the next request takes them all, up to Config.MaxBatch and
// 16 KiB. A request counts as under way for at most 10ms, so callers do not wait for
// a server that is far away, or for a check that a rule holds.
//
// Each caller has its own answer, error and deadline, in the queue too. The server
// answers each check as soon as it is decided. A caller that leaves does not disturb
// the others: what its check took is given back when the answer arrives, and a
// request that all callers have left ends. A proxy that passes answers on only when
// they are complete makes callers wait for the slowest check: set MaxBatch to 1.
//
// A server that rejects a batch (server.max-batch is lower) has decided nothing: its
// checks are then sent alone, and batches are smaller for a minute.
//
// All requests of a client have the same headers and credentials. A shared request
// does not have the context of a caller: hooks of net/http/httptrace in it see
// single checks only. Settle and Extend are not shared.
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
// stays counted, at its estimate, and a slot is free after the hold time of its rule. Of a
// shared request the late answer is read, and what the check took is given back.
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
