package httplimit

import (
	"net/http"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/clientip"
	"github.com/fluxgate/fluxgate/internal/middleware"
)

// Option changes what a [Middleware] does.
type Option func(*gate) error

// WithPaths limits only paths that match one of the patterns: * is one segment,
// ** any number, as in rules. A path that routers may read in several ways is
// limited if one of the readings matches. Case matters: in front of a router that
// ignores it, use rules with IgnoreCase instead. By default every path is limited.
func WithPaths(patterns ...string) Option {
	return func(g *gate) error { return g.SetInclude("paths", patterns) }
}

// WithoutPaths skips paths that match one of the patterns, also if [WithPaths]
// includes them. A path that routers may read in several ways is skipped only if
// all readings match: the pattern /healthz does not skip /healthz/. By default no
// path is skipped.
func WithoutPaths(patterns ...string) Option {
	return func(g *gate) error { return g.SetExclude("paths", patterns) }
}

// WithRuleSet sets the rule set. The default is the limiter's own. New fails if an engine
// knows that the rule set does not exist.
func WithRuleSet(id string) Option {
	return func(g *gate) error { return g.SetRuleSet(id) }
}

// WithRuleSetFunc calls f for the rule set of every request. An empty result means
// the limiter's own. Callers must not be able to choose an unknown id: it limits
// nothing, unless the engine has fluxgate.WithMissingRule(false).
func WithRuleSetFunc(f func(*http.Request) string) Option {
	return middleware.Needed("the function of WithRuleSetFunc", f == nil, func(g *gate) { g.RuleSetOf = f })
}

// WithCost sets the cost of every request in tokens. The default is 1.
func WithCost(tokens int64) Option {
	return func(g *gate) error { return g.SetCost(tokens) }
}

// WithCostFunc calls f for the cost of a request in tokens. A request with a cost of 0
// takes no tokens, and is allowed unless the caller is in debt. A negative cost fails
// the request.
func WithCostFunc(f func(*http.Request) int64) Option {
	return middleware.Needed("the function of WithCostFunc", f == nil, func(g *gate) { g.CostOf = f })
}

// WithClientIP resolves the client's address behind trusted proxies. The default
// trusts no proxy: the address is the peer's.
func WithClientIP(resolver *clientip.Resolver) Option {
	return middleware.Needed("the resolver of WithClientIP", resolver == nil, func(g *gate) { g.ClientIP = resolver })
}

// WithUserFunc calls f for the user of a request. An empty result means no user,
// which is the default.
func WithUserFunc(f func(*http.Request) string) Option {
	return middleware.Needed("the function of WithUserFunc", f == nil, func(g *gate) { g.UserOf = f })
}

// WithAPIKeyFunc calls f for the API key of a request, such as Header("X-API-Key")
// or [BearerToken]. An empty result means no key, which is the default. The key is
// not verified here: verify it before the middleware.
func WithAPIKeyFunc(f func(*http.Request) string) Option {
	return middleware.Needed("the function of WithAPIKeyFunc", f == nil, func(g *gate) { g.APIKeyOf = f })
}

// WithAttribute calls f for an attribute that rules can match or count by, such as
// the tenant from Header("X-Tenant"). An empty result means no attribute. The
// option can be repeated for other attributes.
func WithAttribute(name string, f func(*http.Request) string) Option {
	return func(g *gate) error { return g.AddAttribute(name, f) }
}

// WithAmend calls f to change the request before it is decided, after all other
// functions. f must not keep req or change its headers, which are those of r. An
// error fails the request.
func WithAmend(f func(r *http.Request, req *fluxgate.Request) error) Option {
	return middleware.Needed("the function of WithAmend", f == nil, func(g *gate) { g.Amend = f })
}

// WithRejection calls f to answer a rejected request. The rate limit headers and
// Retry-After are set already. The default is [Rejection.Write].
func WithRejection(f func(w http.ResponseWriter, r *http.Request, rejection *Rejection)) Option {
	return middleware.Needed("the function of WithRejection", f == nil, func(g *gate) { g.reject = f })
}

// WithSettling adds an [Admission] to the context of allowed requests, so that
// handlers can settle their cost. Without it [FromContext] finds none.
func WithSettling(on bool) Option {
	return middleware.Set(func(g *gate) { g.Settling = on })
}

// WithIETFHeaders sets whether responses have RateLimit-Policy and RateLimit. The
// default is true.
func WithIETFHeaders(on bool) Option {
	return middleware.Set(func(g *gate) { g.Headers.IETF = on })
}

// WithXHeaders sets whether responses have X-RateLimit-Limit,
// X-RateLimit-Remaining and X-RateLimit-Reset. The default is true.
func WithXHeaders(on bool) Option {
	return middleware.Set(func(g *gate) { g.Headers.X = on })
}

// WithObserver calls o with the result of each request. By default failures are
// written to the server's error log.
func WithObserver(o Observer) Option {
	return middleware.Needed("the observer", o == nil, func(g *gate) { g.Observer = o })
}
