// Package httplimit puts a rate limit in front of HTTP handlers.
//
// # Five lines
//
//	rules := fluxgate.Must(fluxgate.NewRuleSet("api", fluxgate.Rule{ID: "per-ip", Scope: fluxgate.ScopeIP, Bands: []fluxgate.Band{fluxgate.PerMinute(100)}}))
//	store := fluxgate.Must(memstore.New(memstore.Config{}))
//	engine := fluxgate.Must(fluxgate.New(store, fluxgate.Static(rules)))
//	limit := fluxgate.Must(httplimit.New(engine))
//	http.ListenAndServe(":8080", limit(mux))
//
// [New] makes a [Middleware], which is func(http.Handler) http.Handler and fits
// wherever one does. A limit for one route is another middleware around that
// route's handler, with its own [WithRuleSet], [WithCost] and
// [WithAttribute]; middlewares can stand behind each other.
//
// # Who is asking
//
// A request is known by its client's address, method, path, host and headers.
// The address is the peer's, unless [WithClientIP] knows the proxies in front
// of the server. [WithUserFunc], [WithAPIKeyFunc], [WithAttribute] and
// [WithAmend] add what only the service knows. Paths are given to the rules
// as they were sent and matched as routers see them: behind
// [http.StripPrefix] that is what is left of them.
//
// # What a response says
//
// A response to a request that a band was asked about, allowed or not, has
//
//	X-RateLimit-Limit: 1000                                    of the binding band
//	X-RateLimit-Remaining: 950
//	X-RateLimit-Reset: 1700000003                              unix seconds: when it is full
//	RateLimit-Policy: "rule-1.per-minute";q=1000;w=60          one entry for each band
//	RateLimit: "rule-1.per-minute";r=950;t=3
//
// The last two are those of the IETF's draft-ietf-httpapi-ratelimit-headers:
// q tokens every w seconds; r of them are left, which has to do for t seconds.
// In a rejection t is at most Retry-After. Bands of shadow rules are not shown,
// and there are at most 8 entries, the binding band's among them. Behind
// several middlewares the X-RateLimit headers are those of the tightest, or of
// the one that rejects, and the lists have the entries of all.
//
// A request that does not pass gets a problem document (RFC 9457) which says
// what it ran into, and no cache may keep it:
//
//	reason             status
//	limited            429, with Retry-After, type quota-exceeded and the violated policies
//	cost-too-high      429, without Retry-After: it never fits
//	denied             403
//	bad-path           400: the path is too long, or routers may read it in several ways and the engine refuses that
//	too-many-rules     403: more rules apply than can be counted
//	missing-identity   403: only the service knows how to ask for one with a 401
//	no-rule            403, where the engine refuses what no rule limits
//	no-rule-set        503, likewise: the rules are not there
//	store-failure      503, of a rule that fails closed
//
// Where there is no decision the answer is 500 if a function of the user's
// failed, 503 if the request's deadline is over, and
// 499, for logs only, if the client has gone. The error goes to the [Observer], or the server's error log, and never in the answer.
// [WithRejection] writes all of these differently.
//
// # What a handler can rely on
//
// It runs once or not at all, whatever panics: a panic of a function given to
// the middleware is that request's 500, and one of the handler's own passes
// through. It gets the server's own ResponseWriter, so that flushing,
// hijacking, HTTP/2, sendfile and [http.ResponseController] work as without
// the middleware; the headers are set before it runs, and it may change them.
//
// # Waiting
//
// A rule with the policy WAIT_FOR_REFILL holds a request until its tokens are
// there, if the engine was made with fluxgate.WithWaiting. A client that hangs
// up ends its wait and gives back what can be given back.
//
// # Settling
//
// What a request costs is often known when it is done: bytes sent, model
// tokens used. With [WithSettling] a handler tells it to [Settle], and the
// difference to what was taken is given back or charged.
package httplimit
