package grpclimit

import (
	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/clientip"
	"github.com/fluxgate/fluxgate/internal/middleware"
)

// Option changes what [Interceptors] do.
type Option func(*gate) error

// WithMethods limits only methods that match one of the patterns, such as
// "/shop.Orders/Place" or "/shop.Orders/*": * is one segment, ** any number, as in
// the paths of rules. By default every method is limited.
func WithMethods(patterns ...string) Option {
	return func(g *gate) error { return g.SetInclude("methods", patterns) }
}

// WithoutMethods skips methods that match one of the patterns, such as
// "/grpc.health.v1.Health/*", also if [WithMethods] includes them. By default no
// method is skipped.
func WithoutMethods(patterns ...string) Option {
	return func(g *gate) error { return g.SetExclude("methods", patterns) }
}

// WithRuleSet sets the rule set. The default is the limiter's own. New fails if an engine
// knows that the rule set does not exist.
func WithRuleSet(id string) Option {
	return func(g *gate) error { return g.SetRuleSet(id) }
}

// WithRuleSetFunc calls f for the rule set of every call. An empty result means the
// limiter's own. Callers must not be able to choose an unknown id: it limits
// nothing, unless the engine has fluxgate.WithMissingRule(false).
func WithRuleSetFunc(f func(*Call) string) Option {
	return middleware.Needed("the function of WithRuleSetFunc", f == nil, func(g *gate) { g.RuleSetOf = f })
}

// WithCost sets the cost of every call in tokens. The default is 1.
func WithCost(tokens int64) Option {
	return func(g *gate) error { return g.SetCost(tokens) }
}

// WithCostFunc calls f for the cost of a call in tokens, such as the size of its
// Message. A call with a cost of 0 takes no tokens, and is allowed unless
// the caller is in debt. A negative cost fails the call.
func WithCostFunc(f func(*Call) int64) Option {
	return middleware.Needed("the function of WithCostFunc", f == nil, func(g *gate) { g.CostOf = f })
}

// WithClientIP resolves the client's address behind trusted proxies. The default
// trusts no proxy: the address is the peer's.
func WithClientIP(resolver *clientip.Resolver) Option {
	return middleware.Needed("the resolver of WithClientIP", resolver == nil, func(g *gate) { g.ClientIP = resolver })
}

// WithUserFunc calls f for the user of a call. An empty result means no user, which
// is the default.
func WithUserFunc(f func(*Call) string) Option {
	return middleware.Needed("the function of WithUserFunc", f == nil, func(g *gate) { g.UserOf = f })
}

// WithAPIKeyFunc calls f for the API key of a call, such as Metadata("x-api-key") or
// [BearerToken]. An empty result means no key, which is the default. The key is not
// verified here: verify it in an interceptor before this one.
func WithAPIKeyFunc(f func(*Call) string) Option {
	return middleware.Needed("the function of WithAPIKeyFunc", f == nil, func(g *gate) { g.APIKeyOf = f })
}

// WithAttribute calls f for an attribute that rules can match or count by, such as
// the tenant from Metadata("x-tenant"). An empty result means no attribute. The
// option can be repeated for other attributes.
func WithAttribute(name string, f func(*Call) string) Option {
	return func(g *gate) error { return g.AddAttribute(name, f) }
}

// WithAmend calls f to change the request before it is decided, after all other
// functions. f must not keep req or change its headers, which are the metadata of
// call. An error fails the call.
func WithAmend(f func(call *Call, req *fluxgate.Request) error) Option {
	return middleware.Needed("the function of WithAmend", f == nil, func(g *gate) { g.Amend = f })
}

// WithRejection calls f for the error of a rejected call. If f returns nil, and by
// default, the error is the Status of the rejection. The rate limit headers are set
// already.
func WithRejection(f func(call *Call, rejection *Rejection) error) Option {
	return middleware.Needed("the function of WithRejection", f == nil, func(g *gate) { g.reject = f })
}

// WithSettling adds an [Admission] to the context of allowed calls, so that
// handlers can settle their cost. Without it [FromContext] finds none.
func WithSettling(on bool) Option {
	return middleware.Set(func(g *gate) { g.Settling = on })
}

// WithIETFHeaders sets whether the header metadata has ratelimit-policy and
// ratelimit. The default is true.
func WithIETFHeaders(on bool) Option {
	return middleware.Set(func(g *gate) { g.Headers.IETF = on })
}

// WithXHeaders sets whether the header metadata has x-ratelimit-limit,
// x-ratelimit-remaining and x-ratelimit-reset. The default is true.
func WithXHeaders(on bool) Option {
	return middleware.Set(func(g *gate) { g.Headers.X = on })
}

// WithObserver calls o with the result of each call. By default failures are written
// to gRPC's log.
func WithObserver(o Observer) Option {
	return middleware.Needed("the observer", o == nil, func(g *gate) { g.Observer = o })
}
