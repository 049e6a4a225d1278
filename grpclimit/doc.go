// Package grpclimit has interceptors for gRPC servers that limit calls. Package
// httplimit does the same for HTTP.
//
// # Usage
//
//	limit := fluxgate.Must(grpclimit.New(engine))
//	server := grpc.NewServer(grpc.ChainUnaryInterceptor(limit.Unary), grpc.ChainStreamInterceptor(limit.Stream))
//
// Interceptors can be chained, each with its own [WithRuleSet], [WithMethods] and
// [WithCost].
//
// # Requests
//
// Rules see a call as a POST whose path is the full method, such as
// /shop.Orders/Place, whose host is the authority and whose headers are the incoming
// metadata. The client's address is that of the peer, unless [WithClientIP] names the
// proxies in front of the server. [WithUserFunc], [WithAPIKeyFunc], [WithAttribute]
// and [WithAmend] add values of the service.
//
// A stream is decided once, when it begins.
//
// # Header metadata
//
// If a limit was evaluated, the header metadata of the call, allowed or rejected, has
// x-ratelimit-limit, x-ratelimit-remaining, x-ratelimit-reset, ratelimit-policy and
// ratelimit, as the documentation of package httplimit describes them. Metadata can
// only be added: behind several interceptors each name has a value of each, the
// outermost first.
//
// # Statuses
//
// A rejected call ends with
//
//	reason             code
//	limited            RESOURCE_EXHAUSTED, with RetryInfo and QuotaFailure
//	cost-too-high      RESOURCE_EXHAUSTED, with QuotaFailure: it never fits
//	denied             PERMISSION_DENIED
//	bad-path           INVALID_ARGUMENT
//	too-many-rules     PERMISSION_DENIED
//	missing-identity   PERMISSION_DENIED
//	no-rule            PERMISSION_DENIED, if the engine rejects requests without a rule
//	no-rule-set        UNAVAILABLE, likewise
//	store-failure      UNAVAILABLE, of a rule that fails closed
//
// The reason is in an ErrorInfo, as LIMITED or COST_TOO_HIGH. The violations of a
// QuotaFailure are the limits that reject the call, named as in ratelimit-policy.
//
// Without a decision the code is INTERNAL if a function of an option failed,
// DEADLINE_EXCEEDED if the deadline of the call has passed, and CANCELLED if the
// client has disconnected. The error goes to the [Observer] or gRPC's log, never into
// the status. [WithRejection] replaces all of these statuses.
//
// # Handlers
//
// A handler runs at most once. A panic in a function of an option is an INTERNAL of
// that call; a panic of the handler is not recovered. Without [WithSettling] a
// handler gets the server's own stream.
//
// # Waiting
//
// A rule with the policy WAIT_FOR_REFILL holds a call until its tokens are available,
// if the engine has fluxgate.WithWaiting. If the client cancels the call, the wait
// ends and unused tokens are given back where possible.
//
// # Settling
//
// The cost of a call is often known at its end. With [WithSettling] a handler passes
// it to [Settle], or to [SettleUsage] where rules count something other than
// requests, and the difference is given back or charged.
package grpclimit
