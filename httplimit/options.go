package httplimit

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/clientip"
	"github.com/fluxgate/fluxgate/internal/match"
)

// Option changes what a [Middleware] does.
type Option func(*gate) error

// WithPaths limits only paths that match one of the patterns: * is one segment,
// ** any number, as in rules. A path that routers may read in several ways is
// limited if one of the readings matches. Case matters: in front of a router that
// ignores it, use rules with IgnoreCase instead. By default every path is limited.
func WithPaths(patterns ...string) Option {
	return func(g *gate) error {
		if len(patterns) == 0 {
			return errors.New("paths: at least one pattern is needed")
		}
		paths, err := match.CompilePaths(patterns)
		if err != nil {
			return fmt.Errorf("paths: %w", err)
		}
		g.include = paths
		return nil
	}
}

// WithoutPaths skips paths that match one of the patterns, also if [WithPaths]
// includes them. A path that routers may read in several ways is skipped only if
// all readings match: the pattern /healthz does not skip /healthz/. By default no
// path is skipped.
func WithoutPaths(patterns ...string) Option {
	return func(g *gate) error {
		paths, err := match.CompilePaths(patterns)
		if err != nil {
			return fmt.Errorf("excluded paths: %w", err)
		}
		g.exclude = paths
		return nil
	}
}

// WithRuleSet sets the rule set. The default is the limiter's own.
func WithRuleSet(id string) Option {
	return set(func(g *gate) { g.ruleSet = id })
}

// WithRuleSetFunc calls f for the rule set of every request. An empty result means
// the limiter's own. Callers must not be able to choose an unknown id: it limits
// nothing, unless the engine has fluxgate.WithMissingRule(false).
func WithRuleSetFunc(f func(*http.Request) string) Option {
	return needed("the function of WithRuleSetFunc", f == nil, func(g *gate) { g.ruleSetOf = f })
}

// WithCost sets the cost of every request in tokens. The default is 1.
func WithCost(tokens int64) Option {
	return func(g *gate) error {
		if tokens < 1 {
			return fmt.Errorf("the cost of a request must be at least 1 token, not %d", tokens)
		}
		g.cost = tokens
		return nil
	}
}

// WithCostFunc calls f for the cost of a request in tokens. A cost of 0 takes no
// tokens, and passes unless the caller is in debt; a negative one fails the
// request.
func WithCostFunc(f func(*http.Request) int64) Option {
	return needed("the function of WithCostFunc", f == nil, func(g *gate) { g.costOf = f })
}

// WithClientIP resolves the client's address behind trusted proxies. The default
// trusts no proxy: the address is the peer's.
func WithClientIP(resolver *clientip.Resolver) Option {
	return needed("the resolver of WithClientIP", resolver == nil, func(g *gate) { g.ips = resolver })
}

// WithUserFunc calls f for the user of a request. An empty result means no user,
// which is the default.
func WithUserFunc(f func(*http.Request) string) Option {
	return needed("the function of WithUserFunc", f == nil, func(g *gate) { g.userOf = f })
}

// WithAPIKeyFunc calls f for the API key of a request, such as Header("X-API-Key")
// or [BearerToken]. An empty result means no key, which is the default. The key is
// not verified here: verify it before the middleware.
func WithAPIKeyFunc(f func(*http.Request) string) Option {
	return needed("the function of WithAPIKeyFunc", f == nil, func(g *gate) { g.apiKeyOf = f })
}

// WithAttribute calls f for an attribute that rules can match or count by, such as
// the tenant from Header("X-Tenant"). An empty result means no attribute. The
// option can be repeated for other attributes.
func WithAttribute(name string, f func(*http.Request) string) Option {
	if name == "" {
		return func(*gate) error { return errors.New("an attribute has no name") }
	}
	return needed(fmt.Sprintf("the function of attribute %q", name), f == nil, func(g *gate) { g.attributes = append(g.attributes, attribute{name, f}) })
}

// WithAmend calls f to change the request before it is decided, after all other
// functions. f must not keep req or change its headers, which are those of r. An
// error fails the request.
func WithAmend(f func(r *http.Request, req *fluxgate.Request) error) Option {
	return needed("the function of WithAmend", f == nil, func(g *gate) { g.amend = f })
}

// WithRejection calls f to answer a request that does not pass. The rate limit
// headers and Retry-After are set already. The default is [Rejection.Write].
func WithRejection(f func(w http.ResponseWriter, r *http.Request, rejection *Rejection)) Option {
	return needed("the function of WithRejection", f == nil, func(g *gate) { g.reject = f })
}

// WithSettling adds an [Admission] to the context of requests that pass, so that
// handlers can settle their cost. Without it [FromContext] finds none.
func WithSettling(on bool) Option {
	return set(func(g *gate) { g.settling = on })
}

// WithIETFHeaders sets whether responses have RateLimit-Policy and RateLimit. The
// default is true.
func WithIETFHeaders(on bool) Option {
	return set(func(g *gate) { g.ietfHeaders = on })
}

// WithXHeaders sets whether responses have X-RateLimit-Limit,
// X-RateLimit-Remaining and X-RateLimit-Reset. The default is true.
func WithXHeaders(on bool) Option {
	return set(func(g *gate) { g.xHeaders = on })
}

// WithObserver calls o with the result of each request. By default failures are
// written to the server's error log.
func WithObserver(o Observer) Option {
	return needed("the observer", o == nil, func(g *gate) { g.observer = o })
}

func set(change func(*gate)) Option {
	return func(g *gate) error {
		change(g)
		return nil
	}
}

// needed returns an option that is an error if its value is missing.
func needed(what string, missing bool, change func(*gate)) Option {
	if missing {
		return func(*gate) error { return fmt.Errorf("%s must not be nil", what) }
	}
	return set(change)
}
