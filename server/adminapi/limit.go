package adminapi

import (
	"context"
	"net/http"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/server/access"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// caller is who asks, or why nobody knows.
type caller struct {
	who *access.Identity
	err error
}

type callerKey struct{}

func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

// limit finds out who asks, and limits how often: with our own middleware, by
// rules in memory. Callers that nobody knows are limited by their address, and
// ten times as tightly.
func (a *API) limit(next http.Handler) (http.Handler, error) {
	const stranger = "stranger"
	set, err := fluxgate.NewRuleSet("admin",
		fluxgate.Rule{
			// Where nobody is asked who they are, by their addresses.
			ID: "callers", Group: "admin", Scope: fluxgate.ScopeUser, OnMissingIdentity: fluxgate.MissingIP,
			Bands: []fluxgate.Band{fluxgate.PerMinute(a.config.Rate)},
		},
		fluxgate.Rule{
			ID: "strangers", Group: "admin", Priority: 1, Scope: fluxgate.ScopeIP, Bands: []fluxgate.Band{fluxgate.PerMinute(max(1, a.config.Rate/10))},
			When: fluxgate.When{Attributes: map[string][]string{stranger: {"yes"}}},
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
	limited, err := httplimit.New(engine, httplimit.WithClientIP(a.clients), httplimit.WithRejection(rejected),
		httplimit.WithUserFunc(userName),
		httplimit.WithAttribute(stranger, func(r *http.Request) string {
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
		// The listener's own timeouts are those of a check.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(timeout + 5*time.Second))
		who, err := a.config.Guard.Identify(r)
		inner.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, caller{who, err})))
	}), nil
}

// userName is who sent a request, or empty if that is not known.
func userName(r *http.Request) string {
	if who := callerOf(r.Context()).who; who != nil && who.Name != access.Anonymous {
		return who.Name
	}
	return ""
}

// callerName is who sent a request, or its address if that is not known.
func (a *API) callerName(r *http.Request) string {
	if name := userName(r); name != "" {
		return name
	}
	return a.client(r).String()
}

// rejected answers a caller who asks too often.
func rejected(w http.ResponseWriter, _ *http.Request, rejection *httplimit.Rejection) {
	p := admin.NewProblem(rejection.Problem.Status, admin.KindLimited, rejection.Problem.Detail)
	if p.Status != http.StatusTooManyRequests {
		p.Kind = admin.KindUnavailable
	}
	write(w.Header(), w.WriteHeader, w, p)
}
