package adminapi

import (
	"context"
	"net/http"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/access"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// caller is the identity of a caller, or why it has none.
type caller struct {
	who *access.Identity
	err error
}

type callerKey struct{}

func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

// limit authenticates callers and limits their requests, with our own middleware and
// rules in memory. Callers without an identity are limited by address, to a tenth of
// the rate.
func (a *API) limit(next http.Handler) (http.Handler, error) {
	const unknown = "unknown"
	set, err := rules.NewSet("admin",
		rules.Rule{
			// Without authentication, by address.
			ID: "callers", Group: "admin", Scope: rules.ScopeUser, OnMissingIdentity: rules.MissingIP,
			Bands: []rules.Band{rules.PerMinute(a.config.Rate)},
		},
		rules.Rule{
			ID: "unknown-callers", Group: "admin", Priority: 1, Scope: rules.ScopeIP,
			Bands: []rules.Band{rules.PerMinute(max(1, a.config.Rate/10))},
			When:  rules.When{Attributes: map[string][]string{unknown: {"yes"}}},
		})
	if err != nil {
		return nil, err
	}
	store, err := memstore.New(memstore.Config{MaxBuckets: 10_000})
	if err != nil {
		return nil, err
	}
	engine, err := fluxgate.New(store, fluxgate.Static(set))
	if err != nil {
		return nil, err
	}
	limited, err := httplimit.New(engine, httplimit.WithClientIP(a.config.Clients), httplimit.WithRejection(rejected),
		httplimit.WithUserFunc(userName),
		httplimit.WithAttribute(unknown, func(r *http.Request) string {
			if callerOf(r.Context()).who == nil {
				return "yes"
			}
			return ""
		}))
	if err != nil {
		return nil, err
	}
	inner := limited(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The listener's timeouts are meant for checks.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(timeout + 5*time.Second))
		who, err := a.config.Guard.Identify(r)
		inner.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, caller{who, err})))
	}), nil
}

// userName returns the name of a caller, empty if it has none.
func userName(r *http.Request) string {
	if who := callerOf(r.Context()).who; who != nil && who.Name != access.Anonymous {
		return who.Name
	}
	return ""
}

// callerName returns the name of a caller, or its address if it has none.
func (a *API) callerName(r *http.Request) string {
	if name := userName(r); name != "" {
		return name
	}
	return a.config.Clients.Addr(r).String()
}

// rejected answers a caller that sends too many requests.
func rejected(w http.ResponseWriter, _ *http.Request, rejection *httplimit.Rejection) {
	p := admin.NewProblem(rejection.Problem.Status, admin.KindLimited, rejection.Problem.Detail)
	if p.Status != http.StatusTooManyRequests {
		p.Kind = admin.KindUnavailable
	}
	write(w.Header(), w.WriteHeader, w, p)
}
