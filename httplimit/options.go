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

// WithPaths limits only what one of the patterns matches: * is one segment, **
// any number, as in rules. A path that routers may read in several ways is
// limited if one of the readings matches. Case counts: in front of a router
// that ignores it, leave the choice to rules with IgnoreCase. By default every
// path is limited.
func WithPaths(patterns ...string) Option {
	return func(g *gate) error {
		if len(patterns) == 0 {
			return errors.New("paths: without a pattern nothing would be limited")
		}
		paths, err := match.CompilePaths(patterns)
		if err != nil {
			return fmt.Errorf("paths: %w", err)
		}
		g.include = paths
		return nil
	}
}

// WithoutPaths leaves out what one of the patterns matches, whatever
// [WithPaths] says. A path that routers may read in several ways is left out
// only if all readings match: /healthz/ is not left out by the pattern /healthz.
// By default nothing is left out.
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

// WithRuleSet names the rule set to decide by. The default is the limiter's
// own.
func WithRuleSet(id string) Option {
	return func(g *gate) error {
		g.ruleSet = id
		return nil
	}
}

// WithRuleSetFunc asks f for the rule set of every request. An empty answer
// means the limiter's own. If callers can choose the id, see that they cannot
// choose one that is not known: it limits nothing, unless the engine was made
// with fluxgate.WithMissingRule(false).
func WithRuleSetFunc(f func(*http.Request) string) Option {
	return func(g *gate) error {
		g.ruleSetOf = f
		return needed("a rule set", f == nil)
	}
}

// WithCost is what every request costs, in tokens. The default is 1.
func WithCost(tokens int64) Option {
	return func(g *gate) error {
		if tokens < 1 {
			return fmt.Errorf("a request costs at least one token, not %d", tokens)
		}
		g.cost = tokens
		return nil
	}
}

// WithCostFunc asks f what a request costs, in tokens. A cost of 0 takes
// nothing, and passes unless the caller is in debt; a negative one fails the
// request.
func WithCostFunc(f func(*http.Request) int64) Option {
	return func(g *gate) error {
		g.costOf = f
		return needed("a cost", f == nil)
	}
}

// WithClientIP finds the client's address with resolver, which knows the
// proxies in front of the server. The default trusts nobody: the address is
// the peer's.
func WithClientIP(resolver *clientip.Resolver) Option {
	return func(g *gate) error {
		g.ips = resolver
		return needed("a client's address", resolver == nil)
	}
}

// WithUserFunc asks f for the user that a request is from. An empty answer
// means that nobody knows. By default nobody does.
func WithUserFunc(f func(*http.Request) string) Option {
	return func(g *gate) error {
		g.userOf = f
		return needed("a user", f == nil)
	}
}

// WithAPIKeyFunc asks f for a request's API key, such as
// Header("X-API-Key") or [BearerToken]. An empty answer means that it has none.
// By default none has. A key counts as given: who may use it is for others to
// check, best before.
func WithAPIKeyFunc(f func(*http.Request) string) Option {
	return func(g *gate) error {
		g.apiKeyOf = f
		return needed("an API key", f == nil)
	}
}

// WithAttribute asks f for an attribute that rules can match or count by, such
// as the tenant from Header("X-Tenant"). An empty answer leaves it out. It can
// be given for any number of attributes.
func WithAttribute(name string, f func(*http.Request) string) Option {
	return func(g *gate) error {
		if name == "" {
			return errors.New("an attribute has no name")
		}
		g.attributes = append(g.attributes, attribute{name, f})
		return needed(fmt.Sprintf("attribute %q", name), f == nil)
	}
}

// WithAmend lets f change what is known about a request, after everything
// else, before it is decided. It must not keep req, and the headers in it are
// the request's own: read them only. An error fails the request.
func WithAmend(f func(r *http.Request, req *fluxgate.Request) error) Option {
	return func(g *gate) error {
		g.amend = f
		return needed("amending requests", f == nil)
	}
}

// WithRejection lets f write the answer to a request that does not pass. The
// headers about limits and Retry-After are set already. The default is
// [Rejection.Write].
func WithRejection(f func(w http.ResponseWriter, r *http.Request, rejection *Rejection)) Option {
	return func(g *gate) error {
		g.reject = f
		return needed("a rejection", f == nil)
	}
}

// WithSettling puts an [Admission] into the context of requests that pass, so
// that handlers can settle what they cost. Without it handlers get the request
// as it came, and there is nothing for [FromContext] to find.
func WithSettling(on bool) Option {
	return func(g *gate) error {
		g.settling = on
		return nil
	}
}

// WithIETFHeaders is whether responses carry RateLimit-Policy and RateLimit.
// By default they do.
func WithIETFHeaders(on bool) Option {
	return func(g *gate) error {
		g.ietfHeaders = on
		return nil
	}
}

// WithXHeaders is whether responses carry X-RateLimit-Limit,
// X-RateLimit-Remaining and X-RateLimit-Reset. By default they do.
func WithXHeaders(on bool) Option {
	return func(g *gate) error {
		g.xHeaders = on
		return nil
	}
}

// WithObserver tells o what became of each request. By default failures are
// written to the server's error log.
func WithObserver(o Observer) Option {
	return func(g *gate) error {
		g.observer = o
		return needed("observing", o == nil)
	}
}

// needed refuses an option that was given nothing.
func needed(what string, missing bool) error {
	if missing {
		return fmt.Errorf("%s needs something that is not nil", what)
	}
	return nil
}
