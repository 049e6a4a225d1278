// Package forwardauth decides requests for proxies: nginx's
// auth_request, Caddy's reverse_proxy with handle_response, Traefik's
// ForwardAuth, and HAProxy with a few lines of Lua. Ready configurations of all
// four are in deploy/proxies, and docs/proxies.md explains them.
//
// # The request of the proxy
//
// A proxy sends a request of its own, with headers that describe the client's:
//
//	X-Forwarded-Method   the method, required
//	X-Forwarded-Uri      path and query as they were sent, required
//	X-Forwarded-Host     the host; without it Host
//	X-Forwarded-For      the client's address, as package clientip reads it
//
// [Config] can change each name, for example to X-Original-Method. Only one name is
// read for each: the proxy overwrites that header, and any other would come from the
// client. For the same reason users, API keys and attributes are read only from
// headers that the configuration names. A header that occurs twice is rejected with
// 400, except X-Forwarded-For and Forwarded, which are lists. A URI with a raw # or
// with a raw \ in its path is rejected with 400: backends disagree on what these
// mean.
//
// The query has the parameters of the proxy. Clients cannot change it:
//
//	?ruleSet=partners    decide by this rule set instead of the limiter's own
//	?deny=403            answer every rejection with this status: 401, 403 or 429
//
// # The answer
//
//	204                  the request is allowed; the headers about limits are for the client
//	429, 403, 503, 400   the request is rejected: headers, Retry-After and a problem document as in
//	                     package httplimit, with its status once more in X-Fluxgate-Status
//	500, 503             there is no decision; X-Fluxgate-Status is missing, and the proxy
//	                     does what it is configured to do when fluxgate is unavailable
//	403                  ruleSet names a rule set that does not exist; X-Fluxgate-Status is 403
//	403                  the peer is not a trusted proxy; X-Fluxgate-Status is missing
//
// nginx accepts only 2xx, 401 and 403. With ?deny=403 every rejection is a 403.
// X-Fluxgate-Status has the actual status, and X-Fluxgate-Problem the document,
// since nginx drops the body. The configuration in deploy/proxies restores the
// answer from both headers.
//
// # Access
//
// Only trusted proxies may send requests, on loopback unless [Config] names
// others. Anyone else could take tokens in another caller's name.
package forwardauth
