// Package httplimit is HTTP middleware that limits requests.
//
// # Usage
//
//	set := fluxgate.Must(rules.NewSet("api", rules.Rule{ID: "per-ip", Scope: rules.ScopeIP, Bands: []rules.Band{rules.PerMinute(100)}}))
//	store := fluxgate.Must(memstore.New(memstore.Config{}))
//	engine := fluxgate.Must(fluxgate.New(store, fluxgate.Static(set)))
//	limit := fluxgate.Must(httplimit.New(engine))
//	http.ListenAndServe(":8080", limit(mux))
//
// [New] returns a [Middleware], a func(http.Handler) http.Handler. To limit one
// route, wrap its handler in another middleware with its own [WithRuleSet],
// [WithCost] and [WithAttribute]; middlewares can be nested.
//
// # Requests
//
// Rules see the client's address, the method, path, host and headers of a
// request. The address is that of the peer, unless [WithClientIP] names the
// proxies in front of the server. [WithUserFunc], [WithAPIKeyFunc],
// [WithAttribute] and [WithAmend] add values of the service. Paths are matched
// as they were sent; behind [http.StripPrefix] without the prefix.
//
// # Response headers
//
// If a limit was evaluated, the response to the request, allowed or rejected, has
//
//	X-RateLimit-Limit: 1000                                    of the binding limit
//	X-RateLimit-Remaining: 950
//	X-RateLimit-Reset: 1700000003                              unix seconds: when it is full
//	RateLimit-Policy: "rule-1.per-minute";q=1000;w=60          one entry for each limit
//	RateLimit: "rule-1.per-minute";r=950;t=1
//
// The last two are those of the IETF's draft-ietf-httpapi-ratelimit-headers:
// q requests every w seconds; r remain, and there are more in t seconds. A name has a slash if
// the id of the rule or the label has a dot. Without t the limit is full, or counts concurrent
// requests, or Retry-After is sooner; t is 0 if the limit fills in less than a second. Limits of
// tokens and money, for which the draft has no unit, and of shadow rules are not shown.
// There are at most 8 entries, including the binding limit. Behind several
// middlewares the X-RateLimit headers are those of the tightest, or of the one that
// rejects, and the lists have a line of each.
//
// A rejected request gets a problem document (RFC 9457) that must not be cached:
//
//	reason             status
//	limited            429, with Retry-After, type quota-exceeded and the violated policies
//	cost-too-high      429, without Retry-After: it never fits
//	denied             403
//	bad-path           400: the path is too long, or routers may read it in several ways and the engine rejects that
//	too-many-rules     403: more rules match than can be evaluated
//	missing-identity   403
//	no-rule            403, if the engine rejects requests without a rule
//	no-rule-set        503, likewise
//	store-failure      503, of a rule that fails closed
//
// Without a decision the status is 500 if a function of an option failed, 503 if
// the deadline of the request has passed, and 499, for logs only, if the client has
// disconnected. The error goes to the [Observer] or the server's error log, never
// into the response. [WithRejection] replaces all of these responses.
//
// # Handlers
//
// A handler runs at most once. A panic in a function of an option is a 500 of
// that request; a panic of the handler is not recovered. The handler gets the
// server's own ResponseWriter, so that flushing, hijacking, HTTP/2, sendfile and
// [http.ResponseController] work. Headers are set before it runs, and it may
// change them.
//
// # Waiting
//
// A rule with the policy WAIT_FOR_REFILL holds a request until its tokens are
// available, if the engine has fluxgate.WithWaiting. If the client disconnects,
// the wait ends and unused tokens are given back where possible.
//
// # Settling
//
// The cost of a request is often known at its end: bytes sent, model tokens used.
// With [WithSettling] a handler passes it to [Settle], or to [SettleUsage] where rules
// count something other than requests, and the difference is given back or charged.
package httplimit
